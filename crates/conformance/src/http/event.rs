//! [`EventStream`]: server-sent events, parsed as the standard defines them.

use std::collections::VecDeque;
use std::io;

use serde_json::Value;

use super::body::Body;
use super::response::Head;
use super::target::{TEST_TIMEOUT, with_timeout};

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its `id:`.
    pub id: Option<String>,
    /// Its `event:`.
    pub name: Option<String>,
    /// Its data, parsed as JSON.
    pub data: Value,
}

impl Event {
    /// Returns the `type` of its data.
    pub fn kind(&self) -> &str {
        self.data["type"].as_str().unwrap_or_default()
    }
}

/// A part of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// An event.
    Event(Event),
    /// A comment, used as a heartbeat.
    Comment(String),
}

/// Parses bytes incrementally.
#[derive(Debug, Default)]
struct Parser {
    line: Vec<u8>,
    id: Option<String>,
    name: Option<String>,
    data: Vec<String>,
    ready: VecDeque<Part>,
}

impl Parser {
    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.take(&line);
            } else {
                self.line.push(*byte);
            }
        }
    }

    fn take(&mut self, line: &[u8]) {
        // The server never splits a character, so each line is valid text.
        let line = std::str::from_utf8(line).expect("a line of a stream is not UTF-8");
        let line = line.trim_end_matches('\r');
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match field {
            "" => self.ready.push_back(Part::Comment(value)),
            "id" => self.id = Some(value),
            "event" => self.name = Some(value),
            "data" => self.data.push(value),
            "retry" => {}
            other => panic!("a stream has an unknown field {other:?}"),
        }
    }

    fn end_event(&mut self) {
        let (id, name) = (self.id.take(), self.name.take());
        let data = std::mem::take(&mut self.data);
        if !data.is_empty() {
            let text = data.join("\n");
            let data = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in the event {text:?}"));
            self.ready.push_back(Part::Event(Event { id, name, data }));
        }
    }
}

/// A stream of events.
#[derive(Debug)]
pub struct EventStream {
    /// The head of the response.
    pub head: Head,
    body: Body,
    parser: Parser,
}

impl EventStream {
    /// Returns the events of a response.
    pub fn new(head: Head, body: Body) -> Self {
        Self { head, body, parser: Parser::default() }
    }

    /// Waits for the next part, without a timeout. Returns `None` at the end, and an error if the connection
    /// was lost.
    pub async fn part(&mut self) -> io::Result<Option<Part>> {
        loop {
            if let Some(part) = self.parser.ready.pop_front() {
                return Ok(Some(part));
            }
            match self.body.next().await? {
                Some(bytes) => self.parser.feed(&bytes),
                None => return Ok(None),
            }
        }
    }

    /// Returns the next event, skipping comments, or an error if the connection was lost.
    pub async fn try_next(&mut self) -> io::Result<Option<Event>> {
        loop {
            match self.part().await? {
                Some(Part::Event(event)) => return Ok(Some(event)),
                Some(Part::Comment(_)) => {}
                None => return Ok(None),
            }
        }
    }

    /// Returns the next event. Panics if there is none.
    pub async fn next(&mut self) -> Event {
        let next = with_timeout("an event", self.try_next()).await;
        next.expect("the stream was cut").expect("the stream has ended")
    }

    /// Returns the next event of a type, skipping others.
    pub async fn next_of(&mut self, kind: &str) -> Event {
        loop {
            let event = self.next().await;
            if event.kind() == kind {
                return event;
            }
        }
    }

    /// Returns all events up to the end, which must arrive within [`TEST_TIMEOUT`].
    pub async fn rest(&mut self) -> Vec<Event> {
        let all = async {
            let mut events = Vec::new();
            while let Some(event) = self.try_next().await.expect("the stream was cut") {
                events.push(event);
            }
            events
        };
        match tokio::time::timeout(TEST_TIMEOUT, all).await {
            Ok(events) => events,
            Err(_) => panic!("a stream did not end within {TEST_TIMEOUT:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_same_however_it_is_cut() {
        let text = "id: 3\ndata: {\"type\":\"ü\"}\n\n: alive\r\n\r\nevent: x\ndata: [1,\ndata: 2]\n\n";
        let parse = |size: usize| {
            let mut parser = Parser::default();
            text.as_bytes().chunks(size).for_each(|chunk| parser.feed(chunk));
            parser.ready
        };
        let whole = parse(text.len());
        assert_eq!(whole.len(), 3, "{whole:?}");
        for size in 1..text.len() {
            assert_eq!(parse(size), whole);
        }
    }
}
