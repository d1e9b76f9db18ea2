//! The frames of the multiplexed WebSocket at `/ws`: requests one way, answers and stream events the other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ErrorCode;

/// A request over the socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestFrame {
    /// What answers refer to; unique among the requests under way.
    pub id: String,
    /// The HTTP method.
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The JSON body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
}

/// Gives up a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelFrame {
    /// The request.
    pub id: String,
}

/// What a client sends.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ClientFrame {
    /// Asks for something.
    Request(RequestFrame),
    /// Does not want the answer any more.
    Cancel(CancelFrame),
}

/// The answer to a request; the last frame of its id.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResponseFrame {
    /// The request.
    pub id: String,
    /// The HTTP status.
    pub status: u16,
    /// The body, as JSON where it is JSON, else as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Always true.
    pub done: bool,
}

/// One event of a stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
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

/// A request, or a frame, that could not be dealt with.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    pub context: Option<Value>,
}

/// What the server sends.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ServerFrame {
    /// The answer to a request.
    Response(ResponseFrame),
    /// One event of a stream.
    Stream(StreamFrame),
    /// A refusal.
    Error(ErrorFrame),
}
