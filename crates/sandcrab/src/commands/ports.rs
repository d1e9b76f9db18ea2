//! `sandcrab ports`.

use std::time::Duration;

use clap::{Args, Subcommand};
use sandcrab_api::ErrorCode;
use sandcrab_api::port::{Port, PortReadyEvent, PortWatchEvent, PortWatchMode, PortWatchRequest};
use sandcrab_client::Client;

use crate::cli::GlobalOptions;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::DurationArg;
use crate::table;

/// List the TCP ports on which programs listen, or wait for one.
///
/// The list comes from the kernel, so it contains programs that were not started through the server. EXECUTION is the
/// command or process that the listening program belongs to; `sandcrab kill` ends it. PREVIEW is the address under
/// which the port is exposed.
#[derive(Debug, Args)]
pub(crate) struct PortsArgs {
    #[command(subcommand)]
    command: Option<PortsCommand>,
}

#[derive(Debug, Subcommand)]
enum PortsCommand {
    Wait(WaitArgs),
}

/// Wait until a port is ready.
///
/// A port is ready when it answers a GET request with a status from 200 to 399, or with --tcp when it accepts connections. The
/// program may be started later.
#[derive(Debug, Args)]
struct WaitArgs {
    /// The port on the machine of the server.
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Only wait until the port accepts connections.
    #[arg(long)]
    tcp: bool,
    /// Path and query of the request [default: /].
    #[arg(long, value_name = "PATH", conflicts_with = "tcp")]
    path: Option<String>,
    /// Stop waiting when this process has ended. Then the exit code is 1.
    #[arg(long, value_name = "ID")]
    process: Option<String>,
    /// Maximum time to wait, such as 5s. Then the exit code is 75 [default: no limit].
    #[arg(long, value_name = "DURATION")]
    timeout: Option<DurationArg>,
}

pub(crate) async fn run(args: PortsArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    match args.command {
        Some(PortsCommand::Wait(args)) => wait(args, &client, output).await,
        None => list(&client, output).await,
    }
}

async fn list(client: &Client, output: Output) -> Result<u8, Failure> {
    let list = client.ports().await?;
    if output.json {
        return output.document(&list).map(|()| 0);
    }
    let mut table = table::table(output, &["PORT", "ADDRESS", "PROTOCOL", "PID", "EXECUTION", "PREVIEW"]);
    for port in &list.ports {
        table.add_row(row(port));
    }
    table::print(output, &mut table).map(|()| 0)
}

fn row(port: &Port) -> [String; 6] {
    let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    [
        port.port.to_string(),
        table::plain(&port.address),
        table::plain(&port.protocol),
        text(port.pid.map(|pid| pid.to_string())),
        text(port.execution_id.clone()),
        text(port.exposed.as_deref().map(table::plain)),
    ]
}

async fn wait(args: WaitArgs, client: &Client, output: Output) -> Result<u8, Failure> {
    let request = PortWatchRequest {
        port: args.port.into(),
        mode: args.tcp.then_some(PortWatchMode::Tcp),
        path: args.path,
        process_id: args.process,
        ..PortWatchRequest::default()
    };
    let ready = match args.timeout {
        None => ready(&request, client).await?,
        Some(DurationArg(limit)) => {
            let waited = tokio::time::timeout(limit, ready(&request, client)).await;
            waited.unwrap_or_else(|_| Err(timed_out(args.port, limit)))?
        }
    };
    if output.json {
        output.document(&ready)?;
    }
    Ok(0)
}

async fn ready(request: &PortWatchRequest, client: &Client) -> Result<PortReadyEvent, Failure> {
    let mut events = client.watch_port(request).await?;
    while let Some(event) = events.next().await? {
        match event {
            PortWatchEvent::Watching(_) => {}
            PortWatchEvent::Ready(ready) => return Ok(ready),
            PortWatchEvent::Error(error) => return Err(Failure::Event(error)),
            PortWatchEvent::ProcessExited(exited) => return Err(ended(request, exited.exit_code)),
        }
    }
    Err(Failure::incomplete_stream())
}

fn ended(request: &PortWatchRequest, exit_code: Option<i32>) -> Failure {
    let process = request.process_id.as_deref().unwrap_or_default();
    let code = exit_code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
    Failure::Local {
        code: ErrorCode::ProcessEnded.as_str(),
        message: format!("process {process} ended{code} before port {} was ready", request.port),
        hint: Some(format!("`sandcrab logs {process}` prints its output")),
        exit_code: exit_code::NOT_READY,
    }
}

fn timed_out(port: u16, limit: Duration) -> Failure {
    let code = ErrorCode::WaitTimeout;
    Failure::Local {
        code: code.as_str(),
        message: format!("port {port} was not ready within {}", table::duration(limit)),
        hint: Some("`sandcrab ports` lists the ports on which programs listen".to_owned()),
        exit_code: exit_code::of_error(code, false),
    }
}
