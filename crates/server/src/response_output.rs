//! Responses with output, read from the journal as the client reads, and never held whole in memory.
//!
//! A small response is a wire type that contains its output. A large one is written in pieces: the two
//! streams first, because it is then known whether bytes were replaced, and the other fields after them.

use std::ops::Range;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sandcrab_api::execute::{Encoding, ExecuteResult, Truncated};
use sandcrab_api::process::ProcessLogs;
use sandcrab_engine::{Execution, Output, OutputReader, ReadAt, ReadError, Stream, StreamPlan};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::body::pieces::{self, PieceSource};
use crate::error::ApiError;
use crate::origin::Origin;
use crate::outgoing::{Outgoing, PIECE_BYTES};
use crate::text::{self, StringWriter};

/// Maximum length of a UTF-8 character in bytes.
const MAX_CHARACTER: u8 = 4;

/// A response type with the fields `stdout` and `stderr`.
pub(crate) trait HasOutput: Serialize + Send + Unpin + 'static {
    /// Sets the output. `invalid_utf8` is true if invalid bytes were replaced.
    fn set_output(&mut self, stdout: String, stderr: String, invalid_utf8: bool);

    /// Sets the number of bytes that were left out.
    fn set_truncated(&mut self, truncated: Option<Truncated>);
}

impl HasOutput for ExecuteResult {
    fn set_output(&mut self, stdout: String, stderr: String, invalid_utf8: bool) {
        (self.stdout, self.stderr, self.invalid_utf8) = (stdout, stderr, invalid_utf8);
    }

    fn set_truncated(&mut self, truncated: Option<Truncated>) {
        self.truncated = truncated;
    }
}

impl HasOutput for ProcessLogs {
    fn set_output(&mut self, stdout: String, stderr: String, invalid_utf8: bool) {
        (self.stdout, self.stderr, self.invalid_utf8) = (stdout, stderr, invalid_utf8);
    }

    fn set_truncated(&mut self, truncated: Option<Truncated>) {
        self.truncated = truncated;
    }
}

/// Source of the output of a response.
#[derive(Debug)]
enum Source {
    /// Memory: both streams, complete.
    Memory([Vec<u8>; 2]),
    /// The journal: ranges of both streams, in the order of writing.
    Journal(Box<OutputReader>, [Vec<Range<u64>>; 2]),
}

/// The output of a response.
#[derive(Debug)]
pub(crate) struct ResponseOutput {
    source: Source,
    encoding: Encoding,
    pub(crate) truncated: Option<Truncated>,
    /// Number of bytes of each stream that were read.
    read_bytes: [u64; 2],
    /// Text that is appended to standard error.
    note: String,
}

impl ResponseOutput {
    /// No output.
    pub(crate) fn empty(encoding: Encoding) -> Self {
        let source = Source::Memory(Default::default());
        Self { source, encoding, truncated: None, read_bytes: [0; 2], note: String::new() }
    }

    /// No output, although there is some: `truncated` reports how much.
    pub(crate) fn omitted(encoding: Encoding, truncated: Truncated) -> Self {
        Self { truncated: Some(truncated), ..Self::empty(encoding) }
    }

    /// Returns the output of an execution and the cursor after it: beginning and end of both streams within a
    /// limit. Reads at most one piece in advance.
    pub(crate) fn of(
        execution: &Execution,
        limit: u64,
        encoding: Encoding,
        piece_bytes: u64,
    ) -> Result<(Self, u64), ReadError> {
        match execution.output_bytes() {
            // The journal of a command without output need not be read.
            0 => return Ok((Self::empty(encoding), 0)),
            bytes if bytes <= limit.min(piece_bytes) => {
                // A single read returns everything, unless more was written meanwhile or some was dropped.
                let Output { stdout, stderr, cursor } = execution.output(PIECE_BYTES)?;
                if stdout.omitted + stderr.omitted == 0 {
                    let source = Source::Memory([stdout.bytes, stderr.bytes]);
                    return Ok((Self { source, ..Self::empty(encoding) }, cursor));
                }
            }
            _ => {}
        }
        let mut reader = execution.reader()?;
        let cursor = reader.cursor_end()?;
        Ok((Self::head_and_tail(reader, limit, encoding)?, cursor))
    }

    /// Beginning and end of both streams within a limit.
    pub(crate) fn head_and_tail(
        mut reader: OutputReader,
        limit: u64,
        encoding: Encoding,
    ) -> Result<Self, ReadError> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut stdout = reader.plan(Stream::Stdout, limit)?;
        let mut stderr = reader.plan(Stream::Stderr, limit)?;
        if encoding == Encoding::Utf8 {
            align(&mut reader, Stream::Stdout, &mut stdout)?;
            align(&mut reader, Stream::Stderr, &mut stderr)?;
        }
        let truncated = (stdout.omitted + stderr.omitted > 0).then_some(Truncated {
            stdout_bytes: stdout.omitted,
            stdout_after_bytes: stdout.head.end,
            stderr_bytes: stderr.omitted,
            stderr_after_bytes: stderr.head.end,
        });
        let plans = [stdout, stderr].map(|plan| vec![plan.head, plan.tail]);
        let source = Source::Journal(Box::new(reader), plans);
        Ok(Self { source, truncated, ..Self::empty(encoding) })
    }

    /// One range of each stream.
    pub(crate) fn ranges(
        reader: OutputReader,
        ranges: [Range<u64>; 2],
        encoding: Encoding,
        truncated: Option<Truncated>,
    ) -> Self {
        let source = Source::Journal(Box::new(reader), ranges.map(|range| vec![range]));
        Self { source, truncated, ..Self::empty(encoding) }
    }

    /// Removes the newline at the end of each stream.
    pub(crate) fn without_final_newlines(mut self) -> Result<Self, ReadError> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if self.last_byte(stream)? != Some(b'\n') {
                continue;
            }
            match &mut self.source {
                Source::Memory(streams) => drop(streams[index(stream)].pop()),
                Source::Journal(_, plans) => {
                    let last = plans[index(stream)].iter_mut().rev().find(|range| !range.is_empty());
                    last.into_iter().for_each(|range| range.end -= 1);
                }
            }
        }
        Ok(self)
    }

    /// Appends a line to standard error.
    pub(crate) fn with_line(mut self, line: &str) -> Result<Self, ReadError> {
        if !matches!(self.last_byte(Stream::Stderr)?, None | Some(b'\n')) {
            self.note.push('\n');
        }
        self.note.push_str(line);
        Ok(self)
    }

    /// Returns the last byte of a stream.
    fn last_byte(&mut self, stream: Stream) -> Result<Option<u8>, ReadError> {
        match &mut self.source {
            Source::Memory(streams) => Ok(streams[index(stream)].last().copied()),
            Source::Journal(reader, plans) => {
                let Some(range) = plans[index(stream)].iter().rev().find(|range| !range.is_empty()) else {
                    return Ok(None);
                };
                let mut byte = [0];
                Ok(read_some(reader, stream, range.end - 1..range.end, &mut byte)?.first().copied())
            }
        }
    }

    /// Returns the number of bytes that are still to be read.
    fn unread_bytes(&self) -> u64 {
        match &self.source {
            Source::Memory(_) => 0,
            Source::Journal(_, plans) => {
                plans.iter().flatten().map(|range| range.end.saturating_sub(range.start)).sum()
            }
        }
    }

    /// Returns the response with this output.
    pub(crate) fn respond(mut self, answer: impl HasOutput, outgoing: &Outgoing, origin: Origin) -> Response {
        let body = if self.unread_bytes() <= outgoing.piece_bytes() as u64 {
            match self.whole(answer) {
                // The outermost layer counts it.
                Ok(json) => json.into(),
                Err(e) => return ApiError::from(e).into_response(),
            }
        } else {
            // The client may take a long time to read the first piece.
            if let Source::Journal(reader, _) = &mut self.source {
                reader.close();
            }
            pieces::body(ResponseWriter::new(self, answer), outgoing.clone(), origin)
        };
        let json = HeaderValue::from_static("application/json");
        (StatusCode::OK, [(header::CONTENT_TYPE, json)], body).into_response()
    }

    /// Appends the next piece of a stream in the journal. Returns whether there was one.
    fn read(&mut self, stream: Stream, most: usize, to: &mut Vec<u8>) -> Result<bool, ReadError> {
        let Source::Journal(reader, plans) = &mut self.source else { return Ok(false) };
        let Some(range) = plans[index(stream)].iter_mut().find(|range| range.start < range.end) else {
            return Ok(false);
        };
        let wanted = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(most);
        let start = to.len();
        to.resize(start + wanted, 0);
        let read = reader.read(stream, range.start, &mut to[start..]);
        let got = if let Ok(ReadAt::Bytes(n)) = read { n } else { 0 };
        to.truncate(start + got);
        let next = match read? {
            ReadAt::Bytes(n) => range.start + n as u64,
            // Dropped after it was selected, because the command continues to write.
            ReadAt::Gap { to } => to.min(range.end),
            ReadAt::Nothing => range.end,
        };
        let dropped = next - range.start - got as u64;
        range.start = next;
        let read_bytes = &mut self.read_bytes[index(stream)];
        *read_bytes += got as u64;
        if dropped > 0 {
            add_dropped(self.truncated.get_or_insert_default(), stream, dropped, *read_bytes);
        }
        Ok(true)
    }

    /// Returns the complete response as JSON.
    fn whole(mut self, mut answer: impl HasOutput) -> Result<Vec<u8>, ReadError> {
        if matches!(self.source, Source::Journal(..)) {
            let mut streams: [Vec<u8>; 2] = Default::default();
            for stream in [Stream::Stdout, Stream::Stderr] {
                while self.read(stream, PIECE_BYTES, &mut streams[index(stream)])? {}
            }
            self.source = Source::Memory(streams);
        }
        answer.set_truncated(self.truncated);
        if let Source::Memory(streams) = self.source {
            let [stdout, mut stderr] = streams;
            stderr.extend_from_slice(self.note.as_bytes());
            let [(stdout, first), (stderr, second)] =
                [stdout, stderr].map(|bytes| text::encode(bytes, self.encoding));
            answer.set_output(stdout, stderr, first || second);
        }
        let mut json = Vec::with_capacity(1024);
        // Never fails: the wire types have string keys only, and writing to a Vec cannot fail.
        drop(serde_json::to_writer(&mut json, &answer));
        Ok(json)
    }
}

/// Adds bytes of a stream that were selected, but dropped before they were read.
fn add_dropped(truncated: &mut Truncated, stream: Stream, dropped: u64, read: u64) {
    let Truncated { stdout_bytes, stdout_after_bytes, stderr_bytes, stderr_after_bytes } = truncated;
    let (bytes, after) = match stream {
        Stream::Stdout => (stdout_bytes, stdout_after_bytes),
        Stream::Stderr => (stderr_bytes, stderr_after_bytes),
    };
    *after = if *bytes == 0 { read } else { read.min(*after) };
    *bytes += dropped;
}

/// Moves the ends of the omitted part to character boundaries.
fn align(reader: &mut OutputReader, stream: Stream, plan: &mut StreamPlan) -> Result<(), ReadError> {
    if plan.omitted == 0 {
        return Ok(());
    }
    let longest = u64::from(MAX_CHARACTER);
    let mut bytes = [0; MAX_CHARACTER as usize];
    let from = plan.head.end.saturating_sub(longest);
    let head = read_some(reader, stream, from..plan.head.end, &mut bytes)?;
    if let Err(e) = str::from_utf8(trim_start(head))
        && e.error_len().is_none()
    {
        let cut = (trim_start(head).len() - e.valid_up_to()) as u64;
        plan.head.end -= cut;
        plan.omitted += cut;
    }
    let to = plan.tail.end.min(plan.tail.start + longest - 1);
    let tail = read_some(reader, stream, plan.tail.start..to, &mut bytes)?;
    let cut = (tail.len() - trim_start(tail).len()) as u64;
    plan.tail.start += cut;
    plan.omitted += cut;
    Ok(())
}

/// Removes the continuation bytes of a character at the start.
fn trim_start(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| byte & 0xc0 != 0x80).unwrap_or(bytes.len());
    &bytes[start..]
}

fn read_some<'a>(
    reader: &mut OutputReader,
    stream: Stream,
    range: Range<u64>,
    buffer: &'a mut [u8],
) -> Result<&'a [u8], ReadError> {
    let wanted = usize::try_from(range.end - range.start).unwrap_or(0).min(buffer.len());
    match reader.read(stream, range.start, &mut buffer[..wanted])? {
        ReadAt::Bytes(n) => Ok(&buffer[..n]),
        ReadAt::Gap { .. } | ReadAt::Nothing => Ok(&[]),
    }
}

/// The part that is written next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Start,
    In(Stream),
    Fields,
    Over,
}

/// Writes a large response in pieces.
struct ResponseWriter<T> {
    output: ResponseOutput,
    stage: Stage,
    writer: StringWriter,
    is_replaced: bool,
    answer: T,
    buffer: Vec<u8>,
}

impl<T: HasOutput> ResponseWriter<T> {
    fn new(output: ResponseOutput, answer: T) -> Self {
        let writer = StringWriter::new(output.encoding);
        Self { output, stage: Stage::Start, writer, is_replaced: false, answer, buffer: Vec::new() }
    }

    /// Writes the next part.
    fn step(&mut self, about: usize, to: &mut Vec<u8>) -> Result<(), ReadError> {
        match self.stage {
            Stage::Start => {
                to.extend_from_slice(br#"{"stdout":""#);
                self.stage = Stage::In(Stream::Stdout);
            }
            Stage::In(stream) => {
                if self.copy(stream, about, to)? {
                    return Ok(());
                }
                if stream == Stream::Stderr {
                    self.writer.write(self.output.note.as_bytes(), to);
                }
                let writer = StringWriter::new(self.output.encoding);
                self.is_replaced |= std::mem::replace(&mut self.writer, writer).finish(to);
                if stream == Stream::Stdout {
                    to.extend_from_slice(br#"","stderr":""#);
                    self.stage = Stage::In(Stream::Stderr);
                } else {
                    to.push(b'"');
                    self.stage = Stage::Fields;
                }
            }
            Stage::Fields => {
                self.answer.set_output(String::new(), String::new(), self.is_replaced);
                self.answer.set_truncated(self.output.truncated);
                for (name, value) in other_fields(&self.answer) {
                    to.push(b',');
                    // Never fails: a name and a value are valid JSON, and writing to a Vec cannot fail.
                    drop(serde_json::to_writer(&mut *to, &name));
                    to.push(b':');
                    drop(serde_json::to_writer(&mut *to, &value));
                }
                to.push(b'}');
                self.stage = Stage::Over;
            }
            Stage::Over => {}
        }
        Ok(())
    }

    /// Copies the next piece of a stream. Returns whether there was one.
    fn copy(&mut self, stream: Stream, about: usize, to: &mut Vec<u8>) -> Result<bool, ReadError> {
        self.buffer.clear();
        let is_read = self.output.read(stream, about, &mut self.buffer)?;
        self.writer.write(&self.buffer, to);
        Ok(is_read)
    }
}

impl<T: HasOutput> PieceSource for ResponseWriter<T> {
    type Error = ReadError;

    fn next_piece(&mut self, about: usize) -> Result<Vec<u8>, ReadError> {
        let mut piece = Vec::with_capacity(about + about / 4);
        while piece.len() < about && self.stage != Stage::Over {
            match self.step(about, &mut piece) {
                Ok(()) => {}
                // The piece is sent first. The next call returns the error again.
                Err(_) if !piece.is_empty() => break,
                Err(e) => return Err(e),
            }
        }
        Ok(piece)
    }

    fn is_temporary(error: &ReadError) -> bool {
        matches!(error, ReadError::OutOf(_))
    }

    fn release(&mut self) {
        self.buffer = Vec::new();
        if let Source::Journal(reader, _) = &mut self.output.source {
            reader.close();
        }
    }
}

fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Stderr)
}

/// Returns all fields of a response except its output.
fn other_fields(answer: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(answer) {
        Ok(Value::Object(mut fields)) => {
            fields.remove("stdout");
            fields.remove("stderr");
            fields
        }
        _ => Map::new(),
    }
}
