//! Ports and previews.

use sandcrab_client::api::port::ExposePortRequest;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::exec::pick;
use crate::catalog::{Call, Effect, Entry, ToolResult, entry};
use crate::failure::ToolError;
use crate::limits::MAX_LISTED;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListArguments {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExposeArguments {
    /// The port on which a program listens.
    port: u16,
    /// Display name.
    name: Option<String>,
    /// Process whose end also ends the exposure.
    process_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UnexposeArguments {
    /// The port.
    port: u16,
}

pub(crate) fn entries() -> Vec<Entry> {
    vec![
        entry(
            "port_list",
            "List ports",
            Effect::Reads,
            "List the TCP ports on which programs of the sandbox listen, and the addresses of exposed ones.",
            list,
        ),
        entry(
            "port_expose",
            "Expose a port",
            Effect::Adds,
            "Expose a port of the sandbox, and return the URL under which it can be opened in a browser.",
            expose,
        ),
        entry("port_unexpose", "Unexpose a port", Effect::Changes, "End the exposure of a port.", unexpose),
    ]
}

async fn list(call: Call, _: ListArguments) -> Result<ToolResult, ToolError> {
    let listening = call.client.ports().await?.ports;
    let exposed = call.client.exposed_ports().await?.ports;
    let mut lines: Vec<String> = listening
        .iter()
        .take(MAX_LISTED)
        .map(|port| {
            let url = port.exposed.as_ref().map_or(String::new(), |url| format!("  exposed at {url}"));
            let owner = port.execution_id.as_ref().map_or(String::new(), |id| format!("  execution {id}"));
            format!("{}:{}{owner}{url}", port.address, port.port)
        })
        .collect();
    let is_silent = |port: u16| listening.iter().all(|listening| listening.port != port);
    let silent = exposed.iter().filter(|exposed| is_silent(exposed.port));
    lines
        .extend(silent.map(|port| format!("{}  exposed at {}, but no program listens", port.port, port.url)));
    let text = if lines.is_empty() { "no program listens on a port".to_owned() } else { lines.join("\n") };
    let names = ["port", "address", "pid", "executionId", "processId", "exposed"];
    let ports: Vec<_> = listening.iter().take(MAX_LISTED).map(|port| pick(port, &names)).collect();
    let exposed: Vec<_> = exposed.iter().map(|port| pick(port, &["port", "url", "name", "status"])).collect();
    Ok(ToolResult::new(text, json!({ "ports": ports, "exposed": exposed })))
}

async fn expose(call: Call, arguments: ExposeArguments) -> Result<ToolResult, ToolError> {
    let ExposeArguments { port, name, process_id } = arguments;
    let request = ExposePortRequest { port: port.into(), name, process_id, token: None };
    let exposed = call.client.expose_port(&request).await?;
    let text = format!("port {port} is exposed at {}", exposed.url);
    Ok(ToolResult::new(text, pick(exposed, &["port", "url", "name", "status"])))
}

async fn unexpose(call: Call, arguments: UnexposeArguments) -> Result<ToolResult, ToolError> {
    let port = call.client.unexpose_port(arguments.port).await?.port;
    Ok(ToolResult::new(format!("port {port} is no longer exposed"), json!({ "port": port })))
}
