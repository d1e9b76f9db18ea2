//! Recordings of terminals and processes.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use sandcrab_api::terminal::RecordingFormat;
use sandcrab_engine::{Execution, Terminal};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::body::pieces;
use crate::error::ApiError;
use crate::input::{PathExecution, PathTerminal};
use crate::layer::RequestId;
use crate::origin::Origin;
use crate::query::Params;
use crate::sandbox::Sandbox;
use crate::summary::{read_blocking, with_retries};
use crate::terminal::recording::Recording;

/// The media type of asciicast.
const ASCIICAST: HeaderValue = HeaderValue::from_static("application/x-asciicast");

/// Options of a recording.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RecordingOptions {
    /// Form of the recording. Default: `asciicast`, which is version 2 of that format.
    #[param(inline)]
    #[serde(rename = "format")]
    _format: Option<RecordingFormat>,
}

/// Returns the output of a terminal so far, with its times and sizes.
///
/// The recording contains what the journal still has. A marker states how many bytes are missing.
#[utoipa::path(get, path = "/api/terminal/{id}/recording", operation_id = "getTerminalRecording", tag = "terminals",
    params(("id" = String, Path, description = "Id of a terminal."), RecordingOptions),
    responses((status = 200, description = "The recording.", body = String, content_type = "application/x-asciicast")))]
pub(crate) async fn of_terminal(
    State(app): State<App>,
    request: RequestId,
    PathTerminal(terminal): PathTerminal,
    Params(_): Params<RecordingOptions>,
) -> Result<Response, ApiError> {
    respond(&app, request, terminal.execution().clone(), Some(terminal)).await
}

/// Returns the output of a process so far, with its times.
///
/// The recording contains what the journal still has of both streams. For a process without a terminal, line feeds become CR LF.
#[utoipa::path(get, path = "/api/process/{id}/recording", operation_id = "getProcessRecording", tag = "processes",
    params(("id" = String, Path, description = "Id of a process or other execution."), RecordingOptions),
    responses((status = 200, description = "The recording.", body = String, content_type = "application/x-asciicast")))]
pub(crate) async fn of_process(
    State(app): State<App>,
    request: RequestId,
    sandbox: Sandbox,
    PathExecution(execution): PathExecution,
    Params(_): Params<RecordingOptions>,
) -> Result<Response, ApiError> {
    let terminal = sandbox.engine.terminal(execution.id());
    respond(&app, request, execution, terminal).await
}

async fn respond(
    app: &App,
    request: RequestId,
    execution: Execution,
    terminal: Option<Terminal>,
) -> Result<Response, ApiError> {
    let open = || {
        let terminal = terminal.clone();
        read_blocking(&execution, move |execution| Recording::new(execution, terminal.as_ref()))
    };
    let recording = with_retries(open).await?;
    let origin = Origin::execution(request, &execution);
    let body = pieces::body(recording, app.outgoing.clone(), origin);
    Ok(([(header::CONTENT_TYPE, ASCIICAST)], body).into_response())
}
