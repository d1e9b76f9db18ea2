//! Sessions: creating, listing, interrupting, forking, resetting and deleting.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use futures_util::StreamExt;
use sandcrab_api::Timestamp;
use sandcrab_api::process::SuccessResponse;
use sandcrab_api::session::{
    CreatedSession, DeleteSessionRequest, EnvRequest, ForkRequest, InterruptRequest, ResetRequest,
    Session as WireSession, SessionCreated, SessionEnded, SessionList, SessionRequest, SessionResponse,
};
use sandcrab_engine::{ControlError, KillReceipt, Session, SessionError, SessionId, SessionSpec};

use crate::app::App;
use crate::error::ApiError;
use crate::input::{Json, PathSession, find_session};
use crate::launch::{bad_id, user, variables};
use crate::note::{self, SessionNote};
use crate::sandbox::Sandbox;
use crate::{convert, signal};

/// Number of sessions that are inspected concurrently.
const CONCURRENT_INSPECTIONS: usize = 64;
/// Default grace period of an interrupt.
const INTERRUPT_GRACE: Duration = Duration::from_millis(500);

/// Creates a session.
///
/// If a session with this id exists but its shell has ended, it is replaced.
#[utoipa::path(post, path = "/api/session/create", operation_id = "createSession", tag = "sessions",
    request_body = SessionRequest, responses((status = 200, description = "The session was created.", body = SessionCreated)))]
pub(crate) async fn create(
    State(app): State<App>,
    sandbox: Sandbox,
    request: Json<SessionRequest>,
) -> Result<axum::Json<SessionCreated>, ApiError> {
    app.check_open()?;
    let request = request.value;
    let spec = SessionSpec {
        id: id(request.id.as_deref())?,
        note: Some(note::write(&SessionNote::of(&request))),
        user: user(&sandbox, request.user).await?,
        name: request.name,
        env: variables(request.env),
        cwd: request.cwd.map(|cwd| sandbox.working_directory(cwd)),
    };
    let cwd =
        spec.cwd.as_ref().map_or_else(|| sandbox.workspace.clone(), |cwd| cwd.to_string_lossy().into_owned());
    let session = match sandbox.engine.create_session(spec.clone()).await {
        Err(SessionError::AlreadyExists(id)) if delete_dead(&sandbox, &id).await => {
            sandbox.engine.create_session(spec).await?
        }
        made => made?,
    };
    Ok(axum::Json(created(&session, cwd)))
}

fn created(session: &Session, cwd: String) -> SessionCreated {
    let id = session.id().to_string();
    let data = CreatedSession { id: id.clone(), cwd, created_at: session.created_at().into() };
    SessionCreated { success: true, id, data, timestamp: Timestamp::now() }
}

fn id(id: Option<&str>) -> Result<Option<SessionId>, ApiError> {
    match id {
        Some(sandcrab_api::NO_SESSION) => Err(ApiError::invalid("id", "reserved id; choose another one")),
        Some("create" | "list" | "delete") => Err(ApiError::invalid("id", "reserved id; choose another one")),
        Some(id) => id.parse().map(Some).map_err(|e| bad_id("id", &e)),
        None => Ok(None),
    }
}

/// Deletes a session whose last command ended its shell. Returns whether it did.
pub(crate) async fn delete_dead(sandbox: &Sandbox, id: &SessionId) -> bool {
    let Some(session) = sandbox.engine.session(id) else {
        return false;
    };
    let dead = session.info().await.is_ok_and(|info| info.shell_ended && !info.busy && info.queued == 0);
    dead && session.delete().await.is_ok()
}

async fn describe(session: &Session) -> Result<WireSession, ApiError> {
    let info = session.info().await?;
    Ok(WireSession {
        id: info.id.to_string(),
        name: info.name,
        cwd: info.cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
        created_at: info.created_at.into(),
        busy: info.busy,
        queued: info.queued,
        restarts: info.restarts,
    })
}

/// Lists sessions, oldest first.
#[utoipa::path(get, path = "/api/session/list", operation_id = "listSessions", tag = "sessions",
    responses((status = 200, description = "The sessions.", body = SessionList)))]
pub(crate) async fn list(State(app): State<App>, sandbox: Sandbox) -> Result<Response, ApiError> {
    let asked =
        sandbox.engine.sessions().into_iter().map(|session| async move { describe(&session).await.ok() });
    // Sessions that are deleted meanwhile are left out.
    let found =
        futures_util::stream::iter(asked).buffered(CONCURRENT_INSPECTIONS).filter_map(std::future::ready);
    let sessions: Vec<_> = found.collect().await;
    let data = sessions.iter().map(|session| session.id.clone()).collect();
    app.outgoing.json(&SessionList { success: true, data, sessions, timestamp: Timestamp::now() })
}

/// Returns one session.
#[utoipa::path(get, path = "/api/session/{id}", operation_id = "getSession", tag = "sessions",
    params(("id" = String, Path, description = "Id of the session.")),
    responses((status = 200, description = "The session.", body = SessionResponse)))]
pub(crate) async fn get(PathSession(session): PathSession) -> Result<axum::Json<SessionResponse>, ApiError> {
    let session = describe(&session).await?;
    Ok(axum::Json(SessionResponse { success: true, session, timestamp: Timestamp::now() }))
}

/// Deletes a session and ends everything that runs in it.
///
/// The id can be used again when the response is sent.
#[utoipa::path(post, path = "/api/session/delete", operation_id = "deleteSession", tag = "sessions",
    request_body = DeleteSessionRequest,
    responses((status = 200, description = "The session was deleted and its processes were ended.", body = SessionEnded)))]
pub(crate) async fn delete(
    sandbox: Sandbox,
    request: Json<DeleteSessionRequest>,
) -> Result<axum::Json<SessionEnded>, ApiError> {
    let session = find_session(&sandbox, &request.value.session_id)?;
    let receipt = session.delete().await?;
    Ok(axum::Json(ended(&session, receipt)))
}

fn ended(session: &Session, receipt: KillReceipt) -> SessionEnded {
    let (killed, survivors) = convert::killed(receipt);
    let session_id = session.id().to_string();
    SessionEnded { success: survivors.is_empty(), session_id, killed, survivors, timestamp: Timestamp::now() }
}

/// Ends the running command and its processes.
///
/// The shell keeps its state. If no command is running, nothing happens.
#[utoipa::path(post, path = "/api/session/{id}/interrupt", operation_id = "interruptSession", tag = "sessions",
    params(("id" = String, Path, description = "Id of the session.")), request_body = InterruptRequest,
    responses((status = 200, description = "The command was ended, or none was running.", body = SessionEnded)))]
pub(crate) async fn interrupt(
    PathSession(session): PathSession,
    request: Json<InterruptRequest>,
) -> Result<axum::Json<SessionEnded>, ApiError> {
    let signal = request.value.signal.as_ref().map_or(Ok(signal::INT), signal::from_value)?;
    let grace = request.value.grace_ms.map_or(INTERRUPT_GRACE, Duration::from_millis);
    let receipt = match session.interrupt(signal, grace).await {
        Err(ControlError::Ended) => KillReceipt::default(),
        receipt => receipt?,
    };
    Ok(axum::Json(ended(&session, receipt)))
}

/// Creates a session with the same state.
#[utoipa::path(post, path = "/api/session/{id}/fork", operation_id = "forkSession", tag = "sessions",
    params(("id" = String, Path, description = "Id of the session.")), request_body = ForkRequest,
    responses((status = 200, description = "The new session was created.", body = SessionCreated)))]
pub(crate) async fn fork(
    State(app): State<App>,
    sandbox: Sandbox,
    PathSession(session): PathSession,
    request: Json<ForkRequest>,
) -> Result<axum::Json<SessionCreated>, ApiError> {
    app.check_open()?;
    let copy = session.fork(id(request.value.id.as_deref())?).await?;
    let cwd = copy
        .info()
        .await?
        .cwd
        .map_or_else(|| sandbox.workspace.clone(), |cwd| cwd.to_string_lossy().into_owned());
    Ok(axum::Json(created(&copy, cwd)))
}

/// Gives a session a new shell, with or without the state of the old one.
///
/// Everything that runs in the session is ended.
#[utoipa::path(post, path = "/api/session/{id}/reset", operation_id = "resetSession", tag = "sessions",
    params(("id" = String, Path, description = "Id of the session.")), request_body = ResetRequest,
    responses((status = 200, description = "The session has a new shell.", body = SuccessResponse)))]
pub(crate) async fn reset(
    PathSession(session): PathSession,
    request: Json<ResetRequest>,
) -> Result<axum::Json<SuccessResponse>, ApiError> {
    session.reset(request.value.restore.unwrap_or(false)).await?;
    Ok(axum::Json(SuccessResponse { success: true, timestamp: Timestamp::now() }))
}

/// Changes the environment of a session's shell.
///
/// The change is queued like a command.
#[utoipa::path(post, path = "/api/session/{id}/env", operation_id = "setSessionEnv", tag = "sessions",
    params(("id" = String, Path, description = "Id of the session.")), request_body = EnvRequest,
    responses((status = 200, description = "The environment was changed.", body = SuccessResponse)))]
pub(crate) async fn set_env(
    PathSession(session): PathSession,
    request: Json<EnvRequest>,
) -> Result<axum::Json<SuccessResponse>, ApiError> {
    session.set_env(&variables(Some(request.value.vars))).await?;
    Ok(axum::Json(SuccessResponse { success: true, timestamp: Timestamp::now() }))
}
