//! What can go wrong, as clients see it.
//!
//! An error code is part of the contract: clients decide by it. The list is closed, and every code has exactly one
//! HTTP status. The message is a sentence for people; it never holds a token, the value of a
//! variable, or what only the log should have. `context` holds what a program may want to know, by name.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use crate::Timestamp;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $status:literal;)*) => {
        /// Why a request was refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[doc = $doc])+ $variant,)*
            /// A code of a newer server. The status, the message and the suggestion say what there is to know.
            Unknown,
        }

        impl ErrorCode {
            /// Every code that this version knows.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code as the word on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Unknown => "UNKNOWN",
                }
            }

            /// The code that is this word on the wire; `Unknown` for one of a newer server.
            pub fn from_word(word: &str) -> Self {
                match word {
                    $($name => Self::$variant,)*
                    _ => Self::Unknown,
                }
            }

            /// What it means.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_ascii(),)*
                    Self::Unknown => "A code of a newer server.",
                }
            }

            /// The HTTP status it comes with.
            pub fn status(self) -> u16 {
                match self {
                    $(Self::$variant => $status,)*
                    Self::Unknown => 500,
                }
            }
        }
    };
}

codes! {
    /// The request is not what the route takes; the message names the field.
    ValidationFailed = "VALIDATION_FAILED", 400;
    /// The command cannot be run: it holds a NUL, is empty where it may not be, or is too long.
    InvalidCommand = "INVALID_COMMAND", 400;
    /// A path is no folder.
    NotDirectory = "NOT_DIRECTORY", 400;
    /// A name or an id is too long.
    NameTooLong = "NAME_TOO_LONG", 400;
    /// A limit was asked for that cannot be enforced here.
    LimitNotSupported = "LIMIT_NOT_SUPPORTED", 400;
    /// The token is missing or wrong.
    Unauthorized = "UNAUTHORIZED", 401;
    /// The operating system does not permit it, or the request comes from where it may not.
    PermissionDenied = "PERMISSION_DENIED", 403;
    /// There is no such file or folder.
    FileNotFound = "FILE_NOT_FOUND", 404;
    /// There is no such route.
    RouteNotFound = "ROUTE_NOT_FOUND", 404;
    /// There is no such program.
    CommandNotFound = "COMMAND_NOT_FOUND", 404;
    /// There is no such process, or its record was removed.
    ProcessNotFound = "PROCESS_NOT_FOUND", 404;
    /// There is no such session.
    SessionNotFound = "SESSION_NOT_FOUND", 404;
    /// There is no such terminal, or its record was removed.
    TerminalNotFound = "TERMINAL_NOT_FOUND", 404;
    /// The route does not take this method.
    MethodNotAllowed = "METHOD_NOT_ALLOWED", 405;
    /// It did not happen within the time the request gave it.
    WaitTimeout = "PROCESS_READY_TIMEOUT", 408;
    /// An execution with this id or key was started by another request.
    ExecutionConflict = "EXECUTION_CONFLICT", 409;
    /// A process with this id is running.
    ProcessAlreadyExists = "PROCESS_ALREADY_EXISTS", 409;
    /// A session with this id is there.
    SessionAlreadyExists = "SESSION_ALREADY_EXISTS", 409;
    /// Standard input is closed, or was never open.
    StdinNotOpen = "STDIN_NOT_OPEN", 409;
    /// The program of the terminal does not read, and its input queue is full. `context.written` is the number of accepted bytes.
    TerminalInputFull = "TERMINAL_INPUT_FULL", 409;
    /// The process has ended, so this cannot be done to it.
    ProcessEnded = "PROCESS_ENDED", 409;
    /// The command waits for its turn, so this cannot be done to it yet.
    ProcessNotStarted = "PROCESS_NOT_STARTED", 409;
    /// The session was deleted while the request was on its way.
    SessionDestroyed = "SESSION_DESTROYED", 410;
    /// The command ended its session's shell.
    SessionTerminated = "SESSION_TERMINATED", 410;
    /// The body is larger than the route takes.
    BodyTooLarge = "FILE_TOO_LARGE", 413;
    /// The range is not within what there is.
    RangeNotSatisfiable = "RANGE_NOT_SATISFIABLE", 416;
    /// The route speaks WebSocket only.
    UpgradeRequired = "UPGRADE_REQUIRED", 426;
    /// Too many of something, or the machine is out of something; the message says of what.
    LimitExceeded = "LIMIT_EXCEEDED", 429;
    /// The client cancelled the request. Only over a WebSocket, where such a client is still there.
    RequestCancelled = "REQUEST_CANCELLED", 499;
    /// Our bug.
    InternalError = "INTERNAL_ERROR", 500;
    /// The command's supervisor was killed while it started it; it may or may not have run.
    ExecutionLost = "EXECUTION_LOST", 502;
    /// The server is stopping.
    ShuttingDown = "SHUTTING_DOWN", 503;
    /// The state directory was removed while the server runs.
    StateDirMissing = "STATE_DIR_MISSING", 503;
    /// What runs was started by an older version, which cannot do this.
    NotSupported = "NOT_SUPPORTED", 501;
    /// There is no shell on this machine that could run it.
    NoShell = "NO_SHELL", 501;
    /// The state directory's disk is full.
    NoSpace = "NO_SPACE", 507;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_word(&<std::borrow::Cow<'de, str>>::deserialize(deserializer)?))
    }
}

impl utoipa::PartialSchema for ErrorCode {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let values: Vec<_> = Self::ALL.iter().map(|code| (code.as_str(), code.meaning())).collect();
        crate::wire_enum::schema(
            "Why a request was refused. A newer server may have more codes than these.",
            &values,
        )
    }
}

impl ToSchema for ErrorCode {}

/// The body of every answer that refuses something.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// Which error it is.
    pub code: ErrorCode,
    /// What happened and what to do, in a sentence.
    pub message: String,
    /// What a program may want to know about it.
    #[schema(value_type = Object)]
    pub context: serde_json::Map<String, serde_json::Value>,
    /// The HTTP status.
    pub http_status: u16,
    /// When.
    pub timestamp: Timestamp,
    /// The request's id, which the log has too.
    pub request_id: String,
    /// What was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// What may help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_words_and_differ() {
        let mut names: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            assert!((400..600).contains(&code.status()), "{code}");
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{code}\""));
            assert_eq!(serde_json::from_str::<ErrorCode>(&format!("\"{code}\"")).unwrap(), *code);
            assert!(code.meaning().ends_with('.'), "{code}");
        }
    }
}
