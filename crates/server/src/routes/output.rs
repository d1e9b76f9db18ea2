//! The raw bytes of a stream: `/api/process/{id}/output`.

use std::ops::Range;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use sandcrab_api::ErrorCode;
use sandcrab_engine::{OutputReader, ReadAt, ReadError, Stream};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::input::{OfProcess, Params};

/// How much is read at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Says which bytes of a stream the journal no longer has, and the body therefore leaves out.
const OMITTED_HEADER: &str = "x-sandcrab-omitted";

/// One of the two streams.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StreamName {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

/// Which bytes to give.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OutputOptions {
    /// Which stream; standard output if there is none.
    #[param(inline)]
    stream: Option<StreamName>,
}

/// What a process has written to one stream so far, exactly.
#[utoipa::path(get, path = "/api/process/{id}/output", operation_id = "getProcessOutput", tag = "processes",
    params(("id" = String, Path, description = "Its id, or that of any execution."), OutputOptions,
        ("Range" = Option<String>, Header, description = "One range of bytes: `bytes=0-99`, `bytes=100-`, `bytes=-100`.")),
    responses(
        (status = 200, description = "The bytes. `X-Sandcrab-Omitted: FROM-TO` says which the journal no longer has.",
            body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, description = "The range, or as much of it as the journal has.",
            body = Vec<u8>, content_type = "application/octet-stream")))]
pub(crate) async fn output(
    headers: HeaderMap,
    OfProcess(execution): OfProcess,
    Params(options): Params<OutputOptions>,
) -> Result<Response, ApiError> {
    let stream = match options.stream.unwrap_or_default() {
        StreamName::Stdout => Stream::Stdout,
        StreamName::Stderr => Stream::Stderr,
    };
    let mut reader = execution.reader()?;
    let plan = reader.plan(stream, usize::MAX)?;
    let octets = (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    let ranges = (header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let Some(wanted) = headers.get(header::RANGE).and_then(|value| parse(value, plan.total)) else {
        let size = plan.total - plan.omitted;
        let mut response = (
            [octets, ranges, length(size)],
            body(reader, stream, vec![plan.head.clone(), plan.tail.clone()]),
        )
            .into_response();
        if plan.omitted > 0 {
            let omitted = format!("{}-{}", plan.head.end, plan.tail.start);
            if let Ok(value) = HeaderValue::from_str(&omitted) {
                response.headers_mut().insert(OMITTED_HEADER, value);
            }
        }
        return Ok(response);
    };
    let wanted = wanted?;
    // As much of it as comes before, or after, what is missing.
    let hole = plan.head.end..plan.tail.start;
    let given = if plan.omitted == 0 || wanted.end <= hole.start || wanted.start >= hole.end {
        wanted
    } else if wanted.start < hole.start {
        wanted.start..hole.start
    } else {
        return Err(not_satisfiable(plan.total).with("omittedFrom", hole.start).with("omittedTo", hole.end));
    };
    let shown = format!("bytes {}-{}/{}", given.start, given.end - 1, plan.total);
    let shown = HeaderValue::from_str(&shown).map_err(ApiError::internal)?;
    let headers = [octets, ranges, length(given.end - given.start), (header::CONTENT_RANGE, shown)];
    Ok((StatusCode::PARTIAL_CONTENT, headers, body(reader, stream, vec![given])).into_response())
}

fn length(size: u64) -> (header::HeaderName, HeaderValue) {
    (header::CONTENT_LENGTH, HeaderValue::from(size))
}

fn not_satisfiable(total: u64) -> ApiError {
    let message = format!("there are no such bytes; the stream has {total}, and some may have been dropped");
    ApiError::new(ErrorCode::RangeNotSatisfiable, message).with("size", total)
}

/// A single range; `None` for what is to be passed over, as HTTP wants it.
fn parse(value: &HeaderValue, total: u64) -> Option<Result<Range<u64>, ApiError>> {
    let (from, to) = value.to_str().ok()?.trim().strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| (!text.is_empty()).then(|| text.parse::<u64>().ok());
    let range = match (number(from), number(to)) {
        (Some(from), None) => from?..total,
        (Some(from), Some(to)) if to? >= from? => from?..to?.saturating_add(1).min(total),
        (None, Some(last)) => total.saturating_sub(last?)..total,
        _ => return None,
    };
    Some(if range.is_empty() { Err(not_satisfiable(total)) } else { Ok(range) })
}

fn body(reader: OutputReader, stream: Stream, ranges: Vec<Range<u64>>) -> Body {
    Body::from_stream(stream::unfold((reader, ranges), move |(mut reader, mut ranges)| async move {
        let piece = next_piece(&mut reader, stream, &mut ranges).transpose()?;
        Some((piece, (reader, ranges)))
    }))
}

fn next_piece(
    reader: &mut OutputReader,
    stream: Stream,
    ranges: &mut [Range<u64>],
) -> Result<Option<Bytes>, ReadError> {
    let Some(range) = ranges.iter_mut().find(|range| !range.is_empty()) else {
        return Ok(None);
    };
    let wanted = usize::try_from(range.end - range.start).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
    let mut piece = vec![0; wanted];
    match reader.read(stream, range.start, &mut piece)? {
        ReadAt::Bytes(n) => {
            range.start += n as u64;
            piece.truncate(n);
            Ok(Some(piece.into()))
        }
        // Dropped since it was promised: better an answer that breaks off than one that lies.
        ReadAt::Gap { .. } | ReadAt::Nothing => Err(ReadError::Removed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let parse = |text: &'static str| {
            parse(&HeaderValue::from_static(text), 100).map(|range| range.map_err(|e| e.code()))
        };
        assert_eq!(parse("bytes=0-9"), Some(Ok(0..10)));
        assert_eq!(parse("bytes=90-"), Some(Ok(90..100)));
        assert_eq!(parse("bytes=90-1000"), Some(Ok(90..100)));
        assert_eq!(parse("bytes=-10"), Some(Ok(90..100)));
        assert_eq!(parse("bytes=-1000"), Some(Ok(0..100)));
        assert_eq!(parse("bytes=100-"), Some(Err(ErrorCode::RangeNotSatisfiable)));
        assert_eq!(parse("bytes=-0"), Some(Err(ErrorCode::RangeNotSatisfiable)));
        for passed_over in ["bytes=9-0", "bytes=", "bytes=-", "bytes=a-b", "lines=0-9", "bytes=0-1,5-6", "x"]
        {
            assert_eq!(parse(passed_over), None, "{passed_over}");
        }
    }
}
