//! Exposed ports: `/api/port/expose`, `/api/port/unexpose`, `/api/port/exposed`.

use std::collections::HashSet;
use std::net::SocketAddr;

use axum::extract::State;
use sandcrab_api::port::{
    ExposePortRequest, ExposePortResponse, ExposedPort, ExposedPortList, ExposedPortStatus,
    UnexposePortRequest, UnexposePortResponse,
};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_engine::Engine;

use super::port::{find, valid_port};
use crate::app::App;
use crate::error::ApiError;
use crate::input::Json;
use crate::preview::{Exposed, Previews, is_valid_token};
use crate::sandbox::Sandbox;

/// Maximum number of characters of a name.
const MAX_NAME_CHARS: usize = 64;

/// Exposes a port under a host name of its own.
///
/// Requests to that name, WebSockets included, pass to the program that listens on the port; it may be started later. The
/// port stays exposed until it is unexposed, also when the server restarts, or until the process of `processId` has
/// ended. The same request with the same `token` has the same result.
#[utoipa::path(post, path = "/api/port/expose", operation_id = "exposePort", tag = "ports",
    request_body = ExposePortRequest,
    responses((status = 200, description = "The port is exposed.", body = ExposePortResponse)))]
pub(crate) async fn expose(
    State(app): State<App>,
    sandbox: Sandbox,
    Json { value: request, .. }: Json<ExposePortRequest>,
) -> Result<axum::Json<ExposePortResponse>, ApiError> {
    let port = valid_port(request.port)?;
    if request.token.as_deref().is_some_and(|token| !is_valid_token(token)) {
        let why = "expected 1 to 24 lowercase letters, digits and underscores";
        return Err(ApiError::invalid("token", why));
    }
    let is_name = |name: &str| {
        let count = name.chars().count();
        (1..=MAX_NAME_CHARS).contains(&count) && !name.chars().any(char::is_control)
    };
    if request.name.as_deref().is_some_and(|name| !is_name(name)) {
        let why = format!("expected 1 to {MAX_NAME_CHARS} characters without control characters");
        return Err(ApiError::invalid("name", why));
    }
    let owner = request.process_id.as_deref().map(|id| find(&sandbox, id)).transpose()?;
    if let Some(owner) = &owner
        && owner.status().end().is_some()
    {
        let why = format!("process {:?} has ended", owner.id().as_str());
        return Err(ApiError::new(ErrorCode::ProcessEnded, why).with("processId", owner.id().as_str()));
    }
    let exposed = Previews::expose(&app, port, request.name, request.token, owner).await?;
    let ExposedPort { url, port, name, token, process_id, status, exposed_at } =
        describe(&exposed, &listening().await);
    let timestamp = Timestamp::now();
    let success = true;
    Ok(axum::Json(ExposePortResponse {
        success,
        url,
        port,
        name,
        token,
        process_id,
        status,
        exposed_at,
        timestamp,
    }))
}

/// Ends the exposure of a port.
///
/// Open streams and WebSockets of its preview are closed.
#[utoipa::path(post, path = "/api/port/unexpose", operation_id = "unexposePort", tag = "ports",
    request_body = UnexposePortRequest,
    responses((status = 200, description = "The port is no longer exposed.", body = UnexposePortResponse)))]
pub(crate) async fn unexpose(
    State(app): State<App>,
    Json { value: request, .. }: Json<UnexposePortRequest>,
) -> Result<axum::Json<UnexposePortResponse>, ApiError> {
    let port = valid_port(request.port)?;
    Previews::unexpose(&app, port).await?;
    Ok(axum::Json(UnexposePortResponse { success: true, port, timestamp: Timestamp::now() }))
}

/// Lists the exposed ports.
#[utoipa::path(get, path = "/api/port/exposed", operation_id = "listExposedPorts", tag = "ports",
    responses((status = 200, description = "The exposed ports.", body = ExposedPortList)))]
pub(crate) async fn list(State(app): State<App>) -> axum::Json<ExposedPortList> {
    let listening = listening().await;
    let ports: Vec<_> = app.previews.list().iter().map(|exposed| describe(exposed, &listening)).collect();
    axum::Json(ExposedPortList { success: true, count: ports.len(), ports, timestamp: Timestamp::now() })
}

/// The ports on which programs listen where previews look for them.
async fn listening() -> HashSet<u16> {
    let sockets = tokio::task::spawn_blocking(Engine::listening_sockets).await.unwrap_or_default();
    let is_reachable = |address: &SocketAddr| {
        let ip = address.ip().to_canonical();
        ip.is_unspecified() || ip == std::net::Ipv4Addr::LOCALHOST || ip == std::net::Ipv6Addr::LOCALHOST
    };
    sockets.iter().filter(|(address, _)| is_reachable(address)).map(|(address, _)| address.port()).collect()
}

fn describe(exposed: &Exposed, listening: &HashSet<u16>) -> ExposedPort {
    let is_active = listening.contains(&exposed.port());
    ExposedPort {
        url: exposed.url.clone(),
        port: exposed.port(),
        name: exposed.name().cloned(),
        token: exposed.token().to_owned(),
        process_id: exposed.process_id().cloned(),
        status: if is_active { ExposedPortStatus::Active } else { ExposedPortStatus::Inactive },
        exposed_at: exposed.exposed_at(),
    }
}
