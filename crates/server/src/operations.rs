//! Query parameters and errors of each operation.
//!
//! The OpenAPI document lists both. An undeclared query parameter is refused. An error that is missing in
//! [`ERRORS`] is a bug: in builds with debug assertions, which tests and the fuzzer use, it becomes a 500.

use std::collections::HashMap;
use std::sync::OnceLock;

use axum::extract::{MatchedPath, Request};
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sandcrab_api::ErrorCode;

use crate::error::ApiError;
use crate::query::pairs;

use ErrorCode::{
    BackupExpired, BackupNotFound, BackupTransferFailed, BodyTooLarge, CommandNotFound, DirectoryNotEmpty,
    ExecutionConflict, ExecutionLost, FileExists, FileNotFound, FileSystemError, GitAuthFailed,
    GitBranchNotFound, GitNetworkError, GitOperationFailed, GitRepositoryNotFound, InvalidArchive,
    InvalidBackupConfig, InvalidCommand, InvalidGitUrl, InvalidPort, IsDirectory, LimitExceeded,
    LimitNotSupported, NameTooLong, NoShell, NoSpace, NotDirectory, NotRegularFile, NotSupported,
    PermissionDenied, PortAlreadyExposed, PortNotExposed, PreconditionFailed, ProcessAlreadyExists,
    ProcessEnded, ProcessNotFound, ProcessNotStarted, RangeNotSatisfiable, ReadOnly, ResourceBusy,
    ServiceAlreadyExists, ServiceNotFound, SessionAlreadyExists, SessionDestroyed, SessionNotFound,
    SessionTerminated, ShuttingDown, StateDirMissing, StateTooLarge, StdinNotOpen, TerminalInputFull,
    TerminalNotFound, TooManyLinks, Unauthorized, UpgradeRequired, ValidationFailed, WaitTimeout,
};

/// Errors of every operation: invalid headers or query parameters, missing token, forbidden origin.
pub(crate) const COMMON: &[ErrorCode] = &[ValidationFailed, Unauthorized, PermissionDenied];
/// Errors of a JSON body.
const BODY: &[ErrorCode] = &[BodyTooLarge, LimitExceeded];
/// Errors of starting an execution or session.
const START: &[ErrorCode] =
    &[NotDirectory, LimitExceeded, NoShell, ExecutionLost, ShuttingDown, StateDirMissing, NoSpace];
/// Additional errors of starting a command.
const COMMAND: &[ErrorCode] = &[
    InvalidCommand,
    NameTooLong,
    LimitNotSupported,
    CommandNotFound,
    SessionNotFound,
    ProcessAlreadyExists,
    ExecutionConflict,
    SessionDestroyed,
];
/// Errors of requests to a supervisor.
const CONTROL: &[ErrorCode] = &[LimitExceeded, NotSupported];
/// Errors of requests to a session.
const SESSION: &[ErrorCode] = &[SessionNotFound, SessionDestroyed, LimitExceeded, ExecutionLost];
/// Errors of every operation on a path.
const PATH: &[ErrorCode] = &[
    ExecutionLost,
    SessionDestroyed,
    SessionNotFound,
    FileNotFound,
    NotDirectory,
    NameTooLong,
    TooManyLinks,
    LimitExceeded,
    NotSupported,
    FileSystemError,
];
/// Errors of operations on the content of a file.
const CONTENT: &[ErrorCode] = &[IsDirectory, NotRegularFile, BodyTooLarge];
/// Errors of a disk that is changed.
const DISK: &[ErrorCode] = &[ReadOnly, ResourceBusy, NoSpace];
/// Errors of operations that replace files.
const CHANGE: &[ErrorCode] =
    &[FileExists, IsDirectory, DirectoryNotEmpty, NotRegularFile, ReadOnly, ResourceBusy, NoSpace];

/// Errors of git.
const GIT: &[ErrorCode] = &[
    CommandNotFound,
    GitAuthFailed,
    GitBranchNotFound,
    GitNetworkError,
    GitOperationFailed,
    GitRepositoryNotFound,
    InvalidCommand,
    ProcessNotFound,
    SessionNotFound,
    SessionDestroyed,
];

/// Errors of each operation besides [`COMMON`] and internal errors.
const ERRORS: &[(&str, &[&[ErrorCode]])] = &[
    ("POST /api/execute", &[BODY, START, COMMAND, &[SessionTerminated, ProcessNotFound]]),
    ("POST /api/execute/stream", &[BODY, START, COMMAND, &[ProcessNotFound]]),
    ("POST /api/process/start", &[BODY, START, COMMAND, &[StateTooLarge]]),
    ("GET /api/process/list", &[&[LimitExceeded]]),
    ("DELETE /api/process/kill-all", &[]),
    ("POST /api/process/cleanup", &[BODY]),
    ("GET /api/process/{id}", &[&[ProcessNotFound]]),
    ("DELETE /api/process/{id}", &[CONTROL, &[ProcessNotFound]]),
    ("POST /api/process/{id}/signal", &[BODY, CONTROL, &[ProcessNotFound, ProcessEnded, ProcessNotStarted]]),
    (
        "GET /api/process/{id}/wait",
        &[
            START,
            &[
                ProcessNotFound,
                WaitTimeout,
                InvalidCommand,
                LimitNotSupported,
                CommandNotFound,
                SessionDestroyed,
            ],
        ],
    ),
    (
        "POST /api/process/{id}/stdin",
        &[CONTROL, &[ProcessNotFound, ProcessEnded, ProcessNotStarted, StdinNotOpen]],
    ),
    ("GET /api/process/{id}/logs", &[&[ProcessNotFound, LimitExceeded]]),
    ("GET /api/process/{id}/stream", &[&[ProcessNotFound, LimitExceeded]]),
    ("GET /api/process/{id}/output", &[&[ProcessNotFound, LimitExceeded, RangeNotSatisfiable]]),
    ("GET /api/process/{id}/recording", &[&[ProcessNotFound, LimitExceeded]]),
    ("POST /api/terminal/create", &[BODY, START, COMMAND, &[StateTooLarge]]),
    ("GET /api/terminal/list", &[&[LimitExceeded]]),
    ("GET /api/terminal/{id}", &[&[TerminalNotFound, ProcessNotFound, LimitExceeded]]),
    ("DELETE /api/terminal/{id}", &[CONTROL, &[TerminalNotFound, ExecutionLost]]),
    ("POST /api/terminal/{id}/resize", &[BODY, CONTROL, &[TerminalNotFound, ProcessEnded, ExecutionLost]]),
    (
        "POST /api/terminal/{id}/input",
        &[
            BODY,
            CONTROL,
            &[TerminalNotFound, ProcessNotFound, ProcessEnded, TerminalInputFull, ExecutionLost],
        ],
    ),
    ("GET /api/terminal/{id}/screen", &[&[TerminalNotFound, ProcessNotFound, LimitExceeded]]),
    (
        "POST /api/terminal/{id}/wait",
        &[BODY, &[TerminalNotFound, ProcessNotFound, WaitTimeout, ProcessEnded, ShuttingDown]],
    ),
    ("GET /api/terminal/{id}/recording", &[&[TerminalNotFound, ProcessNotFound, LimitExceeded]]),
    ("POST /api/git/status", &[BODY, START, PATH, GIT]),
    ("POST /api/git/diff", &[BODY, START, PATH, GIT]),
    ("POST /api/git/log", &[BODY, START, PATH, GIT]),
    ("POST /api/git/branches", &[BODY, START, PATH, GIT]),
    ("POST /api/git/add", &[BODY, START, PATH, GIT]),
    ("POST /api/git/commit", &[BODY, START, PATH, GIT]),
    ("POST /api/git/pull", &[BODY, START, PATH, GIT, &[InvalidGitUrl]]),
    ("POST /api/git/push", &[BODY, START, PATH, GIT, &[InvalidGitUrl]]),
    (
        "POST /api/git/checkout",
        &[BODY, START, PATH, GIT, &[InvalidGitUrl, FileExists, DirectoryNotEmpty, ResourceBusy, ReadOnly]],
    ),
    ("GET /api/ports", &[&[LimitExceeded]]),
    ("POST /api/port-watch", &[BODY, &[InvalidPort, ProcessNotFound]]),
    (
        "POST /api/port/expose",
        &[BODY, &[InvalidPort, PortAlreadyExposed, ProcessNotFound, ProcessEnded, NoSpace, StateDirMissing]],
    ),
    ("POST /api/port/unexpose", &[BODY, &[InvalidPort, PortNotExposed, NoSpace, StateDirMissing]]),
    ("GET /api/port/exposed", &[]),
    (
        "POST /api/service/start",
        &[
            BODY,
            START,
            COMMAND,
            &[ServiceAlreadyExists, InvalidPort, WaitTimeout, ProcessEnded, StateTooLarge, ServiceNotFound],
        ],
    ),
    ("GET /api/service/list", &[&[LimitExceeded]]),
    ("GET /api/service/{id}", &[&[ServiceNotFound]]),
    (
        "DELETE /api/service/{id}",
        &[CONTROL, &[ServiceNotFound, ShuttingDown, NoSpace, StateDirMissing, ExecutionLost]],
    ),
    ("GET /api/service/{id}/health", &[&[ServiceNotFound]]),
    (
        "POST /api/service/{id}/stop",
        &[BODY, CONTROL, &[ServiceNotFound, ShuttingDown, NoSpace, StateDirMissing, ExecutionLost]],
    ),
    (
        "POST /api/service/{id}/restart",
        &[BODY, CONTROL, START, COMMAND, &[ServiceNotFound, ShuttingDown, StateTooLarge]],
    ),
    ("GET /api/service/{id}/logs", &[&[ServiceNotFound, ProcessNotFound, LimitExceeded]]),
    ("GET /api/service/{id}/stream", &[&[ServiceNotFound, LimitExceeded]]),
    ("POST /api/session/create", &[BODY, START, &[NameTooLong, SessionAlreadyExists, InvalidCommand]]),
    ("GET /api/session/list", &[&[LimitExceeded]]),
    ("POST /api/session/delete", &[BODY, &[SessionNotFound]]),
    ("GET /api/session/{id}", &[&[SessionNotFound]]),
    ("POST /api/session/{id}/interrupt", &[BODY, SESSION, CONTROL]),
    (
        "POST /api/session/{id}/fork",
        &[BODY, START, SESSION, &[NameTooLong, SessionAlreadyExists, StateTooLarge]],
    ),
    ("POST /api/session/{id}/reset", &[BODY, START, SESSION, &[StateTooLarge]]),
    ("POST /api/session/{id}/env", &[BODY, START, SESSION, &[InvalidCommand]]),
    ("POST /api/search", &[BODY, PATH, &[NotRegularFile, ShuttingDown]]),
    ("POST /api/find", &[BODY, PATH, &[NotRegularFile]]),
    ("POST /api/replace", &[BODY, PATH, &[NotRegularFile]]),
    ("POST /api/watch", &[BODY, PATH, &[ShuttingDown]]),
    ("POST /api/watch/check", &[BODY, PATH]),
    (
        "POST /api/backup/create",
        &[BODY, PATH, CHANGE, &[InvalidBackupConfig, PreconditionFailed, ShuttingDown]],
    ),
    (
        "POST /api/backup/restore",
        &[
            BODY,
            PATH,
            CHANGE,
            &[
                BackupExpired,
                BackupNotFound,
                BackupTransferFailed,
                InvalidArchive,
                InvalidBackupConfig,
                ShuttingDown,
            ],
        ],
    ),
    (
        "POST /api/backup/upload-parts",
        &[
            BODY,
            PATH,
            CONTENT,
            &[BackupExpired, BackupNotFound, BackupTransferFailed, InvalidBackupConfig, ShuttingDown],
        ],
    ),
    ("GET /api/backup/list", &[&[LimitExceeded, FileSystemError]]),
    ("DELETE /api/backup/{id}", &[&[BackupNotFound, LimitExceeded, FileSystemError, ReadOnly]]),
    ("POST /api/env", &[BODY, &[InvalidCommand, NoSpace]]),
    ("POST /api/exists", &[BODY, PATH]),
    ("POST /api/stat", &[BODY, PATH]),
    ("POST /api/read", &[BODY, PATH, CONTENT]),
    ("POST /api/read/stream", &[BODY, PATH, CONTENT]),
    ("GET /api/file", &[PATH, CONTENT, &[RangeNotSatisfiable, PreconditionFailed]]),
    ("PUT /api/file", &[BODY, PATH, CHANGE, &[PreconditionFailed]]),
    ("GET /api/folder", &[PATH, &[BodyTooLarge]]),
    ("PUT /api/folder", &[BODY, PATH, CHANGE, &[InvalidArchive]]),
    ("POST /api/list-files", &[BODY, PATH]),
    ("POST /api/write", &[BODY, PATH, CHANGE]),
    ("POST /api/delete", &[BODY, PATH, DISK, &[IsDirectory, DirectoryNotEmpty]]),
    ("POST /api/rename", &[BODY, PATH, CHANGE]),
    ("POST /api/move", &[BODY, PATH, CHANGE]),
    ("POST /api/copy", &[BODY, PATH, CHANGE]),
    ("POST /api/mkdir", &[BODY, PATH, DISK, &[FileExists]]),
    ("POST /api/chmod", &[BODY, PATH, DISK]),
    ("GET /api/ping", &[]),
    ("GET /api/version", &[]),
    ("GET /api/health", &[]),
    ("GET /metrics", &[]),
    ("GET /openapi.json", &[]),
    ("GET /api/events", &[]),
    ("GET /ws", &[&[UpgradeRequired]]),
    ("GET /ws/terminal", &[&[UpgradeRequired, TerminalNotFound, ShuttingDown]]),
    ("GET /ws/pty", &[START, COMMAND, &[UpgradeRequired]]),
];

/// Returns the errors of an operation except internal errors, or `None` if there is no such operation.
pub(crate) fn errors(operation: &str) -> Option<impl Iterator<Item = ErrorCode>> {
    let (_, own) = ERRORS.iter().find(|(name, _)| *name == operation)?;
    let all = COMMON.iter().chain(own.iter().copied().flatten()).copied();
    Some(ErrorCode::ALL.iter().copied().filter(move |code| all.clone().any(|other| other == *code)))
}

/// Returns the methods that a route supports.
pub(crate) fn methods(route: &str) -> Vec<&'static str> {
    let names = ERRORS.iter().filter_map(|(name, _)| name.split_once(' '));
    let of_route = names.filter(|(_, path)| *path == route).map(|(method, _)| method);
    // The router responds to HEAD as to GET, without the body.
    of_route.flat_map(|method| if method == "GET" { vec!["GET", "HEAD"] } else { vec![method] }).collect()
}

/// Returns the name of an operation in [`ERRORS`] and in the document: method and route.
fn name(method: &Method, route: &str) -> String {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    format!("{method} {route}")
}

/// Refuses undeclared query parameters, and replaces undeclared errors. The layer of all routes in the
/// document.
pub(crate) async fn check(request: Request, next: Next) -> Response {
    let Some(route) = request.extensions().get::<MatchedPath>().cloned() else {
        return next.run(request).await;
    };
    checked(route.as_str(), request, |request| next.run(request)).await
}

/// The same for a handler that is not called by the router.
pub(crate) async fn checked<F>(route: &str, request: Request, handler: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    let method = request.method().clone();
    if let Err(refusal) = check_query(&method, route, request.uri()) {
        return refusal.into_response();
    }
    let mut response = handler(request).await;
    if cfg!(debug_assertions)
        && let Some(error) = response.extensions_mut().remove::<ApiError>()
    {
        let error = check_error(&method, route, error);
        *response.status_mut() = error.status();
        response.extensions_mut().insert(error);
    }
    response
}

/// Replaces an undeclared error by an internal error.
fn check_error(method: &Method, route: &str, error: ApiError) -> ApiError {
    if error.code() == ErrorCode::InternalError {
        return error;
    }
    let operation = name(method, route);
    // Errors outside of operations, such as an unsupported method, are not declared.
    let is_declared = errors(&operation).is_none_or(|mut declared| declared.any(|code| code == error.code()));
    if is_declared {
        return error;
    }
    ApiError::internal(format!("{operation} does not declare {}: {}", error.code(), error.message()))
}

/// Refuses undeclared query parameters.
fn check_query(method: &Method, route: &str, uri: &Uri) -> Result<(), ApiError> {
    if uri.query().is_none_or(str::is_empty) {
        return Ok(());
    }
    let Some(known) = queries().get(&name(method, route)) else { return Ok(()) };
    let unknown = pairs(uri.query().unwrap_or_default()).find(|(name, _)| !known.contains(name));
    unknown.map_or(Ok(()), |(name, _)| {
        Err(ApiError::unknown("query parameter", &name, known.iter().map(String::as_str)))
    })
}

/// The query parameters of every operation, from the document.
fn queries() -> &'static HashMap<String, Vec<String>> {
    static QUERIES: OnceLock<HashMap<String, Vec<String>>> = OnceLock::new();
    QUERIES.get_or_init(|| {
        let document = crate::router::openapi();
        let mut all = HashMap::new();
        for (path, operations) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in operations.as_object().into_iter().flatten() {
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let in_query = parameters.filter(|parameter| parameter["in"] == "query");
                let names = in_query.filter_map(|parameter| parameter["name"].as_str().map(Into::into));
                all.insert(format!("{} {path}", method.to_uppercase()), names.collect());
            }
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_declares_its_errors() {
        let mut documented: Vec<_> = queries().keys().map(String::as_str).collect();
        let mut declared: Vec<_> = ERRORS.iter().map(|(name, _)| *name).collect();
        documented.sort_unstable();
        declared.sort_unstable();
        assert_eq!(documented, declared);
    }

    #[test]
    fn undeclared_error_becomes_internal() {
        let check = |method, route, code| check_error(&method, route, ApiError::new(code, "x")).code();
        assert_eq!(check(Method::GET, "/api/ping", Unauthorized), Unauthorized);
        assert_eq!(check(Method::HEAD, "/api/ping", Unauthorized), Unauthorized);
        assert_eq!(check(Method::GET, "/api/ping", ProcessNotFound), ErrorCode::InternalError);
        assert_eq!(check(Method::PUT, "/api/ping", ErrorCode::MethodNotAllowed), ErrorCode::MethodNotAllowed);
    }

    #[test]
    fn undeclared_query_parameters_are_refused() {
        let check = |operation: &str, query: &str| {
            let (method, route) = operation.split_once(' ').unwrap();
            let uri = format!("{route}?{query}").replace(['{', '}'], "").parse().unwrap();
            check_query(&method.parse().unwrap(), route, &uri).map_err(|e| e.message().to_owned())
        };
        assert_eq!(check("GET /api/process/{id}/logs", "tail=1&since=2"), Ok(()));
        assert_eq!(check("HEAD /api/ping", ""), Ok(()));
        let refused = check("DELETE /api/process/{id}", "grace=1").unwrap_err();
        assert!(refused.contains("graceMs"), "{refused}");
        assert!(check("GET /api/ping", "x").is_err());
        assert_eq!(check("POST /api/execute", "sessionId=a&session=b"), Ok(()));
    }
}
