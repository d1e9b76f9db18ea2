//! Live events of executions, sessions, ports and services: `/api/events`.

use axum::extract::State;
use futures_util::stream;
use sandcrab_api::Timestamp;
use sandcrab_api::event::{
    ByeEvent, ExecutionChangeEvent, ExecutionRemovedEvent, HelloEvent, MissedEvent, ServerEvent,
    SessionChangeEvent,
};
use sandcrab_engine::EngineEvent;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use crate::app::App;
use crate::convert;
use crate::events::{Event, EventStream, HEARTBEAT, Item};
use crate::layer::RequestId;
use crate::origin::Origin;
use crate::sandbox::Sandbox;

/// Streams changes to executions, sessions, ports and services.
///
/// The stream begins with the current moment. A client that reads too slowly gets a `missed` event with the
/// number of events it missed. A port that opens or closes is noticed within a second; one that is open for less than that
/// may be missing.
#[utoipa::path(get, path = "/api/events", operation_id = "events", tag = "server",
    responses((status = 200, description = "A stream of events.", body = ServerEvent, content_type = "text/event-stream")))]
pub(crate) async fn events(State(app): State<App>, request: RequestId, sandbox: Sandbox) -> EventStream {
    let watcher = sandbox.engine.events();
    let ports = app.port_monitor.subscribe(&app).await;
    let services = app.services.changes();
    let state = (app, (watcher, services), ports, Instant::now() + HEARTBEAT, Stage::New);
    let items = stream::unfold(state, |(app, mut watchers, mut ports, heartbeat, stage)| async move {
        let (watcher, services) = &mut watchers;
        let mut next = Stage::Open;
        let event = match stage {
            Stage::New => ServerEvent::Hello(HelloEvent { timestamp: Timestamp::now() }),
            Stage::Open => loop {
                tokio::select! {
                    event = watcher.next() => if let Some(event) = translate(event?) {
                        break event;
                    },
                    change = services.recv() => break match change {
                        Ok(event) => (*event).clone(),
                        Err(RecvError::Lagged(count)) => missed(count),
                        // The sender lives as long as the app.
                        Err(RecvError::Closed) => return None,
                    },
                    event = ports.recv() => break match event {
                        Ok(event) => event,
                        Err(RecvError::Lagged(count)) => missed(count),
                        // The sender lives as long as the app.
                        Err(RecvError::Closed) => return None,
                    },
                    () = tokio::time::sleep_until(heartbeat) => {
                        let heartbeat = Instant::now() + HEARTBEAT;
                        return Some((Item::Heartbeat, (app, watchers, ports, heartbeat, next)));
                    }
                    () = app.stopping.begun() => {
                        next = Stage::Over;
                        break ServerEvent::Bye(ByeEvent { timestamp: Timestamp::now() });
                    }
                }
            },
            Stage::Over => return None,
        };
        let event = Event { id: None, payload: event.into() };
        Some((Item::Event(Box::new(event)), (app, watchers, ports, heartbeat, next)))
    });
    EventStream::new(items, Origin::request(request))
}

/// State of the stream.
#[derive(Debug, Clone, Copy)]
enum Stage {
    New,
    Open,
    Over,
}

fn missed(count: u64) -> ServerEvent {
    ServerEvent::Missed(MissedEvent { count, timestamp: Timestamp::now() })
}

fn translate(event: EngineEvent) -> Option<ServerEvent> {
    let timestamp = Timestamp::now();
    let session = |session_id: String, name| SessionChangeEvent { session_id, name, timestamp };
    Some(match event {
        EngineEvent::ExecutionStarted(info) => ServerEvent::ExecutionStarted(ExecutionChangeEvent {
            process: convert::process(&info),
            timestamp,
        }),
        EngineEvent::ExecutionEnded(info) => {
            ServerEvent::ExecutionEnded(ExecutionChangeEvent { process: convert::process(&info), timestamp })
        }
        EngineEvent::ExecutionRemoved { id } => {
            ServerEvent::ExecutionRemoved(ExecutionRemovedEvent { execution_id: id.to_string(), timestamp })
        }
        EngineEvent::SessionCreated { id, name, .. } => {
            ServerEvent::SessionCreated(session(id.to_string(), name))
        }
        EngineEvent::SessionRestarted { id } => ServerEvent::SessionRestarted(session(id.to_string(), None)),
        EngineEvent::SessionDeleted { id } => ServerEvent::SessionDeleted(session(id.to_string(), None)),
        EngineEvent::Lagged(count) => missed(count),
        _ => return None,
    })
}
