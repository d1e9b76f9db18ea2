//! Services: starting, watching, restarting and ending.

use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use sandcrab_api::process::ProcessLogs;
use sandcrab_api::service::{
    ServiceEvent, ServiceHealthResponse, ServiceList, ServiceRequest, ServiceResponse, ServiceStarted,
    ServiceStopRequest, ServiceStopped,
};
use sandcrab_api::{ErrorCode, IDEMPOTENCY_HEADER, LAST_EVENT_ID_HEADER, Timestamp};
use sandcrab_engine::DEFAULT_GRACE;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::error::ApiError;
use crate::events::EventStream;
use crate::input::{self, Json, PathService};
use crate::layer::RequestId;
use crate::origin::Origin;
use crate::query::Params;
use crate::routes::execute::{CommandHeaders, SessionQuery};
use crate::routes::logs::{self, LogOptions, StreamOptions};
use crate::routes::process::KillOptions;
use crate::sandbox::Sandbox;
use crate::services::{AfterEnd, Handle, NewService, Position, Snapshot, follow, ready_timeout};
use crate::{convert, signal};

/// Maximum grace period of a stop or restart.
const MAX_GRACE: Duration = Duration::from_secs(600);

/// Starts a service and responds when its program runs, or with `waitForReady` when it is healthy.
///
/// The server keeps the service across its own restarts. A stopped or failed service with the same id is replaced.
#[utoipa::path(post, path = "/api/service/start", operation_id = "startService", tag = "services",
    params(CommandHeaders, SessionQuery), request_body = ServiceRequest,
    responses((status = 200, description = "The service has started.", body = ServiceStarted)))]
pub(crate) async fn start(
    State(app): State<App>,
    sandbox: Sandbox,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    Json { value: mut request, bytes, .. }: Json<ServiceRequest>,
) -> Result<axum::Json<ServiceStarted>, ApiError> {
    app.check_open()?;
    request.session_id = input::session_id(request.session_id.take(), &headers, query.as_deref())?;
    if let Some(session) = &request.session_id {
        input::find_session(&sandbox, session)?;
    }
    let key = input::name_header(&headers, IDEMPOTENCY_HEADER)?;
    let digest = key.map(|key| {
        let mut body = Sha256::new();
        let session = request.session_id.as_deref().unwrap_or_default();
        body.update((session.len() as u64).to_be_bytes());
        body.update(session);
        body.update(&bytes);
        [hex(&Sha256::digest(key)), hex(&body.finalize())]
    });
    drop(bytes);
    let wait = (request.wait_for_ready == Some(true)).then(|| ready_timeout(&request));
    let handle = app.services.start(&app, NewService { request, digest }).await?;
    if let Some(timeout) = wait {
        wait_until_ready(&app, &handle, timeout).await?;
    }
    Ok(axum::Json(started(&handle.snapshot())))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn wait_until_ready(app: &App, handle: &Handle, timeout: Duration) -> Result<(), ApiError> {
    let changed = handle.until(|snapshot| snapshot.is_over() || snapshot.service.state.is_ready());
    let snapshot = tokio::select! {
        snapshot = changed => snapshot,
        () = tokio::time::sleep(timeout) => handle.snapshot(),
        () = app.stopping.cut_off() => return Err(ApiError::shutting_down()),
    };
    let service = &snapshot.service;
    if service.state.is_ready() {
        return Ok(());
    }
    let error = if snapshot.is_over() {
        let message = format!("the service is {} and was never ready", service.state.as_str());
        ApiError::new(ErrorCode::ProcessEnded, message)
    } else {
        let message = "the service was not ready within readyTimeoutMs; it continues";
        ApiError::new(ErrorCode::WaitTimeout, message)
    };
    let error = error.with("serviceId", service.id.as_str()).with("state", service.state.as_str());
    Err(match &service.health.error {
        Some(why) => error.with("error", why.as_str()),
        None => error,
    })
}

/// The response to a start.
fn started(snapshot: &Snapshot) -> ServiceStarted {
    let service = &snapshot.service;
    let execution_id = service.execution_id.clone().unwrap_or_default();
    ServiceStarted {
        success: true,
        service_id: service.id.clone(),
        process_id: execution_id.clone(),
        execution_id,
        pid: service.pid,
        command: service.command.clone(),
        health: service.health.clone(),
        timestamp: Timestamp::now(),
    }
}

/// Lists services, the oldest first.
#[utoipa::path(get, path = "/api/service/list", operation_id = "listServices", tag = "services",
    responses((status = 200, description = "The services.", body = ServiceList)))]
pub(crate) async fn list(State(app): State<App>) -> Result<Response, ApiError> {
    let services = app.services.all().into_iter().map(|snapshot| (*snapshot.service).clone()).collect();
    app.outgoing.json(&ServiceList { success: true, services, timestamp: Timestamp::now() })
}

/// Returns one service, with its current and earlier executions.
#[utoipa::path(get, path = "/api/service/{id}", operation_id = "getService", tag = "services",
    params(("id" = String, Path, description = "Id of a service.")),
    responses((status = 200, description = "The service.", body = ServiceResponse)))]
pub(crate) async fn get(PathService(handle): PathService) -> axum::Json<ServiceResponse> {
    let service = (*handle.snapshot().service).clone();
    axum::Json(ServiceResponse { success: true, service, timestamp: Timestamp::now() })
}

/// Returns the health of a service.
///
/// The response is that of the last check. It is 200 also if the service is not healthy.
#[utoipa::path(get, path = "/api/service/{id}/health", operation_id = "getServiceHealth", tag = "services",
    params(("id" = String, Path, description = "Id of a service.")),
    responses((status = 200, description = "The health.", body = ServiceHealthResponse)))]
pub(crate) async fn health(PathService(handle): PathService) -> axum::Json<ServiceHealthResponse> {
    let service = handle.snapshot().service;
    axum::Json(ServiceHealthResponse {
        success: service.state.is_ready(),
        service_id: service.id.clone(),
        status: service.health.status,
        last_check: service.health.last_check,
        error: service.health.error.clone(),
        timestamp: Timestamp::now(),
    })
}

/// Ends a service with everything it started. The service stays stopped, even after a restart of the server.
#[utoipa::path(post, path = "/api/service/{id}/stop", operation_id = "stopService", tag = "services",
    params(("id" = String, Path, description = "Id of a service.")), request_body = ServiceStopRequest,
    responses((status = 200, description = "The service was stopped.", body = ServiceStopped)))]
pub(crate) async fn stop(
    State(app): State<App>,
    PathService(handle): PathService,
    Json { value: request, .. }: Json<ServiceStopRequest>,
) -> Result<axum::Json<ServiceStopped>, ApiError> {
    end(&app, &handle, AfterEnd::Stop, request.signal.as_deref(), request.grace_ms).await
}

/// Ends a service with everything it started, and removes it.
///
/// The records of its executions stay until retention or `process/cleanup` removes them.
#[utoipa::path(delete, path = "/api/service/{id}", operation_id = "deleteService", tag = "services",
    params(("id" = String, Path, description = "Id of a service."), KillOptions),
    responses((status = 200, description = "The service was deleted.", body = ServiceStopped)))]
pub(crate) async fn delete(
    State(app): State<App>,
    PathService(handle): PathService,
    Params(options): Params<KillOptions>,
) -> Result<axum::Json<ServiceStopped>, ApiError> {
    end(&app, &handle, AfterEnd::Remove, options.signal.as_deref(), options.grace_ms).await
}

async fn end(
    app: &App,
    handle: &Handle,
    then: AfterEnd,
    signal: Option<&str>,
    grace_ms: Option<u64>,
) -> Result<axum::Json<ServiceStopped>, ApiError> {
    app.check_open()?;
    let (signal, grace) = stop_options(signal, grace_ms)?;
    let (killed, survivors) = convert::killed(handle.end(then, signal, grace).await?);
    Ok(axum::Json(ServiceStopped {
        success: survivors.is_empty(),
        service_id: handle.snapshot().service.id.clone(),
        killed,
        survivors,
        timestamp: Timestamp::now(),
    }))
}

/// The signal and the grace period of a request.
fn stop_options(signal: Option<&str>, grace_ms: Option<u64>) -> Result<(i32, Duration), ApiError> {
    let signal = signal.map_or(Ok(signal::TERM), signal::from_text)?;
    let grace = grace_ms.map_or(DEFAULT_GRACE, Duration::from_millis);
    if grace > MAX_GRACE {
        return Err(ApiError::invalid("graceMs", format!("at most {} are allowed", MAX_GRACE.as_millis())));
    }
    Ok((signal, grace))
}

/// Ends the current execution of a service, if it runs, and starts the next one at once.
///
/// A stopped or failed service is started again. Restarts are counted from 0 again.
#[utoipa::path(post, path = "/api/service/{id}/restart", operation_id = "restartService", tag = "services",
    params(("id" = String, Path, description = "Id of a service.")), request_body = ServiceStopRequest,
    responses((status = 200, description = "The next execution has started.", body = ServiceStarted)))]
pub(crate) async fn restart(
    State(app): State<App>,
    PathService(handle): PathService,
    Json { value: request, .. }: Json<ServiceStopRequest>,
) -> Result<axum::Json<ServiceStarted>, ApiError> {
    app.check_open()?;
    let (signal, grace) = stop_options(request.signal.as_deref(), request.grace_ms)?;
    handle.end(AfterEnd::Restart, signal, grace).await?;
    Ok(axum::Json(started(&handle.snapshot())))
}

/// Returns the output of the current or last execution of a service so far.
///
/// `processId` names the execution. The output of earlier executions is that of processes with their ids.
#[utoipa::path(get, path = "/api/service/{id}/logs", operation_id = "getServiceLogs", tag = "services",
    params(("id" = String, Path, description = "Id of a service."), LogOptions),
    responses((status = 200, description = "The output.", body = ProcessLogs)))]
pub(crate) async fn logs(
    State(app): State<App>,
    request: RequestId,
    sandbox: Sandbox,
    PathService(handle): PathService,
    Params(options): Params<LogOptions>,
) -> Result<Response, ApiError> {
    let snapshot = handle.snapshot();
    // While an execution is being started, the last one is shown.
    let ids =
        [snapshot.attempt, snapshot.attempt.saturating_sub(1)].map(|attempt| snapshot.execution_id(attempt));
    let execution = ids.iter().flatten().find_map(|id| sandbox.engine.execution(id));
    let execution = execution.ok_or_else(|| {
        ApiError::no_process(snapshot.service.execution_id.as_deref().unwrap_or_default())
            .reword("the record of the last execution was removed, so its output is not available")
    })?;
    logs::respond(&app, &sandbox, request, &execution, options).await
}

/// Streams the output of a service across its restarts, from the beginning of its current or last execution.
///
/// Each execution begins with an `execution` event. To resume the stream, send the last `id:` as `Last-Event-ID`. Of
/// executions whose records were removed, nothing is sent.
#[utoipa::path(get, path = "/api/service/{id}/stream", operation_id = "streamService", tag = "services",
    params(("id" = String, Path, description = "Id of a service."), StreamOptions,
        ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client received. Resumes the stream after it.")),
    responses((status = 200, description = "Events: `execution`, output, `exit` for each execution, then `end`, `caught_up` or `error`.",
        body = ServiceEvent, content_type = "text/event-stream")))]
pub(crate) async fn stream(
    State(app): State<App>,
    request: RequestId,
    headers: HeaderMap,
    PathService(handle): PathService,
    Params(options): Params<StreamOptions>,
) -> Result<EventStream, ApiError> {
    let last = input::name_header(&headers, LAST_EVENT_ID_HEADER)?;
    let since = last.or(options.since.as_deref()).map(str::parse::<Position>).transpose()?;
    let follows = options.follow != Some(false);
    follow(&app, handle, since, options.encoding, follows, Origin::request(request))
}
