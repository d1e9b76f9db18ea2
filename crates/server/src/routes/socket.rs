//! Opening the multiplexed WebSocket: `/ws`.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::OnUpgrade;
use sandcrab_api::ErrorCode;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::access::{is_websocket_upgrade, token_in};
use crate::app::App;
use crate::error::ApiError;
use crate::socket::{self, SocketRoutes};

/// The only supported version of the protocol.
const VERSION: &str = "13";
/// Length of a `Sec-WebSocket-Key`: 16 bytes in base64.
const KEY_LENGTH: usize = 24;

/// Opens the multiplexed WebSocket.
///
/// Each text message from the client is a `ClientFrame`, each from the server a `ServerFrame`. The token may
/// be sent as the subprotocol `bearer.TOKEN`, or `bearer64.` and the token as base64url without padding.
#[utoipa::path(get, path = "/ws", operation_id = "openSocket", tag = "server",
    extensions(("x-websocket" = json!({
        "clientMessage": {"$ref": "#/components/schemas/ClientFrame"},
        "serverMessage": {"$ref": "#/components/schemas/ServerFrame"},
    }))),
    responses((status = 101, description = "The connection was upgraded.")))]
pub(crate) async fn socket(
    State(app): State<App>,
    Extension(SocketRoutes(router)): Extension<SocketRoutes>,
    request: Request,
) -> Result<Response, ApiError> {
    let (response, upgraded) = upgrade(request)?;
    // The task holds a reference to its own tracker. This does not prevent shutdown, because the tracker is
    // not waited for indefinitely.
    let tasks = app.tasks.clone();
    tasks.spawn(async move {
        // If the client is gone, there is no one to report an error to.
        if let Ok(stream) = upgraded.await {
            socket::serve(app, router, stream).await;
        }
    });
    Ok(response)
}

/// Accepts a WebSocket: the response, and the connection that follows it.
pub(crate) fn upgrade(mut request: Request) -> Result<(Response, OnUpgrade), ApiError> {
    let headers = request.headers();
    let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|key| key.len() == KEY_LENGTH);
    let is_version = headers.get(header::SEC_WEBSOCKET_VERSION).is_some_and(|version| version == VERSION);
    let (Some(key), true) =
        (key, is_version && request.method() == Method::GET && is_websocket_upgrade(headers))
    else {
        return Err(upgrade_required());
    };
    let mut answer = HeaderMap::new();
    let accepted = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(ApiError::internal)?;
    answer.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    answer.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    answer.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
    if let Some(protocol) = protocol(headers) {
        answer.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    let upgraded = hyper::upgrade::on(&mut request);
    Ok(((StatusCode::SWITCHING_PROTOCOLS, answer).into_response(), upgraded))
}

/// Browsers require the server to choose one of the offered subprotocols. The one with the token is chosen
/// only if there is no other.
fn protocol(headers: &HeaderMap) -> Option<HeaderValue> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let offered = offered.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let chosen = offered.map(str::trim).min_by_key(|protocol| token_in(protocol.as_bytes()).is_some())?;
    HeaderValue::from_str(chosen).ok()
}

pub(crate) fn upgrade_required() -> ApiError {
    ApiError::new(ErrorCode::UpgradeRequired, "this route requires a WebSocket client")
}
