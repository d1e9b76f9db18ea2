//! The frames of the multiplexed WebSocket at `/ws`: requests from the client, responses and stream events
//! from the server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::ErrorCode;
use crate::execute::Encoding;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// Purpose of a client frame.
    pub enum ClientFrameKind {
        /// Sends a request.
        Request = "request",
        /// Cancels a request. The effect is that of closing the connection of an HTTP request. If the server has no
        /// unfinished request with the id, it sends no frame: the last frame of the request may be in transit to the
        /// client, and every request gets exactly one.
        Cancel = "cancel",
    }
}

/// A frame from the client.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientFrame {
    /// Purpose of the frame.
    #[serde(rename = "type")]
    pub kind: ClientFrameKind,
    /// Id of the request, chosen by the client. Must be unique among its unfinished requests.
    pub id: String,
    /// HTTP method. Required in a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path with query. Required in a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// JSON body. Its text is passed to the route unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub body: Option<Box<RawValue>>,
    /// With `base64`, `body` is a string in base64, and the route receives the decoded bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// Request headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
}

/// Response to a request. Last frame with its id.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResponseFrame {
    /// Id of the request.
    pub id: String,
    /// HTTP status.
    pub status: u16,
    /// `base64` if the body is not text. `body` is then a string in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// Response body: a JSON value if the body is JSON, otherwise a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub body: Option<Box<RawValue>>,
    /// Always true.
    pub done: bool,
}

/// An event of a stream.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StreamFrame {
    /// Id of the request.
    pub id: String,
    /// Event name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Event data: the same text as in an SSE stream.
    pub data: String,
    /// Event cursor: the `id:` of an SSE stream.
    #[serde(default, rename = "eventId", skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
}

/// A request or frame failed. With an id, this is the last frame of that request.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ErrorFrame {
    /// Id of the request, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Error code.
    pub code: ErrorCode,
    /// Error message.
    pub message: String,
    /// HTTP status.
    pub status: u16,
    /// Details for programs, as named fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub context: Option<Value>,
}

/// A frame from the server.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ServerFrame {
    /// Response to a request. Last frame with its id.
    Response(ResponseFrame),
    /// An event of a stream.
    Stream(StreamFrame),
    /// A request or frame failed. With an id, this is the last frame of that request.
    Error(ErrorFrame),
}
