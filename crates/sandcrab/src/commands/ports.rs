//! `sandcrab ports`.

use clap::Args;
use sandcrab_api::port::Port;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// List the TCP ports on which programs listen.
///
/// The list comes from the kernel, so it contains programs that were not started through the server. EXECUTION is the
/// command or process that the listening program belongs to; `sandcrab kill` ends it.
#[derive(Debug, Args)]
pub(crate) struct PortsArgs {}

pub(crate) async fn run(global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let list = global.client()?.ports().await?;
    if output.json {
        return output.document(&list).map(|()| 0);
    }
    let mut table = table::table(output, &["PORT", "ADDRESS", "PROTOCOL", "PID", "EXECUTION"]);
    for port in &list.ports {
        table.add_row(row(port));
    }
    table::print(output, &mut table).map(|()| 0)
}

fn row(port: &Port) -> [String; 5] {
    let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    [
        port.port.to_string(),
        table::plain(&port.address),
        table::plain(&port.protocol),
        text(port.pid.map(|pid| pid.to_string())),
        text(port.execution_id.clone()),
    ]
}
