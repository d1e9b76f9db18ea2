//! Output of a process as text: `/api/process/{id}/logs` and `/api/process/{id}/stream`.

use std::ops::Range;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use sandcrab_api::event::ProcessEvent;
use sandcrab_api::execute::{Encoding, Truncated};
use sandcrab_api::process::{Gap, ProcessLogs};
use sandcrab_api::{DEFAULT_OUTPUT_BYTES, Timestamp};
use sandcrab_engine::{Event, Execution, OutputReader, ReadAt, Stream};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::cursor::Cursor;
use crate::error::ApiError;
use crate::events::EventStream;
use crate::feed::{Feed, PartialCharacter, StreamKind, held_bytes};
use crate::input::PathExecution;
use crate::layer::RequestId;
use crate::note::{self, ExecutionNote};
use crate::origin::Origin;
use crate::query::Params;
use crate::response_output::ResponseOutput;
use crate::routes::execute::since;
use crate::sandbox::Sandbox;
use crate::summary::read_blocking;
use crate::text::Decoder;

/// Size of the blocks that are searched for line ends.
const BLOCK_BYTES: u32 = 64 << 10;

/// Options of `logs`.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogOptions {
    /// Encoding of the output. Default: that with which the process was started.
    #[param(inline)]
    encoding: Option<Encoding>,
    /// Only return the last lines of each stream: this many.
    tail: Option<u64>,
    /// Only return output after this cursor. The `cursor` of the response is the position after the returned
    /// output.
    since: Option<String>,
}

/// Returns the output of a process so far.
///
/// The response has at most 10 MiB of each stream. Longer output has its beginning and end.
#[utoipa::path(get, path = "/api/process/{id}/logs", operation_id = "getProcessLogs", tag = "processes",
    params(("id" = String, Path, description = "Id of a process or other execution."), LogOptions),
    responses((status = 200, description = "The output.", body = ProcessLogs)))]
pub(crate) async fn logs(
    State(app): State<App>,
    request: RequestId,
    sandbox: Sandbox,
    PathExecution(execution): PathExecution,
    Params(options): Params<LogOptions>,
) -> Result<Response, ApiError> {
    respond(&app, &sandbox, request, &execution, options).await
}

/// The output of an execution, as the response to `logs`.
pub(crate) async fn respond(
    app: &App,
    sandbox: &Sandbox,
    request: RequestId,
    execution: &Execution,
    options: LogOptions,
) -> Result<Response, ApiError> {
    let encoding = encoding(execution, options.encoding);
    let limit = sandbox.defaults.max_output_bytes.unwrap_or(DEFAULT_OUTPUT_BYTES);
    if options.since.is_some() && options.tail.is_some() {
        return Err(ApiError::invalid("tail", "it cannot be combined with since; use one of them"));
    }
    let since = options.since.as_deref().map(str::parse).transpose()?;
    let choose = move |execution: &Execution| select(execution, since, options.tail, encoding, limit);
    let Selection { output, cursor, gap, tail_is_incomplete } = read_blocking(execution, choose).await?;
    let logs = ProcessLogs {
        stdout: String::new(),
        stderr: String::new(),
        invalid_utf8: false,
        encoding: (encoding == Encoding::Base64).then_some(encoding),
        success: true,
        process_id: execution.id().to_string(),
        truncated: output.truncated,
        gap,
        tail_is_incomplete,
        cursor,
        timestamp: Timestamp::now(),
    };
    Ok(output.respond(logs, &app.outgoing, Origin::execution(request, execution)))
}

/// The part of the output that a response contains.
struct Selection {
    output: ResponseOutput,
    cursor: u64,
    gap: Option<Gap>,
    tail_is_incomplete: bool,
}

/// Selects the output: what follows a cursor, the last lines, or beginning and end.
fn select(
    execution: &Execution,
    since: Option<Cursor>,
    tail: Option<u64>,
    encoding: Encoding,
    limit: u64,
) -> Result<Selection, ApiError> {
    let mut reader = execution.reader()?;
    let cursor = reader.cursor_end()?;
    if let Some(since) = since {
        let OutputAfter { ranges, cursor, gap } = after(execution, since, encoding, limit)?;
        let output = ResponseOutput::ranges(reader, ranges, encoding, None);
        return Ok(Selection { output, cursor, gap, tail_is_incomplete: false });
    }
    let Some(lines) = tail else {
        let output = ResponseOutput::head_and_tail(reader, limit, encoding)?;
        return Ok(Selection { output, cursor, gap: None, tail_is_incomplete: false });
    };
    let (stdout, stderr) = reader.totals()?;
    let [(stdout, is_stdout_complete), (stderr, is_stderr_complete)] = [
        last_lines(&mut reader, Stream::Stdout, stdout, lines, limit)?,
        last_lines(&mut reader, Stream::Stderr, stderr, lines, limit)?,
    ];
    let truncated = (stdout.start + stderr.start > 0).then_some(Truncated {
        stdout_bytes: stdout.start,
        stdout_after_bytes: 0,
        stderr_bytes: stderr.start,
        stderr_after_bytes: 0,
    });
    let output = ResponseOutput::ranges(reader, [stdout, stderr], encoding, truncated);
    let tail_is_incomplete = !is_stdout_complete || !is_stderr_complete;
    Ok(Selection { output, cursor, gap: None, tail_is_incomplete })
}

/// The encoding of the output: the requested one, or that with which the process was started.
pub(crate) fn encoding(execution: &Execution, asked: Option<Encoding>) -> Encoding {
    let note: ExecutionNote = note::read(execution.info().note.as_deref());
    asked.or(note.encoding).unwrap_or_default()
}

/// Output after a cursor.
#[derive(Debug, Clone, Default)]
struct OutputAfter {
    /// The range of each stream.
    ranges: [Range<u64>; 2],
    /// The cursor after these ranges.
    cursor: u64,
    /// Bytes directly after the cursor that were dropped.
    gap: Option<Gap>,
}

/// Finds the output after a cursor, up to a limit. It stops before dropped bytes, and never splits a
/// character unless no more output follows.
fn after(
    execution: &Execution,
    since: Cursor,
    encoding: Encoding,
    limit: u64,
) -> Result<OutputAfter, ApiError> {
    since.check(execution)?;
    let is_over = execution.status().end().is_some();
    let mut follower = execution.follow(since.position)?;
    let mut whole = OutputAfter { cursor: since.position, ..OutputAfter::default() };
    let mut all = whole.clone();
    let mut decoders: [Decoder; 2] = Default::default();
    // The characters that the cursor splits are part of the output after it. If they were dropped, they are part of the
    // gap.
    let mut lost = 0;
    for (at, held) in held_bytes(execution, since)?.into_iter().enumerate() {
        match held {
            PartialCharacter::Nothing => {}
            PartialCharacter::Bytes { bytes, range } => {
                all.ranges[at] = range;
                if encoding == Encoding::Utf8 {
                    decoders[at].hold(&bytes);
                }
            }
            PartialCharacter::Dropped { count } => lost += count,
        }
    }
    if lost > 0 {
        all.gap = Some(Gap { from: since.position - lost, to: since.position });
    }
    let has_held = !all.ranges.iter().all(Range::is_empty);
    if decoders.iter().all(|decoder| decoder.held() == 0) {
        whole = all.clone();
    }
    let mut size = 0;
    let mut is_full = false;
    while let Some(entry) = follower.try_next()? {
        match entry.event {
            Event::Gap { from, to } if size == 0 && !has_held => {
                all.gap = Some(Gap { from: from.saturating_sub(lost), to });
            }
            Event::Gap { .. } => return Ok(all),
            Event::Output { stream, position, bytes } => {
                size += bytes.len() as u64;
                is_full = size > limit && size > bytes.len() as u64;
                if is_full {
                    break;
                }
                let at = usize::from(stream == Stream::Stderr);
                let end = position + bytes.len() as u64;
                let start = if all.ranges[at].is_empty() { position } else { all.ranges[at].start };
                all.ranges[at] = start..end;
                if encoding == Encoding::Utf8 {
                    decoders[at].decode(&bytes, |_| {});
                }
            }
            _ => {}
        }
        all.cursor = entry.cursor;
        if decoders.iter().all(|decoder| decoder.held() == 0) {
            whole = all.clone();
        }
    }
    // Return an unfinished character if the limit leaves no room to finish it: otherwise the client would
    // make no progress. The cursor of the response cannot split a character, so one that `since` split is
    // returned, too.
    let makes_no_progress = (is_full || has_held) && whole.ranges.iter().all(Range::is_empty);
    Ok(if is_over && !is_full || makes_no_progress { all } else { whole })
}

/// Finds the last lines of a stream, within a limit. An unfinished last line counts as a line. Also returns whether these
/// are all lines that were requested, as far as the command has written that many.
fn last_lines(
    reader: &mut OutputReader,
    stream: Stream,
    total: u64,
    lines: u64,
    limit: u64,
) -> Result<(Range<u64>, bool), ApiError> {
    let mut earliest = total.saturating_sub(limit);
    let mut is_complete = earliest == 0;
    if lines == 0 {
        return Ok((total..total, true));
    }
    let mut block = vec![0; BLOCK_BYTES as usize];
    let mut found = 0;
    let mut end = total;
    while end > earliest {
        let mut start = end.saturating_sub(BLOCK_BYTES.into()).max(earliest);
        let mut at = start;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(block.len());
            let offset = usize::try_from(at - start).unwrap_or(0);
            match reader.read(stream, at, &mut block[offset..offset + wanted])? {
                ReadAt::Bytes(n) => {
                    at += n as u64;
                    continue;
                }
                // Output before a gap is not shown, because it would appear to be adjacent to what follows.
                ReadAt::Gap { to } => earliest = to.min(end),
                ReadAt::Nothing => earliest = end,
            }
            is_complete = false;
            (start, at) = (earliest, earliest);
        }
        let size = usize::try_from(end - start).unwrap_or(0);
        for (offset, _) in block[..size].iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let after = start + offset as u64 + 1;
            if after == total {
                continue;
            }
            found += 1;
            if found == lines {
                return Ok((after..total, true));
            }
        }
        end = start;
    }
    Ok((earliest..total, is_complete))
}

/// Options of a stream of output.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamOptions {
    /// Encoding of the output. Default: that of the request that started the process or service.
    #[param(inline)]
    pub(super) encoding: Option<Encoding>,
    /// Resume after this cursor, of an event of this stream or of a response. `Last-Event-ID` has the same effect.
    pub(super) since: Option<String>,
    /// With `false`, the stream ends after the output recorded so far. Default: `true`.
    pub(super) follow: Option<bool>,
}

/// Streams the output of a process, from its beginning.
///
/// The stream contains recorded and live output. To resume it, send the last `id:` as `Last-Event-ID`.
#[utoipa::path(get, path = "/api/process/{id}/stream", operation_id = "streamProcess", tag = "processes",
    params(("id" = String, Path, description = "Id of a process or other execution."), StreamOptions,
        ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client received. Resumes the stream after it.")),
    responses((status = 200, description = "Events: `process_info`, output, then `exit`, `caught_up` or `error`.",
        body = ProcessEvent, content_type = "text/event-stream")))]
pub(crate) async fn stream(
    State(app): State<App>,
    request: RequestId,
    headers: HeaderMap,
    PathExecution(execution): PathExecution,
    Params(options): Params<StreamOptions>,
) -> Result<EventStream, ApiError> {
    let since = since(&headers, options.since.as_deref())?;
    let encoding = encoding(&execution, options.encoding);
    let follows = options.follow != Some(false);
    let origin = Origin::execution(request, &execution);
    let feed = Feed::new(&app, &execution, StreamKind::Process, since, encoding, follows, origin).await?;
    Ok(feed.into_events())
}
