//! Ports: which ones programs listen on, and when one is ready.

use std::time::Duration;

use axum::extract::State;
use axum::http::uri::PathAndQuery;
use axum::response::Response;
use futures_util::stream;
use sandcrab_api::port::{
    PortList, PortProcessExitedEvent, PortReadyEvent, PortWatchEvent, PortWatchMode, PortWatchRequest,
    PortWatchingEvent,
};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_engine::{Execution, ExecutionId};
use tokio::time::Instant;

use crate::app::App;

use crate::error::ApiError;
use crate::events::{Event, EventStream, HEARTBEAT, Item};
use crate::input::Json;
use crate::layer::RequestId;
use crate::origin::Origin;
use crate::ports;
use crate::ports::probe::{Expected, probe};
use crate::sandbox::Sandbox;

/// Time after the first attempt. It doubles up to the interval of the request.
const FIRST_INTERVAL: Duration = Duration::from_millis(10);
/// Default of the longest time between two attempts.
const DEFAULT_INTERVAL_MS: u64 = 500;
/// The longest time between two attempts may be within these bounds; others are changed to the nearest, as in the
/// Sandbox SDK.
const INTERVAL_MS: (u64, u64) = (10, 10_000);

/// Lists the TCP ports on which programs listen.
///
/// The list comes from the kernel, so it contains programs that were not started through this server.
#[utoipa::path(get, path = "/api/ports", operation_id = "listPorts", tag = "ports",
    responses((status = 200, description = "The ports.", body = PortList)))]
pub(crate) async fn list(State(app): State<App>, sandbox: Sandbox) -> Result<Response, ApiError> {
    let mut found = sandbox.engine.listening_ports().await;
    // Sockets that share an address and a process are one port.
    found.dedup_by_key(|port| (port.address, port.pid));
    let ports = found.iter().map(|found| ports::wire(&app, found)).collect();
    app.outgoing.json(&PortList { success: true, ports, timestamp: Timestamp::now() })
}

/// Waits until a port is ready.
///
/// The stream ends with `ready`, or with `process_exited` if the named process ends before. It has no timeout: the
/// client disconnects when it has waited long enough.
#[utoipa::path(post, path = "/api/port-watch", operation_id = "watchPort", tag = "ports",
    request_body = PortWatchRequest,
    responses((status = 200, description = "Events: `watching`, then `ready`, `process_exited` or `error`.",
        body = PortWatchEvent, content_type = "text/event-stream")))]
pub(crate) async fn watch(
    State(app): State<App>,
    request_id: RequestId,
    sandbox: Sandbox,
    Json { value: request, .. }: Json<PortWatchRequest>,
) -> Result<EventStream, ApiError> {
    let port = valid_port(request.port)?;
    let expected = expected(&request)?;
    let execution = request.process_id.as_deref().map(|id| find(&sandbox, id)).transpose()?;
    let (least, most) = INTERVAL_MS;
    let interval = request.interval.unwrap_or(DEFAULT_INTERVAL_MS).clamp(least, most);
    let watch = Watch {
        app,
        port,
        expected,
        execution,
        interval: Duration::from_millis(interval),
        pause: FIRST_INTERVAL,
        heartbeat: Instant::now(),
    };
    let items = stream::unfold((watch, Stage::New), |(mut watch, stage)| async move {
        let timestamp = Timestamp::now();
        let (item, stage) = match stage {
            Stage::New => {
                let event = PortWatchingEvent { port: watch.port, timestamp };
                (item(PortWatchEvent::Watching(event)), Stage::Open)
            }
            Stage::Open => match watch.next().await {
                Some(event) => (item(event), Stage::Over),
                None => (Item::Heartbeat, Stage::Open),
            },
            Stage::Over => return None,
        };
        Some((item, (watch, stage)))
    });
    Ok(EventStream::new(items, Origin::request(request_id)))
}

fn item(event: PortWatchEvent) -> Item {
    Item::Event(Box::new(Event { id: None, payload: event.into() }))
}

/// State of the stream.
#[derive(Debug, Clone, Copy)]
enum Stage {
    New,
    Open,
    Over,
}

struct Watch {
    app: App,
    port: u16,
    expected: Expected,
    /// Its end ends the watch.
    execution: Option<Execution>,
    interval: Duration,
    /// Time until the next attempt.
    pause: Duration,
    /// Time of the last heartbeat.
    heartbeat: Instant,
}

impl Watch {
    /// The last event, or `None` when a heartbeat is due.
    async fn next(&mut self) -> Option<PortWatchEvent> {
        let Self { app, port, expected, execution, .. } = &*self;
        let port = *port;
        let until = self.heartbeat + HEARTBEAT;
        let mut pause = self.pause;
        let ready = async {
            loop {
                if let Some(ready) = probe(port, expected).await {
                    return ready;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(self.interval);
            }
        };
        let ended = async {
            match execution {
                Some(execution) => execution.wait().await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            biased;
            ended = ended => {
                let exit_code = ended.ok().and_then(|end| end.exit_code);
                let timestamp = Timestamp::now();
                Some(PortWatchEvent::ProcessExited(PortProcessExitedEvent { port, exit_code, timestamp }))
            }
            ready = ready => {
                let (status_code, timestamp) = (ready.status, Timestamp::now());
                Some(PortWatchEvent::Ready(PortReadyEvent { port, status_code, timestamp }))
            }
            () = app.stopping.begun() => Some(failed(&ApiError::shutting_down())),
            () = tokio::time::sleep_until(until) => None,
        };
        (self.pause, self.heartbeat) = (pause, Instant::now());
        event
    }
}

fn failed(error: &ApiError) -> PortWatchEvent {
    PortWatchEvent::Error(error.event())
}

pub(super) fn find(sandbox: &Sandbox, id: &str) -> Result<Execution, ApiError> {
    let found = id.parse::<ExecutionId>().ok().and_then(|id| sandbox.engine.execution(&id));
    found.ok_or_else(|| ApiError::no_process(id))
}

pub(crate) fn valid_port(port: u32) -> Result<u16, ApiError> {
    let valid = u16::try_from(port).ok().filter(|port| *port != 0);
    valid.ok_or_else(|| {
        ApiError::new(ErrorCode::InvalidPort, format!("port {port} is not valid; expected 1 to 65535"))
            .with("field", "port")
            .with("port", port)
    })
}

pub(crate) fn expected(request: &PortWatchRequest) -> Result<Expected, ApiError> {
    let PortWatchRequest { mode, path, status_min, status_max, .. } = request;
    let path = path.as_deref().unwrap_or("/");
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let path = PathAndQuery::try_from(path).map_err(|_| {
        ApiError::invalid("path", "not a valid path of a URL; encode special characters as %XX")
    })?;
    let (least, most) = (status_min.unwrap_or(200), status_max.unwrap_or(399));
    for (field, status) in [("statusMin", least), ("statusMax", most)] {
        if !(100..=599).contains(&status) {
            return Err(ApiError::invalid(field, "expected a status from 100 to 599"));
        }
    }
    if least > most {
        return Err(ApiError::invalid("statusMin", format!("{least} is higher than statusMax, {most}")));
    }
    if mode.unwrap_or_default() == PortWatchMode::Tcp {
        // The client of the Sandbox SDK sends path and statuses in both modes.
        return Ok(Expected::Connection);
    }
    Ok(Expected::Response { path, statuses: least..=most })
}
