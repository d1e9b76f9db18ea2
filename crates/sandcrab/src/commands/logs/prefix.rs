//! [`Prefix`]: the id before each line, where the output of several processes is mixed.

/// The longest line that is held back until its end arrives. The rest of a longer one gets a prefix of its own.
const MAX_LINE_BYTES: usize = 64 << 10;

/// A stream of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// Adds a prefix to each line. A line is held back until it is complete, so that no other output gets into it.
#[derive(Debug)]
pub(super) struct Prefix {
    /// `None`: bytes pass unchanged.
    prefix: Option<Vec<u8>>,
    unfinished: [Vec<u8>; 2],
}

impl Prefix {
    /// Bytes pass unchanged.
    pub(super) fn none() -> Self {
        Self { prefix: None, unfinished: Default::default() }
    }

    /// A prefix padded to a width.
    pub(super) fn new(id: &str, width: usize) -> Self {
        Self { prefix: Some(format!("{id:width$} | ").into_bytes()), unfinished: Default::default() }
    }

    /// The complete lines with their prefix.
    pub(super) fn lines(&mut self, stream: Stream, bytes: Vec<u8>) -> Vec<u8> {
        let Some(prefix) = &self.prefix else { return bytes };
        let unfinished = &mut self.unfinished[usize::from(stream == Stream::Stderr)];
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            unfinished.extend_from_slice(piece);
            let is_complete = piece.ends_with(b"\n");
            if is_complete || unfinished.len() >= MAX_LINE_BYTES {
                lines.extend_from_slice(prefix);
                lines.append(unfinished);
                if !is_complete {
                    lines.push(b'\n');
                }
            }
        }
        lines
    }

    /// What was held back, as a line.
    pub(super) fn finish(&mut self, stream: Stream) -> Vec<u8> {
        if self.unfinished[usize::from(stream == Stream::Stderr)].is_empty() {
            return Vec::new();
        }
        self.lines(stream, b"\n".to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_gets_a_prefix() {
        let mut prefix = Prefix::new("ab", 3);
        let mut push =
            |stream, bytes: &[u8]| String::from_utf8(prefix.lines(stream, bytes.to_vec())).unwrap();
        assert_eq!(push(Stream::Stdout, b"one\ntw"), "ab  | one\n");
        assert_eq!(push(Stream::Stderr, b"error\n"), "ab  | error\n");
        assert_eq!(push(Stream::Stdout, b"o\n\n"), "ab  | two\nab  | \n");
        assert_eq!(push(Stream::Stdout, b"end"), "");
        assert_eq!(prefix.finish(Stream::Stdout), b"ab  | end\n");
        assert_eq!(prefix.finish(Stream::Stdout), b"");
        let long = prefix.lines(Stream::Stdout, vec![b'x'; MAX_LINE_BYTES]);
        assert!(long.starts_with(b"ab  | xx") && long.ends_with(b"x\n"));
        assert_eq!(Prefix::none().lines(Stream::Stdout, b"a\nb".to_vec()), b"a\nb");
    }
}
