//! `sandcrab ps`.

use std::time::{Duration, SystemTime};

use clap::Args;
use comfy_table::Cell;
use sandcrab_api::Timestamp;
use sandcrab_api::process::Process;
use sandcrab_client::ProcessFilter;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// List what runs.
///
/// Commands of `run`, `exec` and sessions are listed as well as processes that were started in the background. A command that has
/// ended is listed while something that it left is running (LEFT: how many processes); `sandcrab kill` ends that.
#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Also list what has ended.
    #[arg(short, long)]
    all: bool,
    /// Only what belongs to this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

pub(crate) async fn run(args: PsArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let filter = ProcessFilter { all: true, status: None, session_id: args.session };
    let mut list = global.client()?.processes(&filter).await?;
    if !args.all {
        list.processes.retain(|process| {
            let ended = process.end_time.is_some() || process.exit_code.is_some();
            !ended || process.leftover_count.is_some()
        });
    }
    if output.json {
        output.document(&list)?;
        return Ok(0);
    }
    let mut table = table::table(
        output,
        &["ID", "PID", "STATUS", "EXIT", "STARTED", "TOOK", "LEFT", "SESSION", "COMMAND"],
    );
    for process in &list.processes {
        table.add_row(row(process));
    }
    table::print(output, &mut table)?;
    Ok(0)
}

fn row(process: &Process) -> Vec<Cell> {
    let text = |value: Option<String>| Cell::new(value.unwrap_or_else(|| "-".to_owned()));
    let since =
        |from: Timestamp, to: SystemTime| to.duration_since(from.to_system_time()).unwrap_or(Duration::ZERO);
    let now = SystemTime::now();
    let end = process.end_time.map_or(now, Timestamp::to_system_time);
    vec![
        Cell::new(&process.id),
        text(process.pid.map(|pid| pid.to_string())),
        table::status(process.status),
        text(process.exit_code.map(|code| code.to_string())),
        Cell::new(format!("{} ago", table::duration(since(process.start_time, now)))),
        Cell::new(table::duration(since(process.start_time, end))),
        text(process.leftover_count.map(|count| count.to_string())),
        text(process.session_id.clone()),
        Cell::new(table::plain(&process.command)),
    ]
}
