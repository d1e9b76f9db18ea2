//! [`Asciicast`]: writes a recording in the asciicast format, version 2.
//!
//! The first line is a header. Each further line is an event: seconds since the start, its kind, its data.

use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::text::{Decoder, escape};

/// Resets a player whose output has a gap, because a sequence may be cut.
const RESET: &str = "\u{1b}c";

/// Facts of a recording that its header states.
#[derive(Debug)]
pub(crate) struct Header<'a> {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
    pub(crate) command: &'a str,
    /// The value of `TERM`, for a terminal.
    pub(crate) term: Option<&'a str>,
}

/// Writes the events of one recording.
#[derive(Debug)]
pub(crate) struct Asciicast {
    start: SystemTime,
    /// The time of the last event. Times never decrease, also if the clock is set back.
    last: Duration,
    /// One per stream.
    decoders: [Decoder; 2],
    /// For the output of a program without a terminal: a line feed becomes CR LF, and this is whether the last byte was CR.
    ends_in_cr: Option<[bool; 2]>,
}

impl Asciicast {
    /// A recording that starts at this time. `is_terminal`: whether the output comes from a terminal, which has already turned
    /// line feeds into CR LF.
    pub(crate) fn new(start: SystemTime, is_terminal: bool) -> Self {
        let ends_in_cr = (!is_terminal).then_some([false; 2]);
        Self { start, last: Duration::ZERO, decoders: Default::default(), ends_in_cr }
    }

    /// Writes the header.
    pub(crate) fn header(&self, header: &Header<'_>, to: &mut Vec<u8>) {
        let seconds = self.start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let Header { cols, rows, command, term } = header;
        let mut json = json!({
            "version": 2, "width": cols, "height": rows, "timestamp": seconds, "command": command
        });
        if let Some(term) = term {
            json["env"] = json!({ "TERM": term });
        }
        to.extend_from_slice(json.to_string().as_bytes());
        to.push(b'\n');
    }

    /// Writes output of stream 0 or 1.
    pub(crate) fn output(&mut self, time: SystemTime, stream: usize, bytes: &[u8], to: &mut Vec<u8>) {
        let with_returns = self.ends_in_cr.as_mut().map(|ends| add_returns(bytes, &mut ends[stream]));
        let bytes = with_returns.as_deref().unwrap_or(bytes);
        let before = to.len();
        self.begin(time, 'o', to);
        let empty = to.len();
        self.decoders[stream].decode(bytes, |text| escape(text.as_bytes(), to));
        if to.len() == empty {
            // Only the first bytes of a character, which come with the rest of it.
            to.truncate(before);
        } else {
            end(to);
        }
    }

    /// Writes a change of the size.
    pub(crate) fn resize(&mut self, time: SystemTime, cols: u16, rows: u16, to: &mut Vec<u8>) {
        self.event(time, 'r', &format!("{cols}x{rows}"), to);
    }

    /// Writes that bytes are missing.
    pub(crate) fn gap(&mut self, time: SystemTime, bytes: u64, to: &mut Vec<u8>) {
        self.decoders = Default::default();
        self.event(time, 'm', &format!("{bytes} bytes of output were dropped"), to);
        self.event(time, 'o', RESET, to);
    }

    fn event(&mut self, time: SystemTime, kind: char, data: &str, to: &mut Vec<u8>) {
        self.begin(time, kind, to);
        escape(data.as_bytes(), to);
        end(to);
    }

    fn begin(&mut self, time: SystemTime, kind: char, to: &mut Vec<u8>) {
        self.last = self.last.max(time.duration_since(self.start).unwrap_or_default());
        let micros = self.last.as_micros();
        let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
        to.extend_from_slice(format!("[{seconds}.{micros:06}, \"{kind}\", \"").as_bytes());
    }
}

fn end(to: &mut Vec<u8>) {
    to.extend_from_slice(b"\"]\n");
}

fn add_returns(bytes: &[u8], ends_in_cr: &mut bool) -> Vec<u8> {
    let mut with = Vec::with_capacity(bytes.len() + bytes.len() / 16);
    for byte in bytes {
        if *byte == b'\n' && !*ends_in_cr {
            with.push(b'\r');
        }
        with.push(*byte);
        *ends_in_cr = *byte == b'\r';
    }
    with
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_lines_of_json() {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let at = |millis| start + Duration::from_millis(millis);
        let mut cast = Asciicast::new(start, true);
        let mut to = Vec::new();
        cast.header(&Header { cols: 80, rows: 24, command: "a \"b\"", term: Some("xterm") }, &mut to);
        cast.output(at(250), 0, b"\x1b[1mh\xc3", &mut to);
        cast.output(at(260), 0, b"\xa9\r\n\xff", &mut to);
        cast.resize(at(1_500), 120, 40, &mut to);
        // A clock that was set back.
        cast.gap(at(100), 7, &mut to);
        cast.output(at(2_000), 0, b"\xe2", &mut to);
        let text = String::from_utf8(to).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["timestamp"], 1_700_000_000);
        assert_eq!(lines[0]["env"]["TERM"], "xterm");
        let events: Vec<_> = lines[1..].to_vec();
        assert_eq!(
            events,
            [
                serde_json::json!([0.25, "o", "\u{1b}[1mh"]),
                serde_json::json!([0.26, "o", "é\r\n\u{fffd}"]),
                serde_json::json!([1.5, "r", "120x40"]),
                serde_json::json!([1.5, "m", "7 bytes of output were dropped"]),
                serde_json::json!([1.5, "o", "\u{1b}c"]),
            ]
        );
    }

    #[test]
    fn lines_of_a_process_return() {
        let mut cast = Asciicast::new(SystemTime::UNIX_EPOCH, false);
        let mut to = Vec::new();
        for piece in [&b"a\nb\r"[..], b"\n\n"] {
            cast.output(SystemTime::UNIX_EPOCH, 0, piece, &mut to);
        }
        let text = String::from_utf8(to).unwrap();
        assert_eq!(text, "[0.000000, \"o\", \"a\\r\\nb\\r\"]\n[0.000000, \"o\", \"\\n\\r\\n\"]\n");
    }
}
