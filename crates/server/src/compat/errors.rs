//! Errors and events with the codes and messages of the reference.

use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use sandcrab_api::event::ProcessEvent;
use sandcrab_api::{ErrorCode, Timestamp};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::events::{EventStream, Item, Payload};
use crate::layer::RequestId;
use crate::origin::Origin;

/// Exit codes that the reference shows as `killed`.
const KILLED_EXIT_CODES: [i32; 2] = [137, 143];

/// Returns the response to a session's command that timed out.
pub(super) fn timed_out(command: &str, session: &str, timeout: Duration) -> Response {
    let why = format!("Command timeout after {}ms", timeout.as_millis());
    let message = format!("Failed to execute command '{command}' in session '{session}': {why}");
    response("COMMAND_EXECUTION_ERROR", &message, &json!({ "command": command, "stderr": why }))
}

/// Translates the responses of every route.
pub(super) async fn translate(request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().cloned();
    let is_delete = request.uri().path() == "/api/delete";
    let is_clone = request.uri().path() == "/api/git/checkout";
    let mut response = next.run(request).await;
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        if is_clone && is_vague_in_reference(&error) {
            return clone_failed(&error);
        }
        response.extensions_mut().insert(reworded(error, is_delete));
    }
    if let Some(items) = EventStream::take(&mut response)
        && let Some(id) = id
    {
        response.extensions_mut().insert(EventStream::new(items.map(event), Origin::request(id)));
    }
    response
}

/// Whether the reference gives no reason for a failed clone: it knows only one message of one host.
fn is_vague_in_reference(error: &ApiError) -> bool {
    match error.code() {
        ErrorCode::GitRepositoryNotFound => !error.message().to_lowercase().contains("repository not found"),
        ErrorCode::GitAuthFailed | ErrorCode::GitOperationFailed => true,
        _ => false,
    }
}

fn clone_failed(error: &ApiError) -> Response {
    let stderr = error.context("stderr").cloned().unwrap_or_default();
    response(
        "GIT_OPERATION_FAILED",
        error.message(),
        &json!({ "stderr": stderr, "exitCode": error.context("exitCode") }),
    )
}

/// Returns an error with status 500 that the native API does not have.
fn response(code: &str, message: &str, context: &Value) -> Response {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    let body = axum::Json(json!({
        "code": code,
        "message": message,
        "context": context,
        "httpStatus": status.as_u16(),
        "timestamp": Timestamp::now(),
    }));
    (status, body).into_response()
}

/// Returns the error with the message of the reference, which clients may parse.
fn reworded(error: ApiError, is_delete: bool) -> ApiError {
    let named = |name| error.context(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let session = named("sessionId");
    match error.code() {
        ErrorCode::ProcessNotFound => {
            let message = format!("Process {} not found", named("processId"));
            error
                .reword(message)
                .suggest("Verify the process ID is correct and the process has not already exited")
        }
        ErrorCode::FileNotFound => {
            let message = format!("File not found: {}", named("path"));
            error.reword(message)
        }
        ErrorCode::IsDirectory if is_delete => {
            let path = named("path");
            error.reword(format!(
                "Cannot delete directory with deleteFile() at '{path}'. Use exec('rm -rf <path>') instead."
            ))
        }
        ErrorCode::SessionAlreadyExists => error.reword(format!("Session '{session}' already exists")),
        ErrorCode::SessionDestroyed => {
            error.reword(format!("Session '{session}' was destroyed during command execution"))
        }
        ErrorCode::SessionTerminated => {
            let code = error.context("exitCode").map_or_else(|| "unknown".to_owned(), Value::to_string);
            error.reword(format!("Session '{session}' shell exited (exit code: {code})")).suggest(
                "The variables, working directory and functions of the session are lost. The next command with its id starts a \
                 new session",
            )
        }
        _ => error,
    }
}

fn event(mut item: Item) -> Item {
    if let Item::Event(event) = &mut item
        && let Payload::Process(ProcessEvent::Exit(exit)) = &mut event.payload
    {
        let status = match exit.exit_code {
            0 => "completed",
            code if KILLED_EXIT_CODES.contains(&code) => "killed",
            _ => "failed",
        };
        exit.data = format!("Process {status} with exit code {}", exit.exit_code);
    }
    item
}
