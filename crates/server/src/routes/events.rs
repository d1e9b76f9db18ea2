//! What happens to executions and sessions, as it happens: `/api/events`.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use sandcrab_api::Timestamp;
use sandcrab_api::event::{
    ByeEvent, ExecutionChangeEvent, ExecutionRemovedEvent, HelloEvent, MissedEvent, ServerEvent,
    SessionChangeEvent,
};
use sandcrab_engine::EngineEvent;

use crate::app::App;
use crate::convert;
use crate::feed::{HEARTBEAT, events_response, write_event};

/// Streams what starts, changes and ends, from now on. A reader that is too slow is told how much it has missed.
#[utoipa::path(get, path = "/api/events", operation_id = "events", tag = "service",
    responses((status = 200, description = "Events.", body = ServerEvent, content_type = "text/event-stream")))]
pub(crate) async fn events(State(app): State<App>) -> Response {
    let watcher = app.engine.events();
    let pieces = stream::unfold((app, watcher, Stage::New), |(app, mut watcher, stage)| async move {
        let mut chunk = Vec::new();
        let mut next = Stage::Open;
        let timestamp = Timestamp::now();
        match stage {
            Stage::New => write_event(&mut chunk, None, &ServerEvent::Hello(HelloEvent { timestamp })),
            Stage::Open => tokio::select! {
                event = watcher.next() => match translate(event?) {
                    Some(event) => write_event(&mut chunk, None, &event),
                    None => chunk.extend_from_slice(b":\n\n"),
                },
                () = tokio::time::sleep(HEARTBEAT) => chunk.extend_from_slice(b": still here\n\n"),
                () = app.stopping.begun() => {
                    write_event(&mut chunk, None, &ServerEvent::Bye(ByeEvent { timestamp }));
                    next = Stage::Over;
                }
            },
            Stage::Over => return None,
        }
        Some((Ok::<_, Infallible>(Bytes::from(chunk)), (app, watcher, next)))
    });
    events_response(Body::from_stream(pieces))
}

/// Where the stream stands.
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
