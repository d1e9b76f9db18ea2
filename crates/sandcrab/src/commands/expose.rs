//! `sandcrab expose`.

use clap::{Args, Subcommand};
use sandcrab_api::port::{ExposePortRequest, ExposedPort, ExposedPortStatus};

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// Expose a port under an address of its own, and print the address.
///
/// A browser that opens the address reaches the program that listens on the port: HTTP, streams and WebSockets. The address
/// contains a secret token; each client that has it can use the program. The port stays exposed until `sandcrab expose
/// remove PORT`, also when the server restarts.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ExposeArgs {
    #[command(subcommand)]
    command: Option<ExposeCommand>,
    /// Port to expose. The program may be started later.
    #[arg(required = true, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Display name.
    #[arg(long)]
    name: Option<String>,
    /// Secret part of the address: 1 to 24 lowercase letters, digits and underscores. Default: 16 random characters.
    #[arg(long)]
    token: Option<String>,
    /// End the exposure when this process has ended.
    #[arg(long, value_name = "ID")]
    process: Option<String>,
}

#[derive(Debug, Subcommand)]
enum ExposeCommand {
    /// List the exposed ports and their addresses.
    List,
    Remove(RemoveArgs),
}

/// End the exposure of a port, and close its open connections.
#[derive(Debug, Args)]
struct RemoveArgs {
    /// The exposed port.
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
}

pub(crate) async fn run(args: ExposeArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    match args.command {
        Some(ExposeCommand::List) => {
            let list = client.exposed_ports().await?;
            if output.json {
                return output.document(&list).map(|()| 0);
            }
            let mut table = table::table(output, &["PORT", "STATUS", "NAME", "PROCESS", "ADDRESS"]);
            for port in &list.ports {
                table.add_row(row(port));
            }
            table::print(output, &mut table)?;
        }
        Some(ExposeCommand::Remove(RemoveArgs { port })) => {
            let removed = client.unexpose_port(port).await?;
            if output.json {
                output.document(&removed)?;
            }
        }
        None => {
            let ExposeArgs { port, name, token, process, .. } = args;
            // The parser requires it.
            let port = port.unwrap_or_default().into();
            let request = ExposePortRequest { port, name, token, process_id: process };
            let exposed = client.expose_port(&request).await?;
            match output.json {
                true => output.document(&exposed)?,
                false => output.line(exposed.url)?,
            }
        }
    }
    Ok(0)
}

fn row(port: &ExposedPort) -> [String; 5] {
    let text = |value: Option<&String>| value.map_or_else(|| "-".to_owned(), |value| table::plain(value));
    let status = match port.status {
        ExposedPortStatus::Active => "active",
        _ => "inactive",
    };
    [
        port.port.to_string(),
        status.to_owned(),
        text(port.name.as_ref()),
        text(port.process_id.as_ref()),
        table::plain(&port.url),
    ]
}
