//! `sandcrab events`.

use clap::Args;
use sandcrab_api::event::{
    ExecutionChangeEvent, PortChangeEvent, PortExposureEvent, ServerEvent, SessionChangeEvent,
};
use sandcrab_api::process::Process;

use crate::cli::GlobalOptions;
use crate::end;
use crate::failure::Failure;
use crate::output::Output;
use crate::relay::write;
use crate::table;

/// Print events of the server as they happen: executions, sessions, ports and services that start, change and end.
///
/// Each line has the time, the event and an id. Ends when the server stops, and resumes after a crash of the server.
/// Events in between are lost; a line `connected` marks the gap. With --json, each event is one line.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {}

pub(crate) async fn run(global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let mut events = global.client()?.events().await?;
    while let Some(event) = events.next().await? {
        let is_last = matches!(event, ServerEvent::Bye(_));
        write(move || if output.json { output.json_line(&event) } else { output.line(line(&event)) }).await?;
        if is_last {
            break;
        }
    }
    Ok(0)
}

fn line(event: &ServerEvent) -> String {
    let execution = |word: &str, event: &ExecutionChangeEvent, rest: String| {
        format!("{} {word} {} {rest}", event.timestamp, event.process.id)
    };
    let session = |word: &str, event: &SessionChangeEvent| {
        let name = event.name.as_deref().map(|name| format!(" {}", table::plain(name))).unwrap_or_default();
        format!("{} {word} {}{name}", event.timestamp, event.session_id)
    };
    let port = |word: &str, event: &PortChangeEvent| {
        let owner = event.port.execution_id.as_deref().map(|id| format!(" {id}")).unwrap_or_default();
        let address = table::plain(&event.port.address);
        format!("{} {word} {} {address}{owner}", event.timestamp, event.port.port)
    };
    let exposure = |word: &str, event: &PortExposureEvent| {
        let name = event.name.as_deref().map(|name| format!(" {}", table::plain(name))).unwrap_or_default();
        format!("{} {word} {}{name}", event.timestamp, event.port)
    };
    match event {
        ServerEvent::Hello(event) => format!("{} connected", event.timestamp),
        ServerEvent::ExecutionStarted(event) => {
            execution("execution_started", event, table::plain(&event.process.command))
        }
        ServerEvent::ExecutionEnded(event) => execution("execution_ended", event, ended(&event.process)),
        ServerEvent::ExecutionRemoved(event) => {
            format!("{} execution_removed {}", event.timestamp, event.execution_id)
        }
        ServerEvent::SessionCreated(event) => session("session_created", event),
        ServerEvent::SessionRestarted(event) => session("session_restarted", event),
        ServerEvent::SessionDeleted(event) => session("session_deleted", event),
        ServerEvent::PortOpened(event) => port("port_opened", event),
        ServerEvent::PortClosed(event) => port("port_closed", event),
        ServerEvent::PortExposed(event) => exposure("port_exposed", event),
        ServerEvent::PortUnexposed(event) => exposure("port_unexposed", event),
        ServerEvent::ServiceChanged(event) => {
            let (id, state) = (&event.service.id, event.service.state.as_str());
            format!("{} service_changed {id} {state}", event.timestamp)
        }
        ServerEvent::ServiceRemoved(event) => {
            format!("{} service_removed {}", event.timestamp, event.service_id)
        }
        ServerEvent::Missed(event) => format!("{} missed {} events", event.timestamp, event.count),
        ServerEvent::Bye(event) => format!("{} server_stopping", event.timestamp),
    }
}

fn ended(process: &Process) -> String {
    let reason = process.end.as_ref().map(end::reason).unwrap_or_default();
    let code = process.exit_code.map_or_else(|| "unknown".to_owned(), |code| code.to_string());
    format!("{reason}, exit code {code}")
}
