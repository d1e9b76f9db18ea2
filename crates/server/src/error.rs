//! [`ApiError`]: an error response.
//!
//! It has a message for the client and, for internal errors, another one for the log. A handler returns it.
//! The outermost layer, which has the request id, writes the body.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use sandcrab_api::event::ErrorEvent;
use sandcrab_api::{ErrorBody, ErrorCode, Timestamp, without_error_number};
use sandcrab_engine::{ControlError, ReadError, SessionError, StartError, TerminalError};
use sandcrab_workspace::{FileError, FileErrorKind};
use serde_json::{Map, Value};

use crate::nearest::nearest;

/// Number of panics of handlers, streams and bodies.
pub(crate) static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Maximum number of characters of an unknown name in a message.
const MAX_SHOWN_NAME_CHARS: usize = 64;

/// An error response. Boxed, because every handler's result reserves space for one.
#[derive(Debug, Clone)]
pub(crate) struct ApiError(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    code: ErrorCode,
    message: String,
    context: Map<String, Value>,
    suggestion: Option<String>,
    /// For the log only.
    internal: Option<String>,
}

impl ApiError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let (context, suggestion, internal) = (Map::new(), None, None);
        let message = without_error_number(message.into());
        Self(Box::new(Parts { code, message, context, suggestion, internal }))
    }

    /// A field of the request is invalid.
    pub(crate) fn invalid(field: &str, why: impl std::fmt::Display) -> Self {
        Self::new(ErrorCode::ValidationFailed, format!("{field}: {why}"))
            .with("field", field)
            .with("validationErrors", serde_json::json!([{"field": field, "message": why.to_string()}]))
    }

    /// A field or query parameter that the route does not have. `known` are those that it has.
    pub(crate) fn unknown<'a>(
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str> + Clone,
    ) -> Self {
        let shown: String = name.chars().take(MAX_SHOWN_NAME_CHARS).collect();
        let why = match nearest(name, known.clone()) {
            Some(nearest) => format!("unknown {what}; did you mean {nearest:?}?"),
            None => format!("unknown {what}"),
        };
        let error = Self::invalid(&shown, why);
        if let Some(nearest) = nearest(name, known.clone()) {
            return error.with("nearest", nearest);
        }
        let known: Vec<_> = known.into_iter().collect();
        match known.as_slice() {
            [] => error.suggest(format!("omit it: the route has no {what}")),
            known => error.suggest(format!("the route has: {}", known.join(", "))),
        }
    }

    pub(crate) fn too_many(what: &str) -> Self {
        Self::new(ErrorCode::LimitExceeded, format!("too many {what}"))
    }

    /// The last event of a stream that cannot continue.
    pub(crate) fn event(&self) -> ErrorEvent {
        ErrorEvent {
            error: self.message().into(),
            data: self.message().into(),
            code: self.code(),
            exit_code: None,
            execution_id: None,
            timestamp: Timestamp::now(),
        }
    }

    /// The connection was selected to be closed before this request.
    pub(crate) fn connection_limit() -> Self {
        Self::new(
            ErrorCode::LimitExceeded,
            "connection limit reached; this connection is closed; connect again",
        )
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(ErrorCode::ShuttingDown, "the server is stopping; retry when it has restarted")
    }

    pub(crate) fn no_session(id: &str) -> Self {
        Self::new(ErrorCode::SessionNotFound, format!("session {id:?} not found"))
            .with("sessionId", id)
            .suggest("create it first: POST /api/session/create")
    }

    pub(crate) fn no_process(id: &str) -> Self {
        Self::new(ErrorCode::ProcessNotFound, format!("process {id:?} not found"))
            .with("processId", id)
            .suggest("list all processes: GET /api/process/list?all=true")
    }

    pub(crate) fn no_terminal(id: &str) -> Self {
        Self::new(ErrorCode::TerminalNotFound, format!("terminal {id:?} not found"))
            .with("terminalId", id)
            .suggest("create it first: POST /api/terminal/create")
    }

    pub(crate) fn no_service(id: &str) -> Self {
        Self::new(ErrorCode::ServiceNotFound, format!("service {id:?} not found"))
            .with("serviceId", id)
            .suggest("list all services: GET /api/service/list")
    }

    /// An internal error. The client gets no details.
    pub(crate) fn internal(why: impl std::fmt::Display) -> Self {
        let mut error = Self::new(ErrorCode::InternalError, "internal error; see the log of the server");
        error.0.internal = Some(why.to_string());
        error
    }

    /// A handler panicked. The panic message goes to the log only.
    pub(crate) fn panic(payload: &(dyn std::any::Any + Send)) -> Self {
        PANICS.fetch_add(1, Ordering::Relaxed);
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self::internal(format!("panicked: {}", text.unwrap_or("with a value that is not text")))
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.context.insert(name.into(), value.into());
        self
    }

    #[must_use]
    pub(crate) fn suggest(mut self, what: impl Into<String>) -> Self {
        self.0.suggestion = Some(what.into());
        self
    }

    /// Replaces the message.
    #[must_use]
    pub(crate) fn reword(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Returns a field of the context.
    pub(crate) fn context(&self, name: &str) -> Option<&Value> {
        self.0.context.get(name)
    }

    /// Returns the invalid field of the request.
    pub(crate) fn field(&self) -> Option<&str> {
        self.context("field").and_then(Value::as_str)
    }

    pub(crate) fn code(&self) -> ErrorCode {
        self.0.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn internal_message(&self) -> Option<&str> {
        self.0.internal.as_deref()
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the body, with the id and the operation of the request.
    pub(crate) fn body(self, request_id: &str, operation: Option<String>) -> ErrorBody {
        let Parts { code, message, context, suggestion, .. } = *self.0;
        ErrorBody {
            code,
            message,
            context,
            http_status: code.status(),
            timestamp: Timestamp::now(),
            request_id: request_id.into(),
            operation,
            suggestion,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StartError> for ApiError {
    fn from(e: StartError) -> Self {
        let message = e.to_string();
        let error = |code| Self::new(code, message.clone());
        match &e {
            StartError::InvalidCommand(_) => error(ErrorCode::InvalidCommand),
            StartError::UserNotAllowed(_) => error(ErrorCode::PermissionDenied).with("field", "user"),
            StartError::BadCwd { path, source } => {
                let code = match source.kind() {
                    std::io::ErrorKind::NotADirectory => ErrorCode::NotDirectory,
                    std::io::ErrorKind::PermissionDenied => ErrorCode::PermissionDenied,
                    _ => ErrorCode::ValidationFailed,
                };
                error(code).with("field", "cwd").with("path", path.to_string_lossy())
            }
            StartError::ProgramNotFound(program) => {
                error(ErrorCode::CommandNotFound).with("command", program.as_str())
            }
            StartError::ProgramNotExecutable { program, .. } => {
                error(ErrorCode::PermissionDenied).with("command", program.as_str())
            }
            StartError::ArgumentsTooLong => error(ErrorCode::InvalidCommand),
            StartError::Limit(_) => error(ErrorCode::LimitNotSupported).with("field", "limits"),
            StartError::AlreadyExists(id) | StartError::HasLeftovers(id) | StartError::InUse(id) => {
                error(ErrorCode::ProcessAlreadyExists).with("processId", id.as_str())
            }
            StartError::Conflict(id) => error(ErrorCode::ExecutionConflict).with("executionId", id.as_str()),
            StartError::TooManyExecutions(_)
            | StartError::QueueFull
            | StartError::OutOf { .. }
            | StartError::LimitsLowered => error(ErrorCode::LimitExceeded),
            StartError::SessionGone(id) => error(ErrorCode::SessionDestroyed).with("sessionId", id.as_str()),
            StartError::NoShell(_) => error(ErrorCode::NoShell),
            StartError::StateTooLarge => error(ErrorCode::StateTooLarge),
            StartError::Lost => error(ErrorCode::ExecutionLost),
            StartError::NoSpace => error(ErrorCode::NoSpace),
            StartError::StateDirMissing => error(ErrorCode::StateDirMissing),
            _ => Self::internal(message),
        }
    }
}

impl From<ControlError> for ApiError {
    fn from(e: ControlError) -> Self {
        let message = e.to_string();
        match e {
            ControlError::Ended => Self::new(ErrorCode::ProcessEnded, message),
            ControlError::NotStarted => Self::new(ErrorCode::ProcessNotStarted, message),
            ControlError::SessionGone(id) => {
                Self::new(ErrorCode::SessionDestroyed, message).with("sessionId", id.as_str())
            }
            ControlError::Unsupported => Self::new(ErrorCode::NotSupported, message),
            ControlError::Disconnected => Self::new(ErrorCode::ExecutionLost, message),
            ControlError::Busy => Self::new(ErrorCode::LimitExceeded, message),
            ControlError::StdinNotOpen => Self::new(ErrorCode::StdinNotOpen, message)
                .suggest("start it with keepStdinOpen, and write before closing"),
            ControlError::Running | ControlError::InUse => Self::new(ErrorCode::ExecutionConflict, message),
            ControlError::NoSuchSignal(_) => Self::invalid("signal", message),
            _ => Self::internal(message),
        }
    }
}

impl From<SessionError> for ApiError {
    fn from(e: SessionError) -> Self {
        let message = e.to_string();
        match e {
            SessionError::AlreadyExists(id) => {
                Self::new(ErrorCode::SessionAlreadyExists, message).with("sessionId", id.as_str())
            }
            SessionError::NotFound(id) => Self::no_session(id.as_str()),
            SessionError::TooMany(_) => Self::new(ErrorCode::LimitExceeded, message),
            SessionError::Start(e) => e.into(),
            _ => Self::internal(message),
        }
    }
}

impl From<TerminalError> for ApiError {
    fn from(e: TerminalError) -> Self {
        let message = e.to_string();
        match e {
            TerminalError::InvalidSize { .. } => Self::invalid("cols", message),
            TerminalError::InvalidTerm(_) => Self::invalid("term", message),
            TerminalError::TooMany(_) => Self::new(ErrorCode::LimitExceeded, message),
            TerminalError::SessionNotFound(id) => Self::no_session(id.as_str()),
            TerminalError::Start(e) => e.into(),
            _ => Self::internal(message),
        }
    }
}

impl From<ReadError> for ApiError {
    fn from(e: ReadError) -> Self {
        match e {
            ReadError::Removed => Self::new(ErrorCode::ProcessNotFound, e.to_string()),
            ReadError::OutOf(_) => Self::new(ErrorCode::LimitExceeded, e.to_string()),
            _ => Self::internal(e),
        }
    }
}

impl From<FileError> for ApiError {
    fn from(e: FileError) -> Self {
        let message = e.to_string();
        let code = match e.kind {
            FileErrorKind::InvalidPath
            | FileErrorKind::InvalidOperation
            | FileErrorKind::Protected
            | FileErrorKind::TooDeep => {
                return Self::invalid("path", message).with("path", e.path.to_string_lossy());
            }
            FileErrorKind::NameTooLong => ErrorCode::NameTooLong,
            FileErrorKind::NotFound => ErrorCode::FileNotFound,
            FileErrorKind::Exists => ErrorCode::FileExists,
            FileErrorKind::IsDirectory | FileErrorKind::EndsWithSlash => ErrorCode::IsDirectory,
            FileErrorKind::NotDirectory => ErrorCode::NotDirectory,
            FileErrorKind::NotEmpty => ErrorCode::DirectoryNotEmpty,
            FileErrorKind::NotRegular => ErrorCode::NotRegularFile,
            FileErrorKind::TooManyLinks => ErrorCode::TooManyLinks,
            FileErrorKind::PermissionDenied => ErrorCode::PermissionDenied,
            FileErrorKind::ReadOnly => ErrorCode::ReadOnly,
            FileErrorKind::NoSpace => ErrorCode::NoSpace,
            FileErrorKind::TooLarge => ErrorCode::BodyTooLarge,
            FileErrorKind::Busy => ErrorCode::ResourceBusy,
            FileErrorKind::Changed => ErrorCode::PreconditionFailed,
            FileErrorKind::OutOfResources => ErrorCode::LimitExceeded,
            FileErrorKind::NotSupported => ErrorCode::NotSupported,
            _ => ErrorCode::FileSystemError,
        };
        Self::new(code, message).with("path", e.path.to_string_lossy())
    }
}
