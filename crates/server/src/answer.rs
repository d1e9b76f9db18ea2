//! Answers that carry output: read from the journal as the client takes them, never held whole.
//!
//! The wire's types begin with `stdout` and `stderr`. The server serialises them with both empty, and puts the streams
//! in between: `{"stdout":"` … `","stderr":"` … `",` and the rest.

use std::ops::Range;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use sandcrab_api::execute::{Encoding, Truncated};
use sandcrab_engine::{Execution, Output, OutputReader, ReadAt, ReadError, Stream, StreamPlan};
use serde::Serialize;

use crate::error::ApiError;
use crate::text::StringWriter;

/// What the wire's types begin with when both streams are empty.
const EMPTY: &str = r#"{"stdout":"","stderr":"","#;
/// How much is read at a time.
const PIECE_BYTES: usize = 128 << 10;
/// Answers up to this size are made at once.
const SMALL_BYTES: u64 = 256 << 10;
/// The same, as room for each stream.
const SMALL_ROOM: usize = 256 << 10;
/// The longest character.
const MAX_CHARACTER: u8 = 4;

/// Where the output of an answer comes from.
#[derive(Debug)]
enum Source {
    /// From memory: the two streams as they are.
    Memory([Vec<u8>; 2]),
    /// From the journal: ranges of the two streams, in the order they are written.
    Journal(Box<OutputReader>, [Vec<Range<u64>>; 2]),
}

/// The output that an answer carries.
#[derive(Debug)]
pub(crate) struct AnswerOutput {
    source: Source,
    encoding: Encoding,
    pub(crate) truncated: Option<Truncated>,
}

impl AnswerOutput {
    /// Nothing at all.
    pub(crate) fn nothing(encoding: Encoding) -> Self {
        Self { source: Source::Memory(Default::default()), encoding, truncated: None }
    }

    /// What an execution has written, and the cursor after it: head and tail of both streams under a limit.
    pub(crate) fn of(
        execution: &Execution,
        limit: u64,
        encoding: Encoding,
    ) -> Result<(Self, u64), ReadError> {
        match execution.info().output_bytes {
            // A silent command's journal need not be read.
            0 => return Ok((Self::nothing(encoding), 0)),
            bytes if bytes <= SMALL_BYTES.min(limit) => {
                // One look at the journal brings all of it, unless more has come or some was dropped.
                let Output { stdout, stderr, cursor } = execution.output(SMALL_ROOM)?;
                if stdout.omitted + stderr.omitted == 0 {
                    let source = Source::Memory([stdout.bytes, stderr.bytes]);
                    return Ok((Self { source, encoding, truncated: None }, cursor));
                }
            }
            _ => {}
        }
        let reader = execution.reader()?;
        let cursor = reader.cursor_end()?;
        Ok((Self::head_and_tail(reader, limit, encoding)?, cursor))
    }

    /// Head and tail of both streams under a limit.
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
            stdout: stdout.omitted,
            stdout_after: stdout.head.end,
            stderr: stderr.omitted,
            stderr_after: stderr.head.end,
        });
        let plans = [stdout, stderr].map(|plan| vec![plan.head, plan.tail]);
        Ok(Self { source: Source::Journal(Box::new(reader), plans), encoding, truncated })
    }

    /// One range of each stream.
    pub(crate) fn ranges(
        reader: OutputReader,
        ranges: [Range<u64>; 2],
        encoding: Encoding,
        truncated: Option<Truncated>,
    ) -> Self {
        let source = Source::Journal(Box::new(reader), ranges.map(|range| vec![range]));
        Self { source, encoding, truncated }
    }

    fn size(&self) -> u64 {
        match &self.source {
            Source::Memory(streams) => streams.iter().map(|bytes| bytes.len() as u64).sum(),
            Source::Journal(_, plans) => {
                plans.iter().flatten().map(|range| range.end.saturating_sub(range.start)).sum()
            }
        }
    }

    /// The answer: `rest` makes the wire's type, with empty streams, once it is known whether bytes were replaced.
    pub(crate) fn respond<T: Serialize>(
        self,
        status: StatusCode,
        rest: impl FnOnce(bool) -> T + Send + 'static,
    ) -> Response {
        let small = self.size() <= SMALL_BYTES;
        let mut writing = Writing::new(self, rest);
        let body = if small {
            let mut all = Vec::with_capacity(1024);
            loop {
                match writing.step(&mut all) {
                    Ok(true) => {}
                    Ok(false) => break Body::from(all),
                    Err(e) => return ApiError::from(e).into_response(),
                }
            }
        } else {
            Body::from_stream(stream::unfold(Some(writing), |writing| async move {
                let mut writing = writing?;
                let mut piece = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
                match writing.step(&mut piece) {
                    Ok(more) => Some((Ok(Bytes::from(piece)), more.then_some(writing))),
                    // The client sees an answer that breaks off.
                    Err(e) => Some((Err(e), None)),
                }
            }))
        };
        let json = HeaderValue::from_static("application/json");
        (status, [(header::CONTENT_TYPE, json)], body).into_response()
    }
}

/// Moves the ends of the hole between head and tail so that no character is cut.
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

/// Without the bytes at the start that continue a character.
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

/// What is written next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Start,
    In(Stream),
}

/// An answer being written.
struct Writing<F> {
    output: AnswerOutput,
    stage: Stage,
    writer: StringWriter,
    replaced: bool,
    rest: Option<F>,
    buffer: Vec<u8>,
}

impl<T: Serialize, F: FnOnce(bool) -> T> Writing<F> {
    fn new(output: AnswerOutput, rest: F) -> Self {
        let writer = StringWriter::new(output.encoding);
        Self { output, stage: Stage::Start, writer, replaced: false, rest: Some(rest), buffer: Vec::new() }
    }

    /// Writes the next piece; says whether there is more.
    fn step(&mut self, to: &mut Vec<u8>) -> Result<bool, ReadError> {
        match self.stage {
            Stage::Start => {
                to.extend_from_slice(br#"{"stdout":""#);
                self.stage = Stage::In(Stream::Stdout);
                Ok(true)
            }
            Stage::In(stream) => {
                if self.copy(stream, to)? {
                    return Ok(true);
                }
                let writer = StringWriter::new(self.output.encoding);
                self.replaced |= std::mem::replace(&mut self.writer, writer).finish(to);
                if stream == Stream::Stdout {
                    to.extend_from_slice(br#"","stderr":""#);
                    self.stage = Stage::In(Stream::Stderr);
                    return Ok(true);
                }
                to.extend_from_slice(br#"","#);
                if let Some(rest) = self.rest.take() {
                    let json = serde_json::to_string(&rest(self.replaced)).unwrap_or_default();
                    debug_assert!(json.starts_with(EMPTY), "{json}");
                    to.extend_from_slice(json.strip_prefix(EMPTY).unwrap_or("}").as_bytes());
                }
                Ok(false)
            }
        }
    }

    /// Copies the next piece of a stream; says whether there was one.
    fn copy(&mut self, stream: Stream, to: &mut Vec<u8>) -> Result<bool, ReadError> {
        let index = usize::from(stream == Stream::Stderr);
        let (reader, ranges) = match &mut self.output.source {
            Source::Memory(streams) => {
                self.writer.write(&std::mem::take(&mut streams[index]), to);
                return Ok(false);
            }
            Source::Journal(reader, plans) => (reader, &mut plans[index]),
        };
        let Some(range) = ranges.iter_mut().find(|range| range.start < range.end) else {
            return Ok(false);
        };
        let wanted = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(PIECE_BYTES);
        self.buffer.resize(wanted.max(self.buffer.len()), 0);
        match reader.read(stream, range.start, &mut self.buffer[..wanted])? {
            ReadAt::Bytes(n) => {
                range.start += n as u64;
                self.writer.write(&self.buffer[..n], to);
            }
            // Dropped since it was planned, by a writer that goes on.
            ReadAt::Gap { to } => range.start = to.min(range.end),
            ReadAt::Nothing => range.start = range.end,
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_types_begin_with_the_streams() {
        let logs = sandcrab_api::process::ProcessLogs {
            stdout: String::new(),
            stderr: String::new(),
            invalid_utf8: false,
            encoding: None,
            success: true,
            process_id: "p".into(),
            truncated: None,
            gap: None,
            cursor: 0,
            timestamp: sandcrab_api::Timestamp::now(),
        };
        assert!(serde_json::to_string(&logs).unwrap().starts_with(EMPTY));
    }
}
