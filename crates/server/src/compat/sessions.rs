//! Sessions: `/api/session/create`, `/api/session/delete`, and creation on first use.

use axum::Extension;
use axum::extract::State;
use bytes::Bytes;
use sandcrab_api::session::{CreatedSession, SessionCreated, SessionEnded, SessionRequest};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_engine::SessionId;
use serde::Serialize;

use super::requests::{NewSession, SessionToDelete, Shell, environment, into_native};
use super::turns::SessionLock;
use super::{Mode, SandboxSdk};
use crate::app::App;
use crate::error::ApiError;
use crate::input::Json;
use crate::routes::session;
use crate::sandbox::Sandbox;

/// Response to the creation of a session.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Created {
    success: bool,
    id: String,
    data: CreatedSession,
    /// Id of this container. A client compares it to detect a new container.
    container_placement_id: Option<String>,
    timestamp: Timestamp,
}

/// Creates a session.
pub(super) async fn create(
    State(app): State<App>,
    sandbox: Sandbox,
    Extension(Mode(mode)): Extension<Mode>,
    body: Json<NewSession>,
) -> Result<axum::Json<Created>, ApiError> {
    let Json { value: request, held: _held, .. } = into_native(body, NewSession::into_native)?;
    let created = create_native(&app, &sandbox, &mode.sdk, request).await;
    let SessionCreated { success, id, data, timestamp } = created.map_err(|error| match error.code() {
        ErrorCode::SessionAlreadyExists => error.with("containerPlacementId", mode.sdk.placement.clone()),
        _ => error,
    })?;
    let container_placement_id = mode.sdk.placement.clone();
    Ok(axum::Json(Created { success, id, data, container_placement_id, timestamp }))
}

/// Creates a session. If its working directory does not exist, the home directory is used.
async fn create_native(
    app: &App,
    sandbox: &Sandbox,
    sdk: &SandboxSdk,
    request: SessionRequest,
) -> Result<SessionCreated, ApiError> {
    let at_home = SessionRequest { cwd: Some(sdk.home.clone()), ..request.clone() };
    let create = |value| {
        let request = Json { value, bytes: Bytes::new(), held: app.hold() };
        session::create(State(app.clone()), sandbox.clone(), request)
    };
    let created = match create(request).await {
        Err(error) if error.field() == Some("cwd") => create(at_home).await,
        created => created,
    };
    created.map(|axum::Json(created)| created)
}

/// Deletes a session.
pub(super) async fn delete(
    sandbox: Sandbox,
    body: Json<SessionToDelete>,
) -> Result<axum::Json<SessionEnded>, ApiError> {
    let request = into_native(body, |session| Ok(session.into_native()))?;
    let id = request.value.session_id.clone();
    session::delete(sandbox, request).await.map_err(|error| match error.code() {
        // The reference has no code for this error.
        ErrorCode::SessionNotFound => {
            ApiError::new(ErrorCode::InternalError, format!("Session '{id}' not found"))
                .with("sessionId", id)
                .with("originalError", "Session not found")
        }
        _ => error,
    })
}

impl Mode {
    /// Waits for the session's turn. Creates the session if it does not exist or its shell has ended.
    pub(super) async fn enter(
        &self,
        app: &App,
        sandbox: &Sandbox,
        shell: &Shell,
    ) -> Result<Option<SessionLock>, ApiError> {
        let Shell::Session(id) = shell else { return Ok(None) };
        let turn = self.0.turns.wait(id).await;
        self.ensure(app, sandbox, id).await?;
        Ok(Some(turn))
    }

    pub(super) async fn ensure(&self, app: &App, sandbox: &Sandbox, id: &SessionId) -> Result<(), ApiError> {
        if sandbox.engine.session(id).is_some() && !session::delete_dead(sandbox, id).await {
            return Ok(());
        }
        let request = SessionRequest {
            id: Some(id.to_string()),
            env: Some(environment(Default::default())),
            ..SessionRequest::default()
        };
        match create_native(app, sandbox, &self.0.sdk, request).await {
            // Another request has created it meanwhile.
            Err(error) if error.code() == ErrorCode::SessionAlreadyExists => Ok(()),
            created => created.map(drop),
        }
    }
}
