//! The frames of the multiplexed WebSocket at `/ws`: requests one way, answers and stream events the other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::ErrorCode;
use crate::execute::Encoding;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// What a client wants with a frame.
    pub enum ClientFrameKind {
        /// Sends a request.
        Request = "request",
        /// Cancels a request, as a client does that closes its connection.
        Cancel = "cancel",
    }
}

/// What a client sends.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientFrame {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: ClientFrameKind,
    /// What the answer refers to; unique among the requests under way.
    pub id: String,
    /// The HTTP method. Required in a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The path, with its query. Required in a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The JSON body. The route gets exactly this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub body: Option<Box<RawValue>>,
    /// With `base64`, `body` is a string, and the route gets the bytes it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// Headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
}

/// The answer to a request; the last frame of its id.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResponseFrame {
    /// The request.
    pub id: String,
    /// The HTTP status.
    pub status: u16,
    /// `base64` where the body is not text: `body` is then a string in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// The body: as it is where it is JSON, else as a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub body: Option<Box<RawValue>>,
    /// Always true.
    pub done: bool,
}

/// One event of a stream.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StreamFrame {
    /// The request.
    pub id: String,
    /// The name of the event, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Its data, as the text that SSE would carry.
    pub data: String,
    /// Its cursor, as SSE's `id:`.
    #[serde(default, rename = "eventId", skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
}

/// A request or a frame that failed. With an id it is the last frame of that request.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ErrorFrame {
    /// The request, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Which error it is.
    pub code: ErrorCode,
    /// What happened, in a sentence.
    pub message: String,
    /// The HTTP status.
    pub status: u16,
    /// What a program may want to know about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub context: Option<Value>,
}

/// What the server sends.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ServerFrame {
    /// The answer to a request.
    Response(ResponseFrame),
    /// One event of a stream.
    Stream(StreamFrame),
    /// A refusal.
    Error(ErrorFrame),
}
