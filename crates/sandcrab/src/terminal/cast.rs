//! Reads recordings: asciicast, versions 2 and 3.

use std::io::{self, BufRead};
use std::time::Duration;

use serde::Deserialize;

/// The longest line. The recordings of a server have lines of at most 64 KiB.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// A longer recording is not valid: times would not fit.
const MAX_SECONDS: f64 = 1e9;

/// The first line of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) cols: u16,
    pub(super) rows: u16,
}

/// One event of a recording.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    /// Time since the event before it.
    pub(super) after: Duration,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Output(String),
    /// Input, sizes, markers.
    Other,
}

/// An error with the number of its line.
#[derive(Debug, thiserror::Error)]
pub(super) enum CastError {
    #[error("{0}")]
    Read(#[from] io::Error),
    #[error("line {line}: {why}")]
    Invalid { line: u64, why: String },
}

/// The lines of a recording.
#[derive(Debug)]
pub(super) struct Cast<R> {
    lines: R,
    line: u64,
    /// Times of version 2 are absolute, those of version 3 relative.
    is_relative: bool,
    last: f64,
}

#[derive(Debug, Deserialize)]
struct RawHeader {
    version: u64,
    #[serde(default)]
    width: u16,
    #[serde(default)]
    height: u16,
    #[serde(default)]
    term: Option<RawTerm>,
}

#[derive(Debug, Deserialize)]
struct RawTerm {
    #[serde(default)]
    cols: u16,
    #[serde(default)]
    rows: u16,
}

impl<R: BufRead> Cast<R> {
    /// Reads the header.
    pub(super) fn open(lines: R) -> Result<(Header, Self), CastError> {
        let mut cast = Self { lines, line: 0, is_relative: false, last: 0.0 };
        let text = cast.next_line()?.ok_or_else(|| cast.invalid("the file is empty"))?;
        let header: RawHeader =
            serde_json::from_str(&text).map_err(|_| cast.invalid("not an asciicast header"))?;
        let (cols, rows) = match (header.version, header.term) {
            (2, _) => (header.width, header.height),
            (3, Some(term)) => (term.cols, term.rows),
            (3, None) => (0, 0),
            (other, _) => {
                return Err(
                    cast.invalid(&format!("version {other} of asciicast is not supported; use 2 or 3"))
                );
            }
        };
        cast.is_relative = header.version == 3;
        Ok((Header { cols, rows }, cast))
    }

    /// The next event; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<Event>, CastError> {
        loop {
            let Some(text) = self.next_line()? else { return Ok(None) };
            // Comments are allowed in version 3.
            if text.trim().is_empty() || text.starts_with('#') {
                continue;
            }
            let parsed: Result<(f64, String, serde_json::Value), _> = serde_json::from_str(&text);
            let (time, code, data) = parsed.map_err(|_| self.invalid("expected [TIME, CODE, DATA]"))?;
            if !(0.0..=MAX_SECONDS).contains(&time) {
                return Err(self.invalid("the time is not valid"));
            }
            let after = if self.is_relative { time } else { (time - self.last).max(0.0) };
            self.last = time;
            let kind = match (code.as_str(), data) {
                ("o", serde_json::Value::String(data)) => Kind::Output(data),
                _ => Kind::Other,
            };
            return Ok(Some(Event { after: Duration::from_secs_f64(after), kind }));
        }
    }

    fn next_line(&mut self) -> Result<Option<String>, CastError> {
        self.line += 1;
        let mut line = Vec::new();
        io::Read::take(&mut self.lines, MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        if !line.ends_with(b"\n") && line.len() as u64 == MAX_LINE_BYTES {
            return Err(self.invalid(&format!("longer than {MAX_LINE_BYTES} bytes")));
        }
        String::from_utf8(line).map(Some).map_err(|_| self.invalid("it is not UTF-8"))
    }

    fn invalid(&self, why: &str) -> CastError {
        CastError::Invalid { line: self.line, why: why.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Result<Vec<(u128, String)>, CastError> {
        let (_, mut cast) = Cast::open(text.as_bytes())?;
        let mut events = Vec::new();
        while let Some(event) = cast.next()? {
            let text = match event.kind {
                Kind::Output(text) => text,
                Kind::Other => "-".to_owned(),
            };
            events.push((event.after.as_millis(), text));
        }
        Ok(events)
    }

    #[test]
    fn both_versions_are_read() {
        let owned = |list: &[(u128, &str)]| {
            list.iter().map(|(at, text)| (*at, (*text).to_owned())).collect::<Vec<_>>()
        };
        let second = "{\"version\":2,\"width\":80,\"height\":24}\n[0.5,\"o\",\"a\\u001b[m\"]\n[0.75,\"i\",\"x\"]\n[2,\"r\",\"9x9\"]\n[2,\"o\",\"b\"]\n";
        let expected = owned(&[(500, "a\x1b[m"), (250, "-"), (1250, "-"), (0, "b")]);
        assert_eq!(events(second).unwrap(), expected);
        let third = "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24}}\n# note\n[0.5,\"o\",\"a\"]\n[0.25,\"x\",\"0\"]";
        assert_eq!(events(third).unwrap(), owned(&[(500, "a"), (250, "-")]));
        let (header, _) = Cast::open(third.as_bytes()).unwrap();
        assert_eq!(header, Header { cols: 80, rows: 24 });
    }

    #[test]
    fn errors_have_a_line() {
        let error = |text: &str| events(text).unwrap_err().to_string();
        assert_eq!(error(""), "line 1: the file is empty");
        assert_eq!(error("hello\n"), "line 1: not an asciicast header");
        assert!(error("{\"version\":1}\n").contains("version 1"));
        let head = "{\"version\":2,\"width\":80,\"height\":24}\n";
        assert_eq!(error(&format!("{head}[1]\n")), "line 2: expected [TIME, CODE, DATA]");
        assert_eq!(error(&format!("{head}[-1,\"o\",\"\"]\n")), "line 2: the time is not valid");
        assert_eq!(error(&format!("{head}[1e300,\"o\",\"\"]\n")), "line 2: the time is not valid");
        // Times that go back are shown at once.
        assert_eq!(
            events(&format!("{head}[5,\"o\",\"a\"]\n[1,\"o\",\"b\"]")).unwrap()[1],
            (0, "b".to_owned())
        );
        let long = format!("{head}{}", "x".repeat(usize::try_from(MAX_LINE_BYTES).unwrap() + 1));
        assert!(error(&long).starts_with("line 2: longer than"));
    }
}
