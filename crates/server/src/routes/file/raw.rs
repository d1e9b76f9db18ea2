//! Files as raw bytes: `/api/file`.

use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use sandcrab_api::file::{MAX_READ_BYTES, Written};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_workspace::{Condition, FileError, FileErrorKind, Replacement, Tags, etag};
use serde::Deserialize;
use tokio::task::JoinHandle;
use utoipa::IntoParams;

use super::change::parse_mode;
use crate::app::{App, BodyBytes};
use crate::body::file;
use crate::body::range::{content_range, parse};
use crate::error::ApiError;
use crate::file_threads::DropOnThread;
use crate::files::{Files, GivenPath, Place};
use crate::input::check_coding;
use crate::layer::RequestId;
use crate::origin::Origin;
use crate::query::Params;

/// Number of bytes that are collected before they are written. As many are written meanwhile.
const WRITE_BYTES: usize = 512 << 10;
/// Sizes of pages, which are those of files in `/sys`.
const PAGE_SIZES: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];

/// The file, as query parameters.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileParams {
    /// The path.
    path: Option<String>,
    /// The path in base64, instead of `path`.
    path_base64: Option<String>,
    /// Resolve relative paths against the working directory of this session, if `X-Session-Id` names none.
    #[expect(dead_code, reason = "it is read by name")]
    session: Option<String>,
    /// Same as `session`.
    #[expect(dead_code, reason = "it is read by name")]
    session_id: Option<String>,
}

/// The file to write, as query parameters.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PutParams {
    /// The path. Missing parent directories are created.
    path: Option<String>,
    /// The path in base64, instead of `path`.
    path_base64: Option<String>,
    /// Permission bits in octal, such as `0644`. Default: those of the existing file, or 0666 without the umask.
    mode: Option<String>,
    /// Resolve relative paths against the working directory of this session, if `X-Session-Id` names none.
    #[expect(dead_code, reason = "it is read by name")]
    session: Option<String>,
    /// Same as `session`.
    #[expect(dead_code, reason = "it is read by name")]
    session_id: Option<String>,
}

/// A file that was opened to be sent.
enum Opened {
    /// A file with a size.
    Sized { file: DropOnThread<File>, metadata: Metadata },
    /// The content of a file whose size is not known, such as those in `/proc` and `/sys`.
    Whole { bytes: Vec<u8>, metadata: Metadata },
}

/// Returns the bytes of a file, of any size.
///
/// If the file shrinks while it is sent, the body breaks off.
#[utoipa::path(get, path = "/api/file", operation_id = "getFile", tag = "files",
    params(FileParams,
        ("Range" = Option<String>, Header, description = "A single byte range: `bytes=0-99`, `bytes=100-` or `bytes=-100`."),
        ("If-Match" = Option<String>, Header, description = "Entity tags: 412 if the file has none of them."),
        ("If-None-Match" = Option<String>, Header, description = "Entity tags: 304 if the file has one of them."),
        ("If-Range" = Option<String>, Header, description = "`Range` applies only if the file has this entity tag. Otherwise the whole file is sent.")),
    responses(
        (status = 200, description = "The bytes.", body = Vec<u8>, content_type = "application/octet-stream",
            headers(("ETag" = String, description = "Entity tag of the file."),
                ("Accept-Ranges" = String, description = "Always `bytes`."))),
        (status = 206, description = "The bytes of the range.", body = Vec<u8>, content_type = "application/octet-stream",
            headers(("ETag" = String, description = "Entity tag of the file."),
                ("Content-Range" = String, description = "`bytes FROM-TO/SIZE`: position of these bytes, and the total size."))),
        (status = 304, description = "The client has this file: see `If-None-Match`.")))]
pub(crate) async fn get(
    State(app): State<App>,
    method: Method,
    request: RequestId,
    headers: HeaderMap,
    files: Files,
    Params(query): Params<FileParams>,
) -> Result<Response, ApiError> {
    let given = GivenPath::new("path", query.path, query.path_base64)?;
    let condition = condition(&headers)?;
    let place = files.place(None).await?;
    let path = place.resolve(&given)?;
    let held = app.hold();
    let (opened, _held) = place.run(move || open(&path, held)).await??;
    let (tag, total) = match &opened {
        Opened::Sized { metadata, .. } => (etag(metadata), metadata.len()),
        Opened::Whole { metadata, bytes } => (etag(metadata), bytes.len() as u64),
    };
    if condition.if_match.as_ref().is_some_and(|tags| !tags.matches(Some(&tag))) {
        return Err(
            ApiError::new(ErrorCode::PreconditionFailed, "the file has another entity tag").with("etag", tag)
        );
    }
    let common = common_headers(&tag)?;
    if condition.if_none_match.as_ref().is_some_and(|tags| tags.matches(Some(&tag))) {
        return Ok((StatusCode::NOT_MODIFIED, common).into_response());
    }
    let is_same = headers.get(header::IF_RANGE).is_none_or(|wanted| wanted.as_bytes() == tag.as_bytes());
    // Ranges are defined for GET only.
    let has_range = is_same && method == Method::GET;
    let range = headers.get(header::RANGE).filter(|_| has_range).and_then(|value| parse(value, total));
    let (status, range, shown) = match range {
        None => (StatusCode::OK, 0..total, None),
        Some(range) => {
            let range = range?;
            let shown = content_range(&range, total)?;
            (StatusCode::PARTIAL_CONTENT, range, Some(shown))
        }
    };
    let length = HeaderValue::from(range.end - range.start);
    let body = match opened {
        Opened::Sized { file, .. } => {
            let threads = place.sandbox.file_threads.clone();
            file::body(file, range, threads, app.outgoing.clone(), Origin::request(request))
        }
        Opened::Whole { mut bytes, .. } => {
            app.outgoing.check_whole(bytes.len())?;
            bytes.truncate(usize::try_from(range.end).unwrap_or(usize::MAX));
            bytes.drain(..usize::try_from(range.start).unwrap_or(0).min(bytes.len()));
            // What is counted is what is held.
            bytes.shrink_to_fit();
            Body::from(bytes)
        }
    };
    let mut response = (status, common, body).into_response();
    response.headers_mut().insert(header::CONTENT_LENGTH, length);
    if let Some(shown) = shown {
        response.headers_mut().insert(header::CONTENT_RANGE, shown);
    }
    Ok(response)
}

fn open(
    path: &std::path::Path,
    mut held: BodyBytes,
) -> Result<Result<(Opened, BodyBytes), ApiError>, FileError> {
    let (file, metadata) = sandcrab_workspace::open(path)?;
    if has_size(&file, metadata.len()) {
        return Ok(Ok((Opened::Sized { file: DropOnThread::new(file), metadata }, held)));
    }
    let read = sandcrab_workspace::read(path, MAX_READ_BYTES, false, &mut |bytes| held.grow(bytes))?;
    Ok(read.map(|content| (Opened::Whole { bytes: content.bytes, metadata }, held)))
}

/// Whether a file has as many bytes as its metadata say. Files in `/proc` have the size 0, and those in `/sys` that of a page.
/// Other files are not read for this: it may take long on a mounted file system.
fn has_size(file: &File, size: u64) -> bool {
    let Some(last) = size.checked_sub(1) else { return false };
    if !PAGE_SIZES.contains(&size) {
        return true;
    }
    !matches!(file.read_at(&mut [0], last), Ok(0))
}

/// Headers of every response with a file. The type is always the same, so that a browser never runs a page or a script
/// of a file with the rights of this server.
fn common_headers(tag: &str) -> Result<[(HeaderName, HeaderValue); 4], ApiError> {
    Ok([
        (header::ETAG, HeaderValue::from_str(tag).map_err(ApiError::internal)?),
        (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ])
}

/// Parses `If-Match` and `If-None-Match`.
fn condition(headers: &HeaderMap) -> Result<Condition, ApiError> {
    let tags = |name: HeaderName| -> Result<Option<Tags>, ApiError> {
        let mut all = Vec::new();
        for value in headers.get_all(&name) {
            let invalid =
                || ApiError::invalid(name.as_str(), "expected `*` or entity tags such as \"1f-2a\"");
            let text = value.to_str().map_err(|_| invalid())?.trim();
            if text == "*" {
                return Ok(Some(Tags::Any));
            }
            for tag in text.split(',').map(str::trim) {
                let tag = tag.strip_prefix("W/").unwrap_or(tag);
                if tag.len() < 2 || !tag.starts_with('"') || !tag.ends_with('"') {
                    return Err(invalid());
                }
                all.push(tag.to_owned());
            }
        }
        Ok((!all.is_empty()).then_some(Tags::List(all)))
    };
    Ok(Condition { if_match: tags(header::IF_MATCH)?, if_none_match: tags(header::IF_NONE_MATCH)? })
}

/// Writes the body to a file, of any size.
///
/// The content replaces the old content at once when the body is complete, and is on the disk when the response is sent.
/// Mode, owner and extended attributes of an existing file stay. An incomplete body changes nothing.
#[utoipa::path(put, path = "/api/file", operation_id = "putFile", tag = "files",
    params(PutParams,
        ("If-Match" = Option<String>, Header, description = "Entity tags: 412 if the file has none of them."),
        ("If-None-Match" = Option<String>, Header, description = "`*`: 412 if the file exists.")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "The file was written.", body = Written,
        headers(("ETag" = String, description = "Entity tag of the file.")))))]
pub(crate) async fn put(
    State(app): State<App>,
    files: Files,
    Params(query): Params<PutParams>,
    request: Request,
) -> Result<Response, ApiError> {
    let given = GivenPath::new("path", query.path, query.path_base64)?;
    let mode = parse_mode(query.mode.as_deref())?;
    check_coding(request.headers())?;
    let condition = condition(request.headers())?;
    let place = files.place(None).await?;
    let path = place.resolve(&given)?;
    let records = place.sandbox.records.clone();
    // The memory is reserved before the first byte is taken: a request that has begun is not refused.
    let mut held = app.hold();
    held.grow(2 * WRITE_BYTES)?;
    let begin = move || Replacement::begin(&path, mode, condition, &records).map(DropOnThread::new);
    let new = Box::new(place.run(begin).await?);
    let mut target = Target::Open(OpenTarget { new, buffer: Vec::new() });
    let mut body = request.into_body();
    let mut buffer = Vec::new();
    let mut bytes_written = 0;
    let pause = app.limits.body_timeout;
    let stalled = |_| ApiError::invalid("body", format!("no data for {pause:?}; send it again"));
    while let Some(frame) = tokio::time::timeout(pause, body.frame()).await.map_err(stalled)? {
        let frame = frame.map_err(|e| ApiError::invalid("body", format!("incomplete: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        bytes_written += data.len() as u64;
        buffer.extend_from_slice(&data);
        if buffer.len() >= WRITE_BYTES {
            (target, buffer) = target.write(&place, buffer).await?;
        }
    }
    let path = given.to_path();
    let OpenTarget { new, .. } = target.written().await?;
    let saved = place
        .run_step(move || {
            let mut new = new.into_inner().ok_or_else(|| FileError::new(FileErrorKind::Other, path))?;
            new.write(&buffer)?;
            new.commit()
        })
        .await?;
    drop(held);
    let tag = HeaderValue::from_str(&saved.etag).map_err(ApiError::internal)?;
    let written = Written {
        success: true,
        path: given.shown(),
        bytes_written,
        atomic: saved.is_atomic,
        etag: saved.etag,
        timestamp: Timestamp::now(),
    };
    Ok(([(header::ETAG, tag)], axum::Json(written)).into_response())
}

/// The file to which a body is written, and the empty buffer of the last write.
struct OpenTarget {
    new: Box<DropOnThread<Replacement>>,
    buffer: Vec<u8>,
}

/// The file to which a body is written, while more of the body is received.
enum Target {
    /// No write is running.
    Open(OpenTarget),
    /// A write is running. It runs to its end if the client disconnects.
    Writing(JoinHandle<Result<OpenTarget, ApiError>>),
}

impl Target {
    /// Waits for the last write.
    async fn written(self) -> Result<OpenTarget, ApiError> {
        match self {
            Self::Open(written) => Ok(written),
            Self::Writing(writing) => writing.await.map_err(ApiError::internal)?,
        }
    }

    /// Begins to write a buffer when the last write has ended. Returns the buffer of the last write, empty.
    async fn write(self, place: &Place, mut buffer: Vec<u8>) -> Result<(Self, Vec<u8>), ApiError> {
        let OpenTarget { mut new, buffer: empty } = self.written().await?;
        let place = place.clone();
        let writing = tokio::spawn(async move {
            let write = move || {
                new.get_mut().map_or(Ok(()), |new| new.write(&buffer))?;
                buffer.clear();
                Ok(OpenTarget { new, buffer })
            };
            place.run_step(write).await
        });
        Ok((Self::Writing(writing), empty))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions() {
        let of = |name: HeaderName, text: &'static str| {
            condition(&HeaderMap::from_iter([(name, HeaderValue::from_static(text))])).map_err(|e| e.code())
        };
        let list = |tags: &[&str]| Some(Tags::List(tags.iter().map(|&tag| tag.to_owned()).collect()));
        assert_eq!(of(header::IF_MATCH, "*").unwrap().if_match, Some(Tags::Any));
        assert_eq!(of(header::IF_MATCH, "\"a\", W/\"b\"").unwrap().if_match, list(&["\"a\"", "\"b\""]));
        assert_eq!(of(header::IF_NONE_MATCH, "\"a\"").unwrap().if_none_match, list(&["\"a\""]));
        for invalid in ["a", "\"", "", "\"a\",", "*,"] {
            assert_eq!(of(header::IF_MATCH, invalid), Err(ErrorCode::ValidationFailed), "{invalid:?}");
        }
    }
}
