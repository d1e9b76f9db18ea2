//! Conversion of a frame to a request, and of a response to a reply.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use hyper::body::Body as _;
use sandcrab_api::execute::Encoding;
use sandcrab_api::frame::{ClientFrame, ClientFrameKind, ErrorFrame};
use sandcrab_api::{ErrorCode, JsonProblem};

use super::MAX_FRAME_ID_BYTES;
use crate::access::{Multiplexed, SOCKET_PATHS};
use crate::error::ApiError;
use crate::events::{EventStream, Items};

/// Maximum size of the body of a response over a WebSocket, before it is encoded in a frame. Clients have the whole
/// frame in memory.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;

/// Maximum length of the message of an error frame.
const MAX_ERROR_MESSAGE_BYTES: usize = 300;

/// A response that waits to be written.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) content: Content,
}

/// The content of a response.
pub(super) enum Content {
    Events(Items),
    Body(Body, BodyKind),
}

/// The encoding of a body in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyKind {
    /// Unchanged.
    Json,
    /// As a string.
    Text,
    /// As a string in base64.
    Bytes,
}

/// Replaces a response that is too large for a frame by an error that names the route over HTTP.
pub(crate) fn limited(response: Response, method: &Method, route: &str) -> Response {
    let told =
        response.headers().get(header::CONTENT_LENGTH).and_then(|size| size.to_str().ok()?.parse().ok());
    let size = response.body().size_hint().exact().or(told);
    let Some(size) = size.filter(|size| *size > MAX_RESPONSE_BYTES) else { return response };
    let message = format!(
        "the response has {size} bytes, and a frame of a WebSocket has at most {MAX_RESPONSE_BYTES}; send {method} {route} over HTTP"
    );
    ApiError::new(ErrorCode::BodyTooLarge, message).with("limit", MAX_RESPONSE_BYTES).into_response()
}

impl Reply {
    pub(super) fn new(mut response: Response) -> Self {
        let status = response.status().as_u16();
        if let Some(items) = EventStream::take(&mut response) {
            return Self { status, content: Content::Events(items) };
        }
        let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let kind = match kind {
            Some(kind) if kind.starts_with(b"application/json") => BodyKind::Json,
            Some(kind) if kind.starts_with(b"text/") => BodyKind::Text,
            _ => BodyKind::Bytes,
        };
        Self { status, content: Content::Body(response.into_body(), kind) }
    }
}

/// An error frame. Its message is truncated: it may contain data of the client.
pub(super) fn refusal(id: Option<String>, code: ErrorCode, message: &str) -> ErrorFrame {
    ErrorFrame { id, code, message: truncated(message), status: code.status(), context: None }
}

/// The beginning of the message of an error frame, which may contain data of the client.
pub(crate) fn truncated(message: &str) -> String {
    let mut shown = message[..message.floor_char_boundary(MAX_ERROR_MESSAGE_BYTES)].to_owned();
    if shown.len() < message.len() {
        shown.push('…');
    }
    shown
}

/// A parsed message.
pub(super) enum Parsed {
    /// Cancel the request with this id.
    Cancel(String),
    /// A request.
    Request {
        id: String,
        request: Box<Request>,
        /// The size of its body, as received.
        body_bytes: usize,
    },
    /// An invalid frame, or an invalid request.
    Invalid(ErrorFrame),
}

/// Parses a message. It may take long, and does not block.
pub(super) fn parse(text: &str) -> Parsed {
    let invalid = |id, why: &str| Parsed::Invalid(refusal(id, ErrorCode::ValidationFailed, why));
    let frame: ClientFrame = match serde_json::from_str(text) {
        Ok(frame) => frame,
        Err(e) => return invalid(None, &format!("invalid frame: {}", JsonProblem::new(&e, true))),
    };
    if frame.id.len() > MAX_FRAME_ID_BYTES {
        return invalid(None, &format!("the id is too long, at most {MAX_FRAME_ID_BYTES} bytes are allowed"));
    }
    let id = frame.id.clone();
    if frame.kind == ClientFrameKind::Cancel {
        return Parsed::Cancel(id);
    }
    let body_bytes = frame.body.as_ref().map_or(0, |body| body.get().len());
    match request(frame) {
        Ok(request) => Parsed::Request { id, request: Box::new(request), body_bytes },
        Err(why) => invalid(Some(id), &why),
    }
}

/// The request that a frame describes.
fn request(frame: ClientFrame) -> Result<Request, String> {
    let (Some(method), Some(path)) = (frame.method, frame.path) else {
        return Err("a request requires a method and a path".into());
    };
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| "invalid method".to_owned())?;
    // The host was checked when the socket was opened.
    if !path.starts_with('/') {
        return Err("the path must begin with /; omit the scheme and the host".into());
    }
    let uri: Uri = path.parse().map_err(|_| "invalid path".to_owned())?;
    if SOCKET_PATHS.contains(&uri.path()) {
        return Err("a WebSocket cannot be opened over a WebSocket".into());
    }
    let body = match (frame.body, frame.encoding.unwrap_or_default()) {
        (None, _) => Body::empty(),
        // The unchanged text, so that derived values, such as the digest of an Idempotency-Key, are the same as over
        // HTTP.
        (Some(body), Encoding::Utf8) => Body::from(Box::<str>::from(body).into_string()),
        (Some(body), Encoding::Base64) => {
            let text: String =
                serde_json::from_str(body.get()).map_err(|_| "a base64 body must be a string".to_owned())?;
            let bytes = base64::engine::general_purpose::STANDARD.decode(text);
            Body::from(bytes.map_err(|e| format!("the body is not valid base64: {e}"))?)
        }
    };
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    for (name, value) in frame.headers.unwrap_or_default() {
        let name: HeaderName = name.parse().map_err(|_| format!("{name:?} is not a valid header"))?;
        let value = HeaderValue::from_str(&value).map_err(|_| format!("invalid value of header {name}"))?;
        request.headers_mut().append(name, value);
    }
    request.extensions_mut().insert(Multiplexed);
    Ok(request)
}
