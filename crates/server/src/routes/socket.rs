//! The multiplexed WebSocket: `/ws`.
//!
//! Each request frame becomes a request to the same router that serves HTTP, so that there is one set of rules. Requests of
//! one socket run side by side; their number is bounded, and so is what waits to be sent: a client that does not read
//! holds up its own requests only.

use std::collections::HashMap;

use axum::body::Body;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, Uri, header};
use axum::response::Response;
use axum::{Extension, Router};
use futures_util::StreamExt;
use http_body_util::BodyExt;
use sandcrab_api::ErrorCode;
use sandcrab_api::frame::{ClientFrame, ErrorFrame, RequestFrame, ResponseFrame, ServerFrame};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tower::ServiceExt;

use crate::access::Multiplexed;
use crate::access::TOKEN_PROTOCOL;
use crate::app::{App, Held};
use crate::error::ApiError;
use crate::events::EventStream;
use crate::events::frames::stream_frame;

/// Frames that wait to be sent.
const WAITING_FRAMES: usize = 64;
/// The largest answer that is sent in one frame; larger ones are for HTTP.
const MAX_ANSWER_BYTES: usize = 32 << 20;
/// The largest frame that is taken; larger bodies are for HTTP.
const MAX_FRAME_BYTES: usize = 8 << 20;

/// The routes, for requests that come over a socket.
#[derive(Debug, Clone)]
pub(crate) struct Inside(pub(crate) Router);

/// Opens the socket.
pub(crate) async fn socket(
    State(app): State<App>,
    Extension(Inside(router)): Extension<Inside>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut parts, _) = request.into_parts();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &app).await.map_err(|_| {
        ApiError::new(
            ErrorCode::UpgradeRequired,
            "this route speaks WebSocket; connect with a WebSocket client",
        )
    })?;
    // Browsers insist on one of the subprotocols they offered; the one with the token only if there is no other.
    let offered = parts.headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut offered: Vec<_> = offered
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|protocol| protocol.trim().to_owned())
        .collect();
    offered.sort_by_key(|protocol| protocol.starts_with(TOKEN_PROTOCOL));
    offered.truncate(1);
    let limit = app.limits.body_bytes.min(MAX_FRAME_BYTES);
    let upgrade = upgrade.protocols(offered).max_message_size(limit).max_frame_size(limit);
    Ok(upgrade.on_upgrade(move |socket| serve(app, router, socket)))
}

/// Serves one socket to its end.
async fn serve(app: App, router: Router, mut socket: WebSocket) {
    let (sender, mut outgoing) = mpsc::channel::<ServerFrame>(WAITING_FRAMES);
    let mut tasks = JoinSet::new();
    let mut running: HashMap<String, AbortHandle> = HashMap::new();
    let stopping = app.stopping.clone();
    loop {
        tokio::select! {
            message = socket.recv() => {
                let text = match message {
                    Some(Ok(Message::Text(text))) => text,
                    Some(Ok(Message::Binary(_))) => {
                        let frame = protocol_error(None, "frames are text; send JSON");
                        if send(&mut socket, &frame).await.is_err() {
                            break;
                        }
                        continue;
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                };
                running.retain(|_, task| !task.is_finished());
                match serde_json::from_str(&text) {
                    Ok(ClientFrame::Request(request)) => {
                        let id = request.id.clone();
                        let problem = if running.contains_key(&id) {
                            Some("a request with this id is under way; use another id")
                        } else if running.len() >= app.limits.requests_per_socket {
                            Some("too many requests are under way on this socket; wait for some to end")
                        } else {
                            None
                        };
                        if let Some(problem) = problem {
                            let mut frame = protocol_error(Some(id), problem);
                            frame.code = ErrorCode::LimitExceeded;
                            frame.status = frame.code.status();
                            if send(&mut socket, &frame).await.is_err() {
                                break;
                            }
                            continue;
                        }
                        let (app, router, sender) = (app.clone(), router.clone(), sender.clone());
                        let task = tasks.spawn(async move { answer(&app, router, request, &sender).await });
                        running.insert(id, task);
                    }
                    Ok(ClientFrame::Cancel(cancel)) => {
                        // Dropping a request is what a client that hangs up does.
                        if let Some(task) = running.remove(&cancel.id) {
                            task.abort();
                        }
                    }
                    Err(e) => {
                        let frame = protocol_error(None, &format!("that is no frame: {e}"));
                        if send(&mut socket, &frame).await.is_err() {
                            break;
                        }
                    }
                }
            }
            Some(frame) = outgoing.recv() => {
                // Its last: whoever has it may use the id again, though the task may not be quite over.
                if let Some(id) = ended_by(&frame) {
                    running.remove(id);
                }
                let text = serde_json::to_string(&frame).unwrap_or_default();
                if socket.send(Message::Text(text.into())).await.is_err() {
                    break;
                }
            }
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            () = stopping.cut_off() => break,
        }
    }
}

/// The request whose last frame this is.
fn ended_by(frame: &ServerFrame) -> Option<&str> {
    match frame {
        ServerFrame::Response(response) => Some(&response.id),
        ServerFrame::Error(error) => error.id.as_deref(),
        ServerFrame::Stream(_) => None,
    }
}

async fn send(socket: &mut WebSocket, frame: &ErrorFrame) -> Result<(), axum::Error> {
    let text = serde_json::to_string(&ServerFrame::Error(frame.clone())).unwrap_or_default();
    socket.send(Message::Text(text.into())).await
}

fn protocol_error(id: Option<String>, message: &str) -> ErrorFrame {
    let code = ErrorCode::ValidationFailed;
    ErrorFrame { id, code, message: message.into(), status: code.status(), context: None }
}

/// Answers one request.
async fn answer(app: &App, router: Router, frame: RequestFrame, to: &mpsc::Sender<ServerFrame>) {
    let id = frame.id.clone();
    let request = match request(frame) {
        Ok(request) => request,
        Err(why) => {
            drop(to.send(ServerFrame::Error(protocol_error(Some(id), &why))).await);
            return;
        }
    };
    let mut response = match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let status = response.status().as_u16();
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_json = kind.is_some_and(|kind| kind.starts_with("application/json"));
    // What is held of an answer counts like what is held of a body.
    let mut held = app.hold();
    let body = if let Some(mut items) = EventStream::take(&mut response) {
        while let Some(item) = items.next().await {
            if to.send(stream_frame(&id, &item)).await.is_err() {
                return;
            }
        }
        None
    } else {
        match whole(response.into_body(), &mut held).await {
            Ok(bytes) if is_json => serde_json::from_slice(&bytes).ok(),
            Ok(bytes) => Some(Value::String(String::from_utf8_lossy(&bytes).into_owned())),
            Err(why) => {
                drop(to.send(ServerFrame::Error(protocol_error(Some(id), &why))).await);
                return;
            }
        }
    };
    drop(to.send(ServerFrame::Response(ResponseFrame { id, status, body, done: true })).await);
}

/// The request that a frame describes.
fn request(frame: RequestFrame) -> Result<Request, String> {
    let method = Method::from_bytes(frame.method.as_bytes()).map_err(|_| "that is no method".to_owned())?;
    let uri: Uri = frame.path.parse().map_err(|_| "that is no path".to_owned())?;
    // Only what a path can say: who is asked was settled when the socket was opened.
    let path =
        uri.path_and_query().filter(|path| path.as_str().starts_with('/')).ok_or("a path begins with /")?;
    if path.path() == "/ws" {
        return Err("a socket cannot be opened over a socket".into());
    }
    let body = match &frame.body {
        Some(body) => Body::from(serde_json::to_vec(body).unwrap_or_default()),
        None => Body::empty(),
    };
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = path.as_str().parse().map_err(|_| "that is no path".to_owned())?;
    for (name, value) in frame.headers.unwrap_or_default() {
        let name: HeaderName = name.parse().map_err(|_| format!("{name:?} is no header"))?;
        let value = HeaderValue::from_str(&value).map_err(|_| format!("the value of {name} is none"))?;
        request.headers_mut().append(name, value);
    }
    request.extensions_mut().insert(Multiplexed);
    Ok(request)
}

async fn whole(mut body: Body, held: &mut Held) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| format!("the answer broke off: {e}"))?;
        let Ok(data) = frame.into_data() else { continue };
        if all.len() + data.len() > MAX_ANSWER_BYTES {
            return Err(format!("the answer is longer than {MAX_ANSWER_BYTES} bytes; ask for it over HTTP"));
        }
        // Parsed, it takes as much again, and as a frame once more.
        held.grow(3 * data.len()).map_err(|e| e.message().to_owned())?;
        all.extend_from_slice(&data);
    }
    Ok(all)
}
