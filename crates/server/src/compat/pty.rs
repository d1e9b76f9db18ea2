//! The terminal of a session: `/ws/pty`. The session comes into existence on first use.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use sandcrab_engine::SessionId;

use super::Mode;
use crate::app::App;
use crate::error::ApiError;
use crate::launch::bad_id;
use crate::query::Params;
use crate::routes::terminal_socket::{PtyOptions, require_upgrade, serve_pty};
use crate::sandbox::Sandbox;

/// Attaches a client to the terminal of a session.
pub(super) async fn open(
    State(app): State<App>,
    sandbox: Sandbox,
    Extension(mode): Extension<Mode>,
    options: Result<Params<PtyOptions>, ApiError>,
    request: Request,
) -> Result<Response, ApiError> {
    require_upgrade(&request)?;
    let Params(options) = options?;
    let session: SessionId = options.session_id.parse().map_err(|e| bad_id("sessionId", &e))?;
    mode.ensure(&app, &sandbox, &session).await?;
    serve_pty(&app, &sandbox, &session, &options, request).await
}
