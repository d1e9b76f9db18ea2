//! [`Output`]: output of a command, cut to a size.

use std::collections::VecDeque;

use sandcrab_client::api::process::StreamName;

use crate::cut;

/// Output of a command, of which the beginning and the end are kept. Positions are cursors: they count the bytes of both
/// streams in the order in which they were written.
#[derive(Debug)]
pub(crate) struct Output {
    head_limit: usize,
    tail_limit: usize,
    head: VecDeque<Piece>,
    tail: VecDeque<Piece>,
    head_bytes: usize,
    tail_bytes: usize,
    /// After the last byte.
    position: u64,
    /// Bytes that the server has dropped.
    dropped: u64,
}

#[derive(Debug)]
struct Piece {
    stream: StreamName,
    /// Cursor of its first byte.
    at: u64,
    bytes: VecDeque<u8>,
}

/// The text of an output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OutputText {
    /// Both streams, in the order in which they were written.
    pub(crate) text: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The part that was left out.
    pub(crate) omitted: Option<Omitted>,
    /// Bytes that the server has dropped.
    pub(crate) dropped: u64,
    /// After the last byte of the text.
    pub(crate) cursor: u64,
}

/// A part of the output that was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Omitted {
    /// Its first cursor.
    pub(crate) cursor: u64,
    /// Number of bytes.
    pub(crate) bytes: u64,
    /// Its place in `text`, `stdout` and `stderr`.
    pub(crate) places: [usize; 3],
}

impl OutputText {
    /// The text with a note in place of what was left out.
    pub(crate) fn text_with(&self, note: &str) -> String {
        self.with_note(&self.text, 0, note)
    }

    /// Standard output and standard error, likewise.
    pub(crate) fn streams_with(&self, note: &str) -> [String; 2] {
        [self.with_note(&self.stdout, 1, note), self.with_note(&self.stderr, 2, note)]
    }

    fn with_note(&self, text: &str, which: usize, note: &str) -> String {
        let mut text = text.to_owned();
        if let Some(omitted) = self.omitted.filter(|_| !text.is_empty()) {
            text.insert_str(omitted.places[which], note);
        }
        text
    }
}

impl Output {
    /// Keeps the beginning and the end, half each.
    pub(crate) fn both_ends(limit: usize) -> Self {
        Self::new(limit - limit / 2, limit / 2, 0)
    }

    /// Keeps the beginning, from a cursor on.
    pub(crate) fn forward(limit: usize, from: u64) -> Self {
        Self::new(limit, 0, from)
    }

    fn new(head_limit: usize, tail_limit: usize, position: u64) -> Self {
        let (head, tail) = (VecDeque::new(), VecDeque::new());
        Self { head_limit, tail_limit, head, tail, head_bytes: 0, tail_bytes: 0, position, dropped: 0 }
    }

    /// Whether there is more output than is kept.
    pub(crate) fn is_full(&self) -> bool {
        self.omitted() > 0
    }

    fn omitted(&self) -> u64 {
        let end_of_head = self.head.back().map(|piece| piece.at + piece.bytes.len() as u64);
        match (end_of_head, self.tail.front()) {
            (Some(end), Some(first)) => first.at.saturating_sub(end),
            (Some(end), None) => self.position.saturating_sub(end),
            _ => 0,
        }
    }

    /// Adds output.
    pub(crate) fn push(&mut self, stream: StreamName, bytes: &[u8]) {
        let room =
            if self.tail.is_empty() && self.omitted() == 0 { self.head_limit - self.head_bytes } else { 0 };
        let (to_head, to_tail) = bytes.split_at(room.min(bytes.len()));
        if !to_head.is_empty() {
            self.head_bytes += to_head.len();
            self.head.push_back(Piece {
                stream,
                at: self.position,
                bytes: to_head.iter().copied().collect(),
            });
            self.position += to_head.len() as u64;
        }
        if !to_tail.is_empty() && self.tail_limit > 0 {
            self.tail_bytes += to_tail.len();
            self.tail.push_back(Piece {
                stream,
                at: self.position,
                bytes: to_tail.iter().copied().collect(),
            });
        }
        self.position += to_tail.len() as u64;
        self.shorten_tail();
    }

    fn shorten_tail(&mut self) {
        while self.tail_bytes > self.tail_limit {
            let Some(first) = self.tail.front_mut() else { return };
            let surplus = (self.tail_bytes - self.tail_limit).min(first.bytes.len());
            first.bytes.drain(..surplus);
            first.at += surplus as u64;
            self.tail_bytes -= surplus;
            if first.bytes.is_empty() {
                self.tail.pop_front();
            }
        }
    }

    /// Notes that the server has dropped output up to a cursor.
    pub(crate) fn skip_to(&mut self, cursor: u64) {
        self.dropped += cursor.saturating_sub(self.position);
        self.position = self.position.max(cursor);
    }

    /// The last line so far.
    pub(crate) fn last_line(&self, limit: usize) -> Option<String> {
        let pieces = if self.tail.is_empty() { &self.head } else { &self.tail };
        let piece = pieces.back()?;
        let bytes: Vec<u8> = piece.bytes.iter().rev().take(4 * limit).copied().collect();
        let bytes: Vec<u8> = bytes.into_iter().rev().collect();
        cut::last_line(&String::from_utf8_lossy(&bytes), limit).map(str::to_owned)
    }

    /// Whether the kept output contains a text.
    pub(crate) fn contains(&self, text: &str) -> bool {
        self.render(true).text.contains(text)
    }

    /// The text. `is_end` says that no output follows: a character that is incomplete at the end is then replaced, and
    /// otherwise left to the next cursor.
    pub(crate) fn render(&self, is_end: bool) -> OutputText {
        let mut result = OutputText { dropped: self.dropped, cursor: self.position, ..OutputText::default() };
        let mut decoder = Decoder::default();
        for piece in &self.head {
            decoder.push(piece, &mut result);
        }
        let mut omitted = self.omitted();
        if omitted > 0 {
            // Characters at the edges stay whole: bytes of cut ones are omitted, too.
            let end = self.head.back().map_or(0, |piece| piece.at + piece.bytes.len() as u64);
            let held = decoder.hold_back(self.head.back().map(|piece| piece.stream), &mut result);
            let places = [result.text.len(), result.stdout.len(), result.stderr.len()];
            omitted += held;
            let mut skipped = 0;
            for (index, piece) in self.tail.iter().enumerate() {
                let is_rest = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
                let rest =
                    if index == 0 { piece.bytes.iter().take(3).take_while(is_rest).count() } else { 0 };
                skipped += rest as u64;
                let bytes = piece.bytes.iter().skip(rest).copied().collect();
                decoder.push(&Piece { stream: piece.stream, at: piece.at, bytes }, &mut result);
            }
            result.omitted = Some(Omitted { cursor: end - held, bytes: omitted + skipped, places });
            if self.tail.is_empty() {
                result.cursor = end - held;
            }
        } else {
            for piece in &self.tail {
                decoder.push(piece, &mut result);
            }
        }
        if self.omitted() == 0 || !self.tail.is_empty() {
            if is_end {
                decoder.flush(&mut result);
            } else {
                let last = self.tail.back().or(self.head.back()).map(|piece| piece.stream);
                result.cursor -= decoder.hold_back(last, &mut result);
            }
        }
        result
    }
}

/// Decodes two streams whose characters may be split between pieces.
#[derive(Debug, Default)]
struct Decoder {
    incomplete: [Vec<u8>; 2],
}

impl Decoder {
    fn push(&mut self, piece: &Piece, result: &mut OutputText) {
        let pending = &mut self.incomplete[index(piece.stream)];
        pending.extend(&piece.bytes);
        let complete = pending.len() - incomplete_suffix(pending);
        let rest = pending.split_off(complete);
        let bytes = std::mem::replace(pending, rest);
        append(piece.stream, &bytes, result);
    }

    /// The number of bytes of an incomplete character at the end of the stream that was written last. Those of the other
    /// stream have been passed by the cursor, and are replaced.
    fn hold_back(&mut self, last: Option<StreamName>, result: &mut OutputText) -> u64 {
        let held = last.map_or(0, |stream| std::mem::take(&mut self.incomplete[index(stream)]).len());
        self.flush(result);
        held as u64
    }

    fn flush(&mut self, result: &mut OutputText) {
        for stream in [StreamName::Stdout, StreamName::Stderr] {
            let bytes = std::mem::take(&mut self.incomplete[index(stream)]);
            append(stream, &bytes, result);
        }
    }
}

fn index(stream: StreamName) -> usize {
    usize::from(stream == StreamName::Stderr)
}

fn append(stream: StreamName, bytes: &[u8], result: &mut OutputText) {
    let text = String::from_utf8_lossy(bytes);
    result.text.push_str(&text);
    match stream {
        StreamName::Stdout => result.stdout.push_str(&text),
        StreamName::Stderr => result.stderr.push_str(&text),
    }
}

/// The number of bytes at the end that may be the beginning of a character.
fn incomplete_suffix(bytes: &[u8]) -> usize {
    for back in 1..=3.min(bytes.len()) {
        let byte = bytes[bytes.len() - back];
        let length = match byte {
            0b1100_0000..=0b1101_1111 => 2,
            0b1110_0000..=0b1110_1111 => 3,
            0b1111_0000..=0b1111_0111 => 4,
            0b1000_0000..=0b1011_1111 => continue,
            _ => return 0,
        };
        return if back < length { back } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: StreamName = StreamName::Stdout;
    const ERR: StreamName = StreamName::Stderr;

    #[test]
    fn short_output_is_whole() {
        let mut output = Output::both_ends(10);
        output.push(OUT, b"abcd");
        output.push(ERR, b"efghij");
        let whole = output.render(true);
        assert_eq!(
            (whole.text.as_str(), whole.stdout.as_str(), whole.stderr.as_str()),
            ("abcdefghij", "abcd", "efghij")
        );
        assert_eq!((whole.omitted, whole.cursor), (None, 10));
    }

    #[test]
    fn the_middle_of_long_output_is_omitted() {
        let mut output = Output::both_ends(8);
        for byte in b'a'..=b'z' {
            output.push(OUT, &[byte]);
        }
        let cut = output.render(true);
        assert_eq!((cut.text_with("…").as_str(), cut.cursor), ("abcd…wxyz", 26));
        assert_eq!(cut.streams_with("…"), ["abcd…wxyz", ""]);
        assert_eq!(cut.omitted, Some(Omitted { cursor: 4, bytes: 18, places: [4, 4, 0] }));
        assert_eq!(output.last_line(9).as_deref(), Some("z"));
    }

    #[test]
    fn characters_at_the_edges_are_omitted_whole() {
        let mut output = Output::both_ends(6);
        // Two bytes each; both limits are in the middle of one.
        output.push(OUT, "éééééé".as_bytes());
        let cut = output.render(true);
        assert_eq!((cut.text_with("…").as_str(), cut.cursor), ("é…é", 12));
        assert_eq!(cut.omitted, Some(Omitted { cursor: 2, bytes: 8, places: [2, 2, 0] }));
    }

    #[test]
    fn reading_forward_continues_at_the_cursor() {
        let text = "añb€c𝄞d".repeat(50);
        for limit in 4..40 {
            let (mut seen, mut cursor) = (String::new(), 0);
            while cursor < text.len() as u64 {
                let mut output = Output::forward(limit, cursor);
                let start = usize::try_from(cursor).unwrap();
                for piece in text.as_bytes()[start..].chunks(7) {
                    output.push(OUT, piece);
                    if output.is_full() {
                        break;
                    }
                }
                let part = output.render(false);
                assert!(part.text.len() <= limit && part.cursor > cursor, "{limit} {cursor}");
                seen.push_str(&part.text);
                cursor = part.cursor;
            }
            assert_eq!(seen, text, "{limit}");
        }
    }

    #[test]
    fn split_characters_of_two_streams() {
        let mut output = Output::both_ends(100);
        let (first, rest) = "€".as_bytes().split_at(1);
        output.push(OUT, first);
        output.push(ERR, b"x");
        output.push(OUT, rest);
        assert_eq!(output.render(true).text, "x€");
        output.push(OUT, first);
        let running = output.render(false);
        assert_eq!((running.text.as_str(), running.cursor), ("x€", 4));
        assert_eq!(output.render(true).text, "x€\u{fffd}");
    }

    #[test]
    fn dropped_output_is_counted() {
        let mut output = Output::forward(10, 5);
        output.skip_to(100);
        output.push(ERR, b"z");
        let rendered = output.render(true);
        assert_eq!((rendered.text.as_str(), rendered.dropped, rendered.cursor), ("z", 95, 101));
    }
}
