//! [`ClientError`]: why a call failed.

use std::time::Duration;

use sandcrab_api::event::ErrorEvent;
use sandcrab_api::{ErrorBody, ErrorCode, Timestamp};

use crate::AddressError;

pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The cause of a lost connection: a proxy has answered in place of the server.
#[derive(Debug, thiserror::Error)]
#[error("a proxy answered with status {0}")]
pub(crate) struct GatewayError(pub(crate) reqwest::StatusCode);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server refused; the body says why.
    #[error("{}", .0.message)]
    Api(Box<ErrorBody>),
    /// The address is invalid.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The token cannot be sent.
    #[error("the token contains invalid characters; check the file or variable it comes from")]
    Token,
    /// An id that is the name of a route, or changes the path.
    #[error("{0:?} is not a valid id: it is empty, `.`, `..` or the name of a route")]
    Id(String),
    /// The connection was refused or timed out.
    #[error("failed to reach the server at {address}: {source}")]
    Unreachable {
        /// The address.
        address: String,
        /// The innermost cause.
        source: Cause,
    },
    /// The connection ended before the response was complete, or a proxy answered in place of the server.
    #[error("the connection to {address} was lost: {source}")]
    ConnectionLost {
        /// The address.
        address: String,
        /// The innermost cause.
        source: Cause,
    },
    /// The response is not one of a Sandcrab server.
    #[error("invalid response from {address}: {why}")]
    InvalidResponse {
        /// The address.
        address: String,
        /// The reason why it is invalid.
        why: String,
    },
}

impl ClientError {
    /// The server's code, if the server refused.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Api(body) => Some(body.code),
            _ => None,
        }
    }

    /// What to do, in a sentence.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Api(body) => body.suggestion.clone(),
            Self::Unreachable { address, .. } => Some(match address.strip_prefix("unix:") {
                Some(path) => format!(
                    "start a server with `sandcrab serve --listen unix:{path}`, or give the address of one"
                ),
                None => "start a server with `sandcrab serve`, or give the address of one".to_owned(),
            }),
            Self::ConnectionLost { .. } => {
                Some("the server was stopped or the network failed; try again".to_owned())
            }
            Self::InvalidResponse { .. } => {
                Some("another program may be listening there, or a server of another version".to_owned())
            }
            Self::Address(_) | Self::Token | Self::Id(_) => None,
        }
    }

    /// The [`hint`](Self::hint), unless it names a route of the API: for programs whose users do not send requests.
    pub fn hint_without_routes(&self) -> Option<String> {
        self.hint().filter(|hint| !hint.contains("/api/") && !hint.contains("/openapi.json"))
    }

    /// An error that a stream reports.
    pub(crate) fn of_event(event: &ErrorEvent) -> Self {
        Self::local(event.code, event.error.clone())
    }

    /// An error that this client has found, with the code that the server would use.
    pub(crate) fn local(code: ErrorCode, message: String) -> Self {
        Self::Api(Box::new(body_without_response(code, message)))
    }

    /// The error of a wait that took too long.
    pub(crate) fn too_late(what: &str, limit: Duration) -> Self {
        Self::local(ErrorCode::WaitTimeout, format!("waited {} ms for {what}", limit.as_millis()))
    }

    /// Whether a proxy has answered in place of the server.
    pub(crate) fn is_of_gateway(&self) -> bool {
        matches!(self, Self::ConnectionLost { source, .. } if source.is::<GatewayError>())
    }

    /// Whether the same request may succeed a moment later.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::ConnectionLost { .. } => true,
            Self::Api(body) => matches!(body.code, ErrorCode::ShuttingDown | ErrorCode::LimitExceeded),
            _ => false,
        }
    }
}

/// The body of an error that did not come as a response.
pub(crate) fn body_without_response(code: ErrorCode, message: String) -> ErrorBody {
    ErrorBody {
        code,
        message,
        context: serde_json::Map::new(),
        http_status: code.status(),
        timestamp: Timestamp::now(),
        request_id: String::new(),
        operation: None,
        suggestion: None,
    }
}

/// The innermost source of an error of the HTTP library: the outer ones repeat the address.
pub(crate) fn innermost(error: &reqwest::Error) -> Cause {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match cause.downcast_ref::<std::io::Error>() {
        // The socket of an address.
        Some(io) if io.kind() == std::io::ErrorKind::NotFound => "the socket does not exist".into(),
        Some(io) if io.raw_os_error().is_some() => io.kind().to_string().into(),
        _ => cause.to_string().into(),
    }
}
