//! [`LineReader`]: a range of lines of a file, cut to a size.

use sandcrab_client::RawOutput;

use crate::failure::ToolError;

/// A position in a file: `BYTE:LINE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// Number of bytes before it.
    pub(crate) byte: u64,
    /// Line that it is in, from 1.
    pub(crate) line: u64,
}

impl Position {
    pub(crate) const START: Self = Self { byte: 0, line: 1 };

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (byte, line) = text.split_once(':')?;
        Some(Self { byte: byte.parse().ok()?, line: line.parse().ok().filter(|line| *line > 0)? })
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.byte, self.line)
    }
}

/// Lines of a file.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) text: String,
    /// Where the text ends.
    pub(crate) end: Position,
    /// Whether the size cut it.
    pub(crate) is_cut: bool,
}

/// Collects lines from chunks of bytes.
#[derive(Debug)]
struct Collector {
    first: u64,
    last: u64,
    limit: usize,
    at: Position,
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Collector {
    /// Takes bytes; returns whether it needs more.
    fn push(&mut self, chunk: &[u8]) -> bool {
        let mut rest = chunk;
        while !rest.is_empty() {
            if self.at.line > self.last {
                return false;
            }
            let line_end = rest.iter().position(|byte| *byte == b'\n');
            let line = &rest[..line_end.map_or(rest.len(), |end| end + 1)];
            if self.at.line >= self.first {
                let room = self.limit - self.bytes.len();
                if line.len() > room {
                    self.bytes.extend_from_slice(&line[..room]);
                    self.at.byte += room as u64;
                    self.is_cut = true;
                    return false;
                }
                self.bytes.extend_from_slice(line);
            }
            self.at.byte += line.len() as u64;
            self.at.line += u64::from(line_end.is_some());
            rest = &rest[line.len()..];
        }
        self.at.line <= self.last
    }

    fn finish(mut self) -> Lines {
        if self.is_cut {
            // The rest of a character at the end is left to the cursor.
            let valid = match str::from_utf8(&self.bytes) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => self.bytes.len(),
            };
            self.at.byte -= (self.bytes.len() - valid) as u64;
            self.bytes.truncate(valid);
        }
        Lines { text: String::from_utf8_lossy(&self.bytes).into_owned(), end: self.at, is_cut: self.is_cut }
    }
}

/// Reads the lines `first` to `last` of a file whose bytes begin at a position. A binary file is an error.
pub(crate) async fn read(
    mut file: RawOutput,
    from: Position,
    first: u64,
    last: u64,
    limit: usize,
) -> Result<Lines, ToolError> {
    let mut collector = Collector { first, last, limit, at: from, bytes: Vec::new(), is_cut: false };
    while let Some(chunk) = file.chunk().await? {
        if !collector.push(&chunk) {
            break;
        }
    }
    if collector.bytes.contains(&0) {
        let hint = "run a program that shows it with exec, such as `xxd`, or read the resource sandcrab://file{path}";
        return Err(ToolError::new("BINARY_FILE", "the file is not text", hint));
    }
    Ok(collector.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(text: &str, from: Position, first: u64, last: u64, limit: usize) -> Lines {
        let mut collector = Collector { first, last, limit, at: from, bytes: Vec::new(), is_cut: false };
        let start = usize::try_from(from.byte).unwrap();
        for chunk in text.as_bytes()[start..].chunks(5) {
            if !collector.push(chunk) {
                break;
            }
        }
        collector.finish()
    }

    #[test]
    fn ranges_of_lines() {
        let text = "one\ntwo\nthree\nfour";
        let range = |first, last| collect(text, Position::START, first, last, 100).text;
        assert_eq!(range(1, u64::MAX), text);
        assert_eq!(range(2, 3), "two\nthree\n");
        assert_eq!(range(4, 9), "four");
        assert_eq!(range(7, 9), "");
        let lines = collect(text, Position::START, 1, 2, 100);
        assert_eq!((lines.end, lines.is_cut), (Position { byte: 8, line: 3 }, false));
    }

    #[test]
    fn the_cursor_continues_within_a_line() {
        let text = "añb€c𝄞d\n".repeat(9);
        for limit in 4..30 {
            let (mut seen, mut at) = (String::new(), Position::START);
            loop {
                let lines = collect(&text, at, 1, u64::MAX, limit);
                assert!(lines.text.len() <= limit);
                seen.push_str(&lines.text);
                assert_eq!(Position::parse(&lines.end.to_string()), Some(lines.end));
                if !lines.is_cut {
                    break;
                }
                assert!(lines.end.byte > at.byte, "{limit}");
                at = lines.end;
            }
            assert_eq!(seen, text, "{limit}");
        }
        assert_eq!(Position::parse("3:0"), None);
        assert_eq!(Position::parse("x"), None);
    }
}
