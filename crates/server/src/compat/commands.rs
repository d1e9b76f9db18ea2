//! Commands: `/api/execute`, `/api/execute/stream`, `/api/process/start`.

use std::time::Duration;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use sandcrab_api::Timestamp;
use sandcrab_api::event::{ExecuteEvent, OutputEvent};
use sandcrab_api::execute::EndReason;
use sandcrab_api::process::ProcessStarted;
use sandcrab_engine::End;
use serde_json::json;

use super::requests::{Command, Shell, into_native};
use super::{Mode, errors};
use crate::app::App;
use crate::convert;
use crate::error::ApiError;
use crate::events::{Event, EventStream, Item, Payload};
use crate::feed::{self, Feed, StreamKind};
use crate::input::Json;
use crate::launch::{Intent, Kind, Launch, launch, launch_guarded};
use crate::layer::RequestId;
use crate::origin::Origin;
use crate::routes::execute::{started, wait};
use crate::sandbox::Sandbox;
use crate::summary;

/// The line that the reference appends to standard error when a command without a session times out.
fn timeout_line(timeout: Option<Duration>) -> String {
    format!("Command timed out after {}ms", timeout.unwrap_or_default().as_millis())
}

fn is_timeout(end: &End) -> bool {
    convert::reason(end.reason) == EndReason::Timeout
}

/// Runs a command and responds when it has ended. A missing session is created.
pub(super) async fn execute(
    State(app): State<App>,
    sandbox: Sandbox,
    Extension(mode): Extension<Mode>,
    request_id: RequestId,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    mut body: Json<Command>,
) -> Result<Response, ApiError> {
    if body.value.background == Some(true) {
        return Ok(start_process(&app, &sandbox, &mode, &headers, query.as_deref(), body)
            .await?
            .into_response());
    }
    let shell = body.value.shell(&headers, query.as_deref())?;
    let (command, cwd) = (body.value.command.clone(), body.value.cwd.clone());
    let request = into_native(body, |command| command.into_native(&shell))?;
    let turn = mode.enter(&app, &sandbox, &shell).await?;
    let run = async {
        let (launch, mut guard) =
            launch_guarded(&app, &sandbox, request, &headers, None, Intent::Start).await?;
        if let Some(turn) = turn {
            turn.keep_until_end(&app, &launch.execution);
        }
        let end = wait(&app, &launch).await?;
        guard.release();
        answer(&app, launch, &end, request_id).await
    };
    match (run.await, shell) {
        (Err(error), Shell::Session(id)) if error.field() == Some("cwd") => {
            Ok(bad_folder(&command, id.as_str(), &cwd.unwrap_or_default()))
        }
        (answer, _) => answer,
    }
}

/// Returns the response to a command that has ended.
async fn answer(app: &App, launch: Launch, end: &End, request: RequestId) -> Result<Response, ApiError> {
    let (timeout, in_session) = (launch.timeout, launch.session.is_some());
    if let Some(session) = &launch.session
        && is_timeout(end)
    {
        return Ok(errors::timed_out(&launch.command, session, timeout.unwrap_or_default()));
    }
    let origin = Origin::execution(request, &launch.execution);
    let (result, output) = summary::result(launch, end, &app.outgoing).await?;
    let output = if in_session {
        output.without_final_newlines()?
    } else if is_timeout(end) {
        output.with_line(&timeout_line(timeout))?
    } else {
        output
    };
    Ok(output.respond(result, &app.outgoing, origin))
}

/// Returns the response to a session's command whose working directory does not exist: a result, as if `cd`
/// had failed.
fn bad_folder(command: &str, session: &str, cwd: &str) -> Response {
    let cwd = cwd.replace('\'', r"'\''");
    axum::Json(json!({
        "success": false,
        "exitCode": 1,
        "stdout": "",
        "stderr": format!("Failed to change directory to '{cwd}'"),
        "command": command,
        "duration": 0,
        "timestamp": Timestamp::now(),
        "sessionId": session,
    }))
    .into_response()
}

/// Starts a process. A missing session is created.
pub(super) async fn start(
    State(app): State<App>,
    sandbox: Sandbox,
    Extension(mode): Extension<Mode>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    body: Json<Command>,
) -> Result<axum::Json<ProcessStarted>, ApiError> {
    start_process(&app, &sandbox, &mode, &headers, query.as_deref(), body).await
}

async fn start_process(
    app: &App,
    sandbox: &Sandbox,
    mode: &Mode,
    headers: &HeaderMap,
    query: Option<&str>,
    mut body: Json<Command>,
) -> Result<axum::Json<ProcessStarted>, ApiError> {
    let shell = body.value.shell(headers, query)?;
    let mut request = into_native(body, |command| command.into_native(&shell))?;
    // The default timeouts of server and session apply to foreground commands only.
    request.value.timeout_ms.get_or_insert(0);
    let _turn = mode.enter(app, sandbox, &shell).await?;
    let launch = launch(app, sandbox, request, headers, None, Kind::Process, Intent::Start).await?;
    Ok(axum::Json(started(&launch)))
}

/// Starts a process and streams its output. As in the reference, it runs beside the session's shell: it
/// starts from the session's state, does not change it, and does not delay the next command.
pub(super) async fn execute_stream(
    State(app): State<App>,
    sandbox: Sandbox,
    Extension(mode): Extension<Mode>,
    request_id: RequestId,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    mut body: Json<Command>,
) -> Result<EventStream, ApiError> {
    let shell = body.value.shell(&headers, query.as_deref())?;
    let mut request = into_native(body, |command| command.into_native(&shell))?;
    request.value.background = Some(true);
    request.value.timeout_ms.get_or_insert(0);
    let turn = mode.enter(&app, &sandbox, &shell).await?;
    let (launch, guard) = launch_guarded(&app, &sandbox, request, &headers, None, Intent::Start).await?;
    drop(turn);
    let (timeout, encoding, execution) = (launch.timeout, launch.encoding, launch.execution.clone());
    let origin = Origin::execution(request_id, &execution);
    let kind = StreamKind::Command(Box::new((launch, guard)));
    let events = match Feed::new(&app, &execution, kind, None, encoding, true, origin.clone()).await {
        Ok(feed) => feed.into_events(),
        // The command runs. An error response would claim that it does not.
        Err(e) => feed::failed(&execution, &e, None, origin.clone()),
    };
    let items = events.into_items().flat_map(move |item| stream::iter(with_timeout_line(item, timeout)));
    Ok(EventStream::new(items, origin))
}

/// Passes on an item of a stream. Before the end of a command that timed out, it adds the line of the
/// reference.
fn with_timeout_line(item: Item, timeout: Option<Duration>) -> Vec<Item> {
    let Item::Event(event) = &item else { return vec![item] };
    let Payload::Execute(ExecuteEvent::Complete(complete)) = &event.payload else { return vec![item] };
    if complete.end.reason != EndReason::Timeout {
        return vec![item];
    }
    let line = ExecuteEvent::Stderr(OutputEvent {
        data: timeout_line(timeout) + "\n",
        process_id: None,
        invalid_utf8: false,
        timestamp: complete.timestamp,
    });
    vec![Item::Event(Box::new(Event { id: event.id, payload: line.into() })), item]
}
