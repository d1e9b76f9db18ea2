//! Ports: whether one is ready ([`probe`]), and events when one opens or closes ([`monitor`]).

pub(crate) mod monitor;
pub(crate) mod probe;

use sandcrab_api::port::Port;
use sandcrab_engine::{ExecutionId, ListeningPort};

use crate::app::AppState;

/// Converts a port to its type of the wire.
pub(crate) fn wire(app: &AppState, found: &ListeningPort) -> Port {
    let id = found.execution.as_ref();
    let execution = id.and_then(|id| app.sandbox.engine.execution(id));
    let is_process = execution.is_some_and(|execution| execution.info().background);
    Port {
        port: found.address.port(),
        address: found.address.ip().to_string(),
        protocol: "tcp".into(),
        pid: found.pid,
        execution_id: id.map(ExecutionId::to_string),
        process_id: id.filter(|_| is_process).map(ExecutionId::to_string),
        exposed: app.previews.url_of(found.address.port()),
    }
}
