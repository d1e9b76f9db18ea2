//! Live events of executions and sessions: `/api/events`.

use axum::extract::State;
use futures_util::stream;
use sandcrab_api::Timestamp;
use sandcrab_api::event::{
    ByeEvent, ExecutionChangeEvent, ExecutionRemovedEvent, HelloEvent, MissedEvent, ServerEvent,
    SessionChangeEvent,
};
use sandcrab_engine::EngineEvent;

use crate::app::App;
use crate::convert;
use crate::events::{Event, EventStream, HEARTBEAT, Item};
use crate::layer::RequestId;
use crate::origin::Origin;
use crate::sandbox::Sandbox;

/// Streams changes to executions and sessions.
///
/// The stream begins with the current moment. A client that reads too slowly gets a `missed` event with the
/// number of events it missed.
#[utoipa::path(get, path = "/api/events", operation_id = "events", tag = "service",
    responses((status = 200, description = "A stream of events.", body = ServerEvent, content_type = "text/event-stream")))]
pub(crate) async fn events(State(app): State<App>, request: RequestId, sandbox: Sandbox) -> EventStream {
    let watcher = sandbox.engine.events();
    let items = stream::unfold((app, watcher, Stage::New), |(app, mut watcher, stage)| async move {
        let mut next = Stage::Open;
        let event = match stage {
            Stage::New => ServerEvent::Hello(HelloEvent { timestamp: Timestamp::now() }),
            Stage::Open => loop {
                tokio::select! {
                    event = watcher.next() => if let Some(event) = translate(event?) {
                        break event;
                    },
                    () = tokio::time::sleep(HEARTBEAT) => {
                        return Some((Item::Heartbeat, (app, watcher, next)));
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
        Some((Item::Event(Box::new(event)), (app, watcher, next)))
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
        EngineEvent::Lagged(count) => ServerEvent::Missed(MissedEvent { count, timestamp }),
        _ => return None,
    })
}
