//! Raw bytes of an output stream: `/api/process/{id}/output`.

use std::ops::Range;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sandcrab_api::process::StreamName;
use sandcrab_engine::{Execution, OutputReader, ReadAt, ReadError, Stream};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::body::pieces::{self, PieceSource};
use crate::body::range::{content_range, not_satisfiable, parse};
use crate::error::ApiError;
use crate::input::PathExecution;
use crate::layer::RequestId;
use crate::origin::Origin;
use crate::query::Params;
use crate::summary::read_blocking;

/// Number of pieces read at a time. Raw bytes are only copied, so fewer and larger pieces are faster.
const PIECES: usize = 2;
/// Header that names the bytes that the journal has dropped, and that are missing from the body.
const OMITTED_HEADER: &str = "x-sandcrab-omitted";

/// Options of `output`.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OutputOptions {
    /// The output stream. Default: `stdout`.
    #[param(inline)]
    stream: Option<StreamName>,
}

/// Returns the raw bytes of an output stream so far.
#[utoipa::path(get, path = "/api/process/{id}/output", operation_id = "getProcessOutput", tag = "processes",
    params(("id" = String, Path, description = "Id of a process or other execution."), OutputOptions,
        ("Range" = Option<String>, Header, description = "A single byte range: `bytes=0-99`, `bytes=100-` or `bytes=-100`.")),
    responses(
        (status = 200, description = "The recorded bytes.",
            body = Vec<u8>, content_type = "application/octet-stream",
            headers(("Accept-Ranges" = String, description = "Always `bytes`."),
                ("X-Sandcrab-Omitted" = String, description = "`FROM-TO`: bytes that the journal has dropped. Absent if none were dropped."))),
        (status = 206, description = "The recorded part of the range.",
            body = Vec<u8>, content_type = "application/octet-stream",
            headers(("Content-Range" = String, description = "`bytes FROM-TO/SIZE`: position of these bytes, and the total size.")))))]
pub(crate) async fn output(
    State(app): State<App>,
    request: RequestId,
    headers: HeaderMap,
    PathExecution(execution): PathExecution,
    Params(options): Params<OutputOptions>,
) -> Result<Response, ApiError> {
    let stream = match options.stream.unwrap_or_default() {
        StreamName::Stdout => Stream::Stdout,
        StreamName::Stderr => Stream::Stderr,
    };
    let read = move |execution: &Execution| {
        let mut reader = execution.reader()?;
        let plan = reader.plan(stream, usize::MAX)?;
        // The client may take a long time to read the first piece.
        reader.close();
        Ok::<_, ReadError>((reader, plan))
    };
    let (reader, plan) = read_blocking(&execution, read).await?;
    let origin = Origin::execution(request, &execution);
    let whole = |ranges| pieces::body(StreamRanges { reader, stream, ranges }, app.outgoing.clone(), origin);
    let octets = (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    let ranges = (header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let Some(wanted) = headers.get(header::RANGE).and_then(|value| parse(value, plan.total)) else {
        let size = plan.total - plan.omitted;
        let mut response =
            ([octets, ranges, length(size)], whole(vec![plan.head.clone(), plan.tail.clone()]))
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
    // The part of the range before, or after, the missing bytes.
    let hole = plan.head.end..plan.tail.start;
    let given = if plan.omitted == 0 || wanted.end <= hole.start || wanted.start >= hole.end {
        wanted
    } else if wanted.start < hole.start {
        wanted.start..hole.start
    } else {
        return Err(not_satisfiable(plan.total).with("omittedFrom", hole.start).with("omittedTo", hole.end));
    };
    let shown = content_range(&given, plan.total)?;
    let headers = [octets, ranges, length(given.end - given.start), (header::CONTENT_RANGE, shown)];
    Ok((StatusCode::PARTIAL_CONTENT, headers, whole(vec![given])).into_response())
}

fn length(size: u64) -> (header::HeaderName, HeaderValue) {
    (header::CONTENT_LENGTH, HeaderValue::from(size))
}

/// The bytes of some ranges of a stream.
struct StreamRanges {
    reader: OutputReader,
    stream: Stream,
    ranges: Vec<Range<u64>>,
}

impl PieceSource for StreamRanges {
    type Error = ReadError;

    fn next_piece(&mut self, about: usize) -> Result<Vec<u8>, ReadError> {
        let Some(range) = self.ranges.iter_mut().find(|range| !range.is_empty()) else {
            return Ok(Vec::new());
        };
        let about = about * PIECES;
        let wanted = usize::try_from(range.end - range.start).unwrap_or(about).min(about);
        let mut piece = vec![0; wanted];
        match self.reader.read(self.stream, range.start, &mut piece)? {
            ReadAt::Bytes(n) => {
                range.start += n as u64;
                piece.truncate(n);
                Ok(piece)
            }
            // Dropped after the response head was sent. The body must break off, because it would be wrong
            // otherwise.
            ReadAt::Gap { .. } | ReadAt::Nothing => Err(ReadError::Removed),
        }
    }

    fn release(&mut self) {
        self.reader.close();
    }

    fn is_temporary(error: &ReadError) -> bool {
        matches!(error, ReadError::OutOf(_))
    }
}
