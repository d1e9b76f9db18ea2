//! An incremental parser of server-sent events, after the HTML standard.

use std::collections::VecDeque;

/// Maximum size of an event.
pub(crate) const MAX_EVENT_BYTES: usize = 64 << 20;
/// The UTF-8 byte order mark, which may precede the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its name; empty if it has none.
    pub(crate) name: String,
    /// Its data.
    pub(crate) data: String,
    /// The last id of this or an earlier event.
    pub(crate) id: String,
}

/// An event was longer than [`MAX_EVENT_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The parser, with the incomplete part of a stream.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// An incomplete line.
    line: Vec<u8>,
    /// Whether a line has been read: before the first there may be a byte order mark.
    has_begun: bool,
    /// Whether the last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    name: String,
    data: String,
    id: String,
}

impl Parser {
    /// Takes the next bytes, and adds the events that they complete.
    pub(crate) fn push(&mut self, mut bytes: &[u8], events: &mut VecDeque<Event>) -> Result<(), TooLong> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\r', b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            self.check(line)?;
            if self.line.is_empty() {
                self.take_line(line, events);
            } else {
                self.line.extend_from_slice(line);
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, events);
            }
            bytes = match (bytes[end], rest) {
                (b'\r', []) => {
                    self.after_cr = true;
                    rest
                }
                (b'\r', [b'\n', rest @ ..]) => rest,
                _ => rest,
            };
        }
        self.check(bytes)?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn check(&self, more: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + self.data.len() + more.len() > MAX_EVENT_BYTES { Err(TooLong) } else { Ok(()) }
    }

    fn take_line(&mut self, mut line: &[u8], events: &mut VecDeque<Event>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return self.finish(events);
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match field {
            b"data" => {
                self.data.push_str(&value);
                self.data.push('\n');
            }
            b"event" => self.name = value.into_owned(),
            b"id" if !value.contains('\0') => self.id = value.into_owned(),
            // Comments, which have no name, and fields of later versions of the standard.
            _ => (),
        }
    }

    fn finish(&mut self, events: &mut VecDeque<Event>) {
        let name = std::mem::take(&mut self.name);
        let mut data = std::mem::take(&mut self.data);
        // Every line of data added a newline. Without data there is no event.
        if data.pop().is_some() {
            events.push_back(Event { name, data, id: self.id.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
        let mut parser = Parser::default();
        let mut events = VecDeque::new();
        for piece in pieces {
            parser.push(piece, &mut events).unwrap();
        }
        events.into()
    }

    /// The standard, implemented literally for a complete stream.
    fn model(stream: &[u8]) -> Vec<Event> {
        let stream = stream.strip_prefix(BYTE_ORDER_MARK).unwrap_or(stream);
        let text = String::from_utf8_lossy(stream).replace("\r\n", "\n").replace('\r', "\n");
        // Text after the last line end is not a line.
        let Some((text, _)) = text.rsplit_once('\n') else { return Vec::new() };
        let (mut events, mut id) = (Vec::new(), String::new());
        let (mut name, mut data) = (String::new(), Vec::new());
        for line in text.split('\n') {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" if line.is_empty() => {
                    let (name, data) = (std::mem::take(&mut name), std::mem::take(&mut data));
                    if !data.is_empty() {
                        events.push(Event { name, data: data.join("\n"), id: id.clone() });
                    }
                }
                "data" => data.push(value.to_owned()),
                "event" => name = value.to_owned(),
                "id" if !value.contains('\0') => id = value.to_owned(),
                _ => (),
            }
        }
        events
    }

    /// Lines as a server may send them, with all kinds of line ends, and lines that only resemble fields.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let field = prop::sample::select(vec![
            &b"data"[..],
            b"data:",
            b"data: ",
            b"id: ",
            b"id",
            b"event: ",
            b": ",
            b":",
            b"retry: ",
            b"dat",
            b"data :",
            b"",
            b"",
            b"\xEF\xBB\xBFdata: ",
        ]);
        let byte = prop::sample::select(b"a: \0\xC3\xA4\xEF\xBB\xBF\xFF\"{}".to_vec());
        let value = prop::collection::vec(byte, 0..6);
        let end = prop::sample::select(vec![
            &b"\n"[..],
            b"\r",
            b"\r\n",
            b"\n\n",
            b"\r\r",
            b"\r\n\r\n",
            b"\n\r",
            b"",
        ]);
        let line = (field, value, end).prop_map(|(field, value, end)| [field, &value, end].concat());
        (any::<bool>(), prop::collection::vec(line, 0..20)).prop_map(|(mark, lines)| {
            let mark = if mark { BYTE_ORDER_MARK } else { b"" };
            [mark, &lines.concat()].concat()
        })
    }

    proptest! {
        #[test]
        fn parser_matches_the_standard(
            stream in stream(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
            prop_assert_eq!(parse(pieces), model(&stream));
        }

        #[test]
        fn byte_by_byte(stream in stream()) {
            prop_assert_eq!(parse(stream.chunks(1)), model(&stream));
        }

        #[test]
        fn any_bytes_at_all(stream in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(parse([&stream[..]]), model(&stream));
        }
    }

    #[test]
    fn names_ids_and_several_lines() {
        let events = parse([&b"\xEF\xBB\xBF: hello\nid: 7\nevent: x\ndata: a\ndata:  b\ndata\n\ndata: c\r\n\r\nid\rdata:d\r\r"[..]]);
        let event =
            |name: &str, data: &str, id: &str| Event { name: name.into(), data: data.into(), id: id.into() };
        assert_eq!(events, [event("x", "a\n b\n", "7"), event("", "c", "7"), event("", "d", "")]);
    }

    #[test]
    fn id_alone_is_not_an_event() {
        let events = parse([&b"id: 1\n\nid: 2\n\ndata: x\n\n"[..]]);
        assert_eq!(events, [Event { name: String::new(), data: "x".into(), id: "2".into() }]);
    }

    #[test]
    fn endless_line_is_refused() {
        let mut parser = Parser::default();
        let mut events = VecDeque::new();
        let piece = vec![b'x'; 1 << 20];
        let refused = (0..=MAX_EVENT_BYTES >> 20).find_map(|_| parser.push(&piece, &mut events).err());
        assert_eq!(refused, Some(TooLong));
    }
}
