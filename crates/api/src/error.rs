//! Error codes and the error body.
//!
//! Error codes are part of the contract: clients act on them. Every code has exactly one HTTP status. A newer
//! server may add codes; clients read an unknown code as `Unknown`. The message is for people. It never
//! contains a token, the value of a variable, or details that belong in the server's log. `context` contains
//! the details for programs, as named fields.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use crate::Timestamp;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $status:literal;)*) => {
        /// Error code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[doc = $doc])+ $variant,)*
            /// A code that this version does not know, sent by a newer server. Status, message and suggestion
            /// still apply.
            Unknown,
        }

        impl ErrorCode {
            /// All codes of this version.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the code as it appears on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Unknown => "UNKNOWN",
                }
            }

            /// Parses a code. Returns `Unknown` for one that this version does not know.
            pub fn from_word(word: &str) -> Self {
                match word {
                    $($name => Self::$variant,)*
                    _ => Self::Unknown,
                }
            }

            /// Returns the description of the code.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_ascii(),)*
                    Self::Unknown => "A code of a newer server.",
                }
            }

            /// Returns the HTTP status of the code.
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
    /// The request is invalid. The message names the field.
    ValidationFailed = "VALIDATION_FAILED", 400;
    /// The command is invalid: it is empty, too long, or contains a NUL byte.
    InvalidCommand = "INVALID_COMMAND", 400;
    /// The URL of the repository is invalid.
    InvalidGitUrl = "INVALID_GIT_URL", 400;
    /// The port is not between 1 and 65535, or it is the port of the server itself.
    InvalidPort = "INVALID_PORT", 400;
    /// An option of the backup is invalid.
    InvalidBackupConfig = "INVALID_BACKUP_CONFIG", 400;
    /// The backup has expired.
    BackupExpired = "BACKUP_EXPIRED", 400;
    /// The archive is damaged, incomplete, or contains an entry that is not allowed. Nothing was changed.
    InvalidArchive = "INVALID_ARCHIVE", 400;
    /// The path is not a directory.
    NotDirectory = "NOT_DIRECTORY", 400;
    /// The path is a directory.
    IsDirectory = "IS_DIRECTORY", 400;
    /// The path is a FIFO, socket or device.
    NotRegularFile = "NOT_REGULAR_FILE", 400;
    /// The path has too many symbolic links, which may form a cycle.
    TooManyLinks = "TOO_MANY_LINKS", 400;
    /// A name, path or id is too long.
    NameTooLong = "NAME_TOO_LONG", 400;
    /// A requested limit cannot be enforced on this machine.
    LimitNotSupported = "LIMIT_NOT_SUPPORTED", 400;
    /// The host of the repository refused the credentials, or requires some.
    GitAuthFailed = "GIT_AUTH_FAILED", 401;
    /// The token is missing or wrong.
    Unauthorized = "UNAUTHORIZED", 401;
    /// The operating system denied permission, or the host or origin of the request is not allowed.
    PermissionDenied = "PERMISSION_DENIED", 403;
    /// The file system is mounted read-only.
    ReadOnly = "READ_ONLY", 403;
    /// The repository does not exist, or the path is not in one.
    GitRepositoryNotFound = "GIT_REPOSITORY_NOT_FOUND", 404;
    /// The branch, tag or commit does not exist.
    GitBranchNotFound = "GIT_BRANCH_NOT_FOUND", 404;
    /// The file or directory does not exist.
    FileNotFound = "FILE_NOT_FOUND", 404;
    /// The backup does not exist, or was deleted.
    BackupNotFound = "BACKUP_NOT_FOUND", 404;
    /// The route does not exist.
    RouteNotFound = "ROUTE_NOT_FOUND", 404;
    /// The program does not exist.
    CommandNotFound = "COMMAND_NOT_FOUND", 404;
    /// The process does not exist, or its record was removed.
    ProcessNotFound = "PROCESS_NOT_FOUND", 404;
    /// The session does not exist.
    SessionNotFound = "SESSION_NOT_FOUND", 404;
    /// The terminal does not exist, or its record was removed.
    TerminalNotFound = "TERMINAL_NOT_FOUND", 404;
    /// The port is not exposed, or the address of the preview is wrong.
    PortNotExposed = "PORT_NOT_EXPOSED", 404;
    /// The service does not exist, or was deleted.
    ServiceNotFound = "SERVICE_NOT_FOUND", 404;
    /// The route does not support this method.
    MethodNotAllowed = "METHOD_NOT_ALLOWED", 405;
    /// The timeout of the request passed before the process ended, or before the service was ready.
    WaitTimeout = "PROCESS_READY_TIMEOUT", 408;
    /// The file or directory exists.
    FileExists = "FILE_EXISTS", 409;
    /// The directory is not empty.
    DirectoryNotEmpty = "DIRECTORY_NOT_EMPTY", 409;
    /// The file is in use: it is a mount point or a running program.
    ResourceBusy = "RESOURCE_BUSY", 409;
    /// The port is exposed.
    PortAlreadyExposed = "PORT_ALREADY_EXPOSED", 409;
    /// Another request has used this id or idempotency key.
    ExecutionConflict = "EXECUTION_CONFLICT", 409;
    /// Git refused the operation. The message says why.
    GitOperationFailed = "GIT_OPERATION_FAILED", 409;
    /// A process with this id is running.
    ProcessAlreadyExists = "PROCESS_ALREADY_EXISTS", 409;
    /// A session with this id exists.
    SessionAlreadyExists = "SESSION_ALREADY_EXISTS", 409;
    /// A service with this id exists, and was neither stopped nor has it failed.
    ServiceAlreadyExists = "SERVICE_ALREADY_EXISTS", 409;
    /// Standard input is closed or was never open.
    StdinNotOpen = "STDIN_NOT_OPEN", 409;
    /// The program of the terminal does not read, and its input queue is full. `context.written` is the number of accepted bytes.
    TerminalInputFull = "TERMINAL_INPUT_FULL", 409;
    /// The process has ended.
    ProcessEnded = "PROCESS_ENDED", 409;
    /// The command is queued in its session and has not started.
    ProcessNotStarted = "PROCESS_NOT_STARTED", 409;
    /// The session was deleted while the request was in progress.
    SessionDestroyed = "SESSION_DESTROYED", 410;
    /// The command ended its session's shell.
    SessionTerminated = "SESSION_TERMINATED", 410;
    /// The file is not in the state that `If-Match` or `If-None-Match` requires.
    PreconditionFailed = "PRECONDITION_FAILED", 412;
    /// The body or the file exceeds the size limit of the route.
    BodyTooLarge = "FILE_TOO_LARGE", 413;
    /// The state of the session is too large to be copied. Unset large variables, or keep the data in a file.
    StateTooLarge = "SESSION_STATE_TOO_LARGE", 413;
    /// The range is outside the available bytes.
    RangeNotSatisfiable = "RANGE_NOT_SATISFIABLE", 416;
    /// The route requires a WebSocket upgrade.
    UpgradeRequired = "UPGRADE_REQUIRED", 426;
    /// A limit was reached, or the machine is out of a resource. The message names it.
    LimitExceeded = "LIMIT_EXCEEDED", 429;
    /// The client cancelled the request. Only sent over a WebSocket.
    RequestCancelled = "REQUEST_CANCELLED", 499;
    /// Internal error of the server.
    InternalError = "INTERNAL_ERROR", 500;
    /// The supervisor was killed while it started the command. The command may or may not have run.
    ExecutionLost = "EXECUTION_LOST", 502;
    /// The file system failed, for example with an I/O error of its disk. The message has the reason.
    FileSystemError = "FILESYSTEM_ERROR", 502;
    /// The other server cannot be reached, or refused the archive.
    BackupTransferFailed = "BACKUP_TRANSFER_FAILED", 502;
    /// The host of the repository cannot be reached, or the transfer was too slow.
    GitNetworkError = "GIT_NETWORK_ERROR", 502;
    /// No program listens on the port, or it does not answer.
    ServiceNotResponding = "SERVICE_NOT_RESPONDING", 502;
    /// The server is stopping.
    ShuttingDown = "SHUTTING_DOWN", 503;
    /// The state directory was removed while the server was running.
    StateDirMissing = "STATE_DIR_MISSING", 503;
    /// The file system does not support this operation, or an older version that started the command does not.
    NotSupported = "NOT_SUPPORTED", 501;
    /// The machine has no usable shell.
    NoShell = "NO_SHELL", 501;
    /// A request passed a preview and came back to the server.
    PreviewLoop = "PREVIEW_LOOP", 508;
    /// The disk of the file or of the state directory is full, or a quota is exceeded.
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
            "Error code. A newer server may send codes that are not listed here.",
            &values,
        )
    }
}

impl ToSchema for ErrorCode {}

/// The body of every error response.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// Error code.
    pub code: ErrorCode,
    /// Error message.
    pub message: String,
    /// Details for programs, as named fields.
    #[schema(value_type = Object)]
    pub context: serde_json::Map<String, serde_json::Value>,
    /// HTTP status.
    pub http_status: u16,
    /// Time of the response.
    pub timestamp: Timestamp,
    /// Id of the request, as in the server's log.
    pub request_id: String,
    /// The requested operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// What to do about the error.
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
