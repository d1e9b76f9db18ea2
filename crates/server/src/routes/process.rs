//! Processes: starting, listing, waiting, signalling and ending.

use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::StreamExt;
use sandcrab_api::execute::CommandRequest;
use sandcrab_api::process::{
    CleanupResponse, EmptyRequest, KillResponse, Process, ProcessList, ProcessResponse, ProcessStarted,
    ProcessStatus, SignalRequest, SuccessResponse, Waiting,
};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_engine::{DEFAULT_GRACE, Execution};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::error::ApiError;
use crate::input::{Json, PathExecution};
use crate::launch::{Intent, Kind, launch};
use crate::options::{self, Route};
use crate::query::Params;
use crate::routes::execute::{CommandHeaders, SessionQuery, started};
use crate::sandbox::Sandbox;
use crate::{convert, signal};

/// Number of executions whose leftovers are inspected concurrently.
const CONCURRENT_INSPECTIONS: usize = 64;
/// Number of processes that are killed concurrently.
const CONCURRENT_KILLS: usize = 64;

/// Starts a background process and responds when it runs.
#[utoipa::path(post, path = "/api/process/start", operation_id = "startProcess", tag = "processes",
    params(CommandHeaders, SessionQuery), request_body = CommandRequest,
    responses((status = 200, description = "The process has started.", body = ProcessStarted)))]
pub(crate) async fn start(
    State(app): State<App>,
    sandbox: Sandbox,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    request: Json<CommandRequest>,
) -> Result<axum::Json<ProcessStarted>, ApiError> {
    options::check(&request.value, Route::Start)?;
    let launch =
        launch(&app, &sandbox, request, &headers, query.as_deref(), Kind::Process, Intent::Start).await?;
    Ok(axum::Json(started(&launch)))
}

/// Filter of the process list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only list processes with this status.
    #[param(inline)]
    status: Option<ProcessStatus>,
    /// Only list processes of this session.
    session_id: Option<String>,
    /// Also list foreground commands. Default: `false`.
    all: Option<bool>,
}

/// Lists processes, oldest first.
#[utoipa::path(get, path = "/api/process/list", operation_id = "listProcesses", tag = "processes", params(Filter),
    responses((status = 200, description = "The processes.", body = ProcessList)))]
pub(crate) async fn list(
    State(app): State<App>,
    sandbox: Sandbox,
    Params(filter): Params<Filter>,
) -> Result<Response, ApiError> {
    if filter.status == Some(ProcessStatus::Unknown) {
        return Err(ApiError::invalid("status", "unknown status; GET /openapi.json lists them"));
    }
    let wanted = |process: &Process| {
        (filter.all == Some(true) || process.background)
            && filter.status.is_none_or(|status| process.status == status)
            && filter.session_id.as_ref().is_none_or(|id| process.session_id.as_ref() == Some(id))
    };
    let listed = sandbox.engine.executions().into_iter().filter_map(|execution| {
        let info = execution.info();
        let process = convert::process(&info);
        wanted(&process).then_some((process, info.has_leftovers.then_some(execution)))
    });
    let looks = listed.map(|(mut process, left)| async move {
        if let Some(execution) = left {
            add_leftovers(&execution, &mut process).await;
        }
        process
    });
    let processes = futures_util::stream::iter(looks).buffered(CONCURRENT_INSPECTIONS).collect().await;
    app.outgoing.json(&ProcessList { success: true, processes, timestamp: Timestamp::now() })
}

/// Adds the processes that an ended execution left and that are still running.
async fn add_leftovers(execution: &Execution, process: &mut Process) {
    let (leftovers, count) = execution.leftovers().await;
    if count > 0 {
        process.leftovers = Some(convert::names(&leftovers));
        process.leftover_count = u32::try_from(count).ok();
    }
}

/// Options of `get`.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct GetOptions {
    /// Also measure all live processes of the execution. Default: `false`.
    metrics: Option<bool>,
}

/// Returns one process, with its current resource usage and what it waits for.
#[utoipa::path(get, path = "/api/process/{id}", operation_id = "getProcess", tag = "processes",
    params(("id" = String, Path, description = "Id of a process or other execution."), GetOptions),
    responses((status = 200, description = "The process.", body = ProcessResponse)))]
pub(crate) async fn get(
    PathExecution(execution): PathExecution,
    Params(options): Params<GetOptions>,
) -> Result<axum::Json<ProcessResponse>, ApiError> {
    let mut answer = answer(&execution).await;
    if options.metrics == Some(true) {
        answer.process.metrics = Some(convert::metrics(&execution.metrics().await));
    }
    Ok(axum::Json(answer))
}

async fn answer(execution: &Execution) -> ProcessResponse {
    let mut process = convert::process(&execution.info());
    if let Some(end) = execution.status().end() {
        process.usage = Some(convert::usage(&end.usage));
        add_leftovers(execution, &mut process).await;
    } else if let Ok(found) = execution.inspect().await {
        // The process may end at any moment; that is not an error.
        process.waiting = (found.waiting_for_input == Some(true)).then_some(Waiting::Input);
        process.usage = found.usage.as_ref().map(convert::usage);
    }
    ProcessResponse { success: true, process, timestamp: Timestamp::now() }
}

/// Options of a kill.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct KillOptions {
    /// First signal to send, by name or number. Default: `SIGTERM`.
    pub(crate) signal: Option<String>,
    /// Grace period in milliseconds before SIGKILL. Default: 5,000.
    pub(crate) grace_ms: Option<u64>,
}

/// Ends a process and all its descendants.
///
/// If the process has ended, this ends the processes that it left running.
#[utoipa::path(delete, path = "/api/process/{id}", operation_id = "killProcess", tag = "processes",
    params(("id" = String, Path, description = "Id of a process or other execution."), KillOptions),
    responses((status = 200, description = "The processes were ended.", body = KillResponse)))]
pub(crate) async fn kill(
    PathExecution(execution): PathExecution,
    Params(options): Params<KillOptions>,
) -> Result<axum::Json<KillResponse>, ApiError> {
    let signal = options.signal.as_deref().map_or(Ok(signal::TERM), signal::from_text)?;
    let grace = options.grace_ms.map_or(DEFAULT_GRACE, Duration::from_millis);
    let (killed, survivors) = convert::killed(execution.kill(signal, grace).await?);
    Ok(axum::Json(KillResponse {
        success: survivors.is_empty(),
        process_id: execution.id().to_string(),
        killed,
        survivors,
        timestamp: Timestamp::now(),
    }))
}

/// Options of kill-all.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct KillAllOptions {
    /// Only end processes of this session.
    session_id: Option<String>,
}

/// Ends all running background processes.
#[utoipa::path(delete, path = "/api/process/kill-all", operation_id = "killAllProcesses", tag = "processes",
    params(KillAllOptions), responses((status = 200, description = "The processes were ended.", body = CleanupResponse)))]
pub(crate) async fn kill_all(
    sandbox: Sandbox,
    Params(of): Params<KillAllOptions>,
) -> Result<axum::Json<CleanupResponse>, ApiError> {
    let wanted = |execution: &Execution| {
        let info = execution.info();
        let session = info.session.as_ref().map(sandcrab_engine::SessionId::as_str);
        info.background
            && info.status.end().is_none()
            && (of.session_id.is_none() || session == of.session_id.as_deref())
    };
    let running: Vec<_> = sandbox.engine.running().into_iter().filter(wanted).collect();
    let kills = running.into_iter().map(|execution| async move {
        execution.kill(signal::TERM, DEFAULT_GRACE).await.is_ok_and(|receipt| receipt.survivors.is_empty())
    });
    let ended = futures_util::stream::iter(kills).buffer_unordered(CONCURRENT_KILLS);
    let cleaned_count = ended.filter(|ended| std::future::ready(*ended)).count().await;
    Ok(axum::Json(CleanupResponse { success: true, cleaned_count, timestamp: Timestamp::now() }))
}

/// Removes the records of background processes and terminals that have ended.
///
/// Records that a client is reading are kept. If the disk of the state directory is nearly full, records of
/// other ended commands are removed too.
#[utoipa::path(post, path = "/api/process/cleanup", operation_id = "cleanupProcesses", tag = "processes",
    request_body = EmptyRequest, responses((status = 200, description = "The records were removed.", body = CleanupResponse)))]
pub(crate) async fn cleanup(
    sandbox: Sandbox,
    _: Json<EmptyRequest>,
) -> Result<axum::Json<CleanupResponse>, ApiError> {
    let cleaned_count = sandbox.engine.remove_finished();
    Ok(axum::Json(CleanupResponse { success: true, cleaned_count, timestamp: Timestamp::now() }))
}

/// Sends a signal to every process of an execution.
#[utoipa::path(post, path = "/api/process/{id}/signal", operation_id = "signalProcess", tag = "processes",
    params(("id" = String, Path, description = "Id of a process or other execution.")), request_body = SignalRequest,
    responses((status = 200, description = "The signal was sent.", body = SuccessResponse)))]
pub(crate) async fn send_signal(
    PathExecution(execution): PathExecution,
    request: Json<SignalRequest>,
) -> Result<axum::Json<SuccessResponse>, ApiError> {
    execution.signal(signal::from_value(&request.value.signal)?).await?;
    Ok(axum::Json(SuccessResponse { success: true, timestamp: Timestamp::now() }))
}

/// Options of a wait.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitOptions {
    /// Timeout in milliseconds. Default: none.
    timeout_ms: Option<u64>,
}

/// Waits for the end of a process.
#[utoipa::path(get, path = "/api/process/{id}/wait", operation_id = "waitForProcess", tag = "processes",
    params(("id" = String, Path, description = "Id of a process or other execution."), WaitOptions),
    responses((status = 200, description = "The process has ended.", body = ProcessResponse)))]
pub(crate) async fn wait(
    State(app): State<App>,
    PathExecution(execution): PathExecution,
    Params(options): Params<WaitOptions>,
) -> Result<axum::Json<ProcessResponse>, ApiError> {
    let limit = async {
        match options.timeout_ms {
            Some(limit) => tokio::time::sleep(Duration::from_millis(limit)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        end = execution.wait() => drop(end?),
        () = limit => {
            let message = "the process has not ended within the timeout; it continues";
            return Err(ApiError::new(ErrorCode::WaitTimeout, message).with("processId", execution.id().as_str()));
        }
        () = app.stopping.cut_off() => return Err(ApiError::shutting_down()),
    }
    Ok(axum::Json(answer(&execution).await))
}
