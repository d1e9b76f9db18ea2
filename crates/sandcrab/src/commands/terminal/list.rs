//! `sandcrab terminal list`.

use std::time::SystemTime;

use clap::Args;
use sandcrab_api::Timestamp;
use sandcrab_api::terminal::{Terminal, TerminalStatus};
use sandcrab_client::Client;

use crate::end;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

const COLUMNS: [&str; 10] =
    ["ID", "PID", "STATUS", "EXIT", "SIZE", "VIEWERS", "CREATED", "ACTIVE", "TITLE", "COMMAND"];

/// List terminals, including those that have ended.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only print ids.
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

pub(super) async fn run(args: &ListArgs, client: &Client, output: Output) -> Result<u8, Failure> {
    let list = client.terminals().await?;
    if output.json {
        output.document(&list)?;
        return Ok(0);
    }
    if args.quiet {
        for terminal in &list.terminals {
            output.line(&terminal.id)?;
        }
        return Ok(0);
    }
    let mut table = table::table(output, &COLUMNS);
    for terminal in &list.terminals {
        table.add_row(row(terminal));
    }
    table::print(output, &mut table)?;
    Ok(0)
}

fn row(terminal: &Terminal) -> [String; 10] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let is_running = terminal.status == TerminalStatus::Running;
    let status = match &terminal.end {
        None if is_running => "running".to_owned(),
        None => "exited".to_owned(),
        Some(end) => end::reason(end),
    };
    [
        terminal.id.clone(),
        or_dash(terminal.pid.filter(|_| is_running).map(|pid| pid.to_string())),
        status,
        or_dash(terminal.exit_code.map(|code| code.to_string())),
        format!("{}x{}", terminal.cols, terminal.rows),
        terminal.viewers.to_string(),
        ago(terminal.created_at),
        ago(terminal.last_activity),
        or_dash(Some(table::plain(&terminal.title)).filter(|title| !title.is_empty())),
        table::plain(&terminal.command),
    ]
}

fn ago(time: Timestamp) -> String {
    let age = SystemTime::now().duration_since(time.to_system_time()).unwrap_or_default();
    format!("{} ago", table::duration(age))
}
