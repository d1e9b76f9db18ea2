//! Running a command and waiting for it: `/api/execute`, `/api/execute/stream`.

use axum::extract::{RawQuery, Request, State};
use axum::handler::Handler;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use sandcrab_api::event::ExecuteEvent;
use sandcrab_api::execute::{CommandRequest, ExecuteResponse};
use sandcrab_api::process::{ProcessStarted, StartedTag};
use sandcrab_api::{IDEMPOTENCY_HEADER, LAST_EVENT_ID_HEADER, Timestamp};
use utoipa::IntoParams;

use crate::app::App;
use crate::cursor::Cursor;
use crate::error::ApiError;
use crate::events::EventStream;
use crate::feed::{self, Feed, StreamKind};
use crate::input::Json;
use crate::launch::{Intent, Kind, Launch, launch_guarded};
use crate::layer::{self, RequestId};
use crate::operations;
use crate::options::{self, Route};
use crate::origin::Origin;
use crate::query::Params;
use crate::sandbox::Sandbox;
use crate::summary;

/// The session, if the body names none, and the idempotency key.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it documents headers that are read by name")]
pub(crate) struct CommandHeaders {
    /// Session to run the command in, if the body names none.
    #[param(rename = "X-Session-Id", required = false)]
    session: Option<String>,
    /// Requests with the same key and body start the command only once.
    #[param(rename = "Idempotency-Key", required = false, max_length = 512)]
    key: Option<String>,
}

/// The session, if neither the body nor the header names one.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it documents queries that are read by name")]
pub(crate) struct SessionQuery {
    /// Session to run the command in, if neither the body nor `X-Session-Id` names one.
    session: Option<String>,
    /// Same as `session`.
    #[param(rename = "sessionId")]
    session_id: Option<String>,
}

/// Runs a command and responds when it has ended.
///
/// With `background`, the response is sent when the command has started.
#[utoipa::path(post, path = "/api/execute", operation_id = "execute", tag = "commands", params(CommandHeaders, SessionQuery),
    request_body = CommandRequest,
    responses((status = 200, description = "The command has ended or, with `background`, started.", body = ExecuteResponse)))]
pub(crate) async fn execute(
    State(app): State<App>,
    request_id: RequestId,
    sandbox: Sandbox,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    request: Json<CommandRequest>,
) -> Result<Response, ApiError> {
    options::check(&request.value, Route::Execute)?;
    let (launch, mut guard) =
        launch_guarded(&app, &sandbox, request, &headers, query.as_deref(), Intent::Start).await?;
    if launch.kind == Kind::Process {
        guard.release();
        return Ok(axum::Json(started(&launch)).into_response());
    }
    let end = wait(&app, &launch).await?;
    guard.release();
    summary::respond(launch, &end, &app.outgoing, request_id).await
}

/// The route of [`execute`].
pub(crate) const EXECUTE_PATH: &str = "/api/execute";

/// Answers a request to [`execute`] as the router does, with the same checks. The router allocates and moves every
/// request several times, which takes longer than to read one of these.
pub(crate) async fn answer(app: App, request: Request) -> Response {
    let call = |request| Handler::call(execute, request, App::clone(&app));
    let checked = |request| operations::checked(EXECUTE_PATH, request, call);
    layer::answer(&app, true, EXECUTE_PATH, request, checked).await
}

/// Waits for the end of a command, at most until the server's drain window ends.
pub(crate) async fn wait(
    app: &App,
    launch: &Launch,
) -> Result<std::sync::Arc<sandcrab_engine::End>, ApiError> {
    tokio::select! {
        biased;
        end = launch.execution.wait() => Ok(end?),
        () = app.stopping.cut_off() => {
            let id = launch.execution.id();
            let hint = format!("the execution continues; get it when the server has restarted: GET /api/process/{id}");
            Err(ApiError::shutting_down().with("executionId", id.as_str()).suggest(hint))
        }
    }
}

/// The response to a start.
pub(crate) fn started(launch: &Launch) -> ProcessStarted {
    let info = launch.execution.info();
    ProcessStarted {
        answer_type: StartedTag::Started,
        success: true,
        process_id: launch.execution.id().to_string(),
        execution_id: launch.execution.id().to_string(),
        pid: info.pid,
        command: launch.command.clone(),
        replaced: crate::convert::replaced(&info),
        timestamp: Timestamp::now(),
    }
}

/// The cursor from which a stream resumes.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ResumeFrom {
    /// Cursor of an event or response. Requires the `Idempotency-Key` of the request that started the
    /// command. `Last-Event-ID` has the same effect.
    since: Option<String>,
}

/// Returns the cursor from which a request resumes: `Last-Event-ID`, or else `since`.
pub(crate) fn since(headers: &HeaderMap, since: Option<&str>) -> Result<Option<Cursor>, ApiError> {
    let last = crate::input::name_header(headers, LAST_EVENT_ID_HEADER)?;
    last.or(since).map(str::parse).transpose()
}

/// Runs a command and streams its output.
///
/// If the client disconnects, the command continues, unless `onDisconnect` is `kill`. To resume the stream,
/// repeat the request with the same `Idempotency-Key` and the last `id:` as `Last-Event-ID`.
#[utoipa::path(post, path = "/api/execute/stream", operation_id = "executeStream", tag = "commands",
    params(CommandHeaders, SessionQuery, ResumeFrom,
        ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client received. Resumes the stream after it.")),
    request_body = CommandRequest,
    responses((status = 200, description = "Events: `start`, output, then `complete` or `error`.",
        body = ExecuteEvent, content_type = "text/event-stream")))]
pub(crate) async fn execute_stream(
    State(app): State<App>,
    request_id: RequestId,
    sandbox: Sandbox,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    Params(params): Params<ResumeFrom>,
    request: Json<CommandRequest>,
) -> Result<EventStream, ApiError> {
    options::check(&request.value, Route::Stream)?;
    let since = since(&headers, params.since.as_deref())?;
    // Every event has an id, so a client with an id knows that the command was started.
    let resumes = since.is_some_and(Cursor::is_past_start) || headers.contains_key(LAST_EVENT_ID_HEADER);
    if resumes && !headers.contains_key(IDEMPOTENCY_HEADER) {
        // Without the key, the command would run again, and the beginning of its output would be missing.
        let why = "a cursor requires the Idempotency-Key of the original request; repeat the request with that key, or \
                   use GET /api/process/{id}/stream";
        return Err(ApiError::invalid("since", why));
    }
    let intent = if resumes { Intent::Resume } else { Intent::Start };
    let (launch, mut guard) =
        launch_guarded(&app, &sandbox, request, &headers, query.as_deref(), intent).await?;
    if let Some(since) = since {
        // The request is invalid, not the command, so the command must not be killed.
        since.check_with_retries(&launch.execution).await.inspect_err(|_| guard.release())?;
    }
    let execution = launch.execution.clone();
    let encoding = launch.encoding;
    let kind = StreamKind::Command(Box::new((launch, guard)));
    let origin = Origin::execution(request_id, &execution);
    match Feed::new(&app, &execution, kind, since, encoding, true, origin.clone()).await {
        Ok(feed) => Ok(feed.into_events()),
        // The command runs. An error response would claim that it does not.
        Err(e) => Ok(feed::failed(&execution, &e, since, origin)),
    }
}
