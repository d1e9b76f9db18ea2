//! [`Cursor`]: the position from which a stream resumes, as clients store it.
//!
//! A journal's cursor is a number of output bytes. A text stream may be in the middle of a character: its bytes that
//! were read, but not sent, are part of the cursor. So a resumed stream gets every character whole and nothing twice.
//! `1234` is a plain cursor; `1234:2:0` has two unsent bytes of standard output.

use std::fmt;
use std::future::ready;
use std::str::FromStr;

use sandcrab_engine::Execution;

use crate::error::ApiError;
use crate::summary;

/// Maximum number of bytes of an incomplete character.
const MAX_HELD: u8 = 3;

/// The position from which a stream resumes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) position: u64,
    /// Number of unsent bytes before it, per stream.
    pub(crate) held: [u8; 2],
}

impl Cursor {
    /// Whether anything comes before it.
    pub(crate) fn is_past_start(self) -> bool {
        self.position > 0
    }

    /// Refuses a cursor beyond the end: the output up to there would be missed.
    pub(crate) fn check(self, execution: &Execution) -> Result<(), ApiError> {
        if self.is_past_start() { self.check_end(execution.reader()?.cursor_end()?) } else { Ok(()) }
    }

    /// The same, with retries while the machine has no descriptors.
    pub(crate) async fn check_with_retries(self, execution: &Execution) -> Result<(), ApiError> {
        if !self.is_past_start() {
            return Ok(());
        }
        let end =
            summary::with_retries(|| ready(execution.reader().and_then(|mut reader| reader.cursor_end())))
                .await?;
        self.check_end(end)
    }

    fn check_end(self, end: u64) -> Result<(), ApiError> {
        if self.position > end {
            let why = "the cursor is beyond the end of the output; use one from a response or an event";
            return Err(ApiError::invalid("since", why));
        }
        Ok(())
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, held: [stdout, stderr] } = self;
        match (stdout, stderr) {
            (0, 0) => write!(f, "{position}"),
            _ => write!(f, "{position}:{stdout}:{stderr}"),
        }
    }
}

impl FromStr for Cursor {
    type Err = ApiError;

    fn from_str(text: &str) -> Result<Self, ApiError> {
        let bad = || {
            let shown: String = text.chars().take(40).collect();
            ApiError::invalid(
                "since",
                format!("invalid cursor {shown:?}; use one from a response or an event"),
            )
        };
        let mut parts = text.split(':');
        let position = parts.next().and_then(|part| part.parse().ok()).ok_or_else(bad)?;
        let mut held = [0; 2];
        if text.contains(':') {
            for count in &mut held {
                *count = parts.next().and_then(|part| part.parse().ok()).ok_or_else(bad)?;
            }
        }
        if parts.next().is_some() || held.iter().any(|count| *count > MAX_HELD) {
            return Err(bad());
        }
        Ok(Self { position, held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip() {
        for cursor in [Cursor { position: 0, held: [0, 0] }, Cursor { position: u64::MAX, held: [3, 1] }] {
            assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        }
        for text in ["", "-1", "x", "1:", "1:1", "1:4:0", "1:1:1:1", "18446744073709551616"] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
    }
}
