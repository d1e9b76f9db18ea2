//! `sandcrab ps`.

use std::time::{Duration, SystemTime};

use clap::Args;
use comfy_table::Cell;
use sandcrab_api::Timestamp;
use sandcrab_api::process::Process;
use sandcrab_client::ProcessFilter;

use crate::cli::GlobalOptions;
use crate::end;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// The most leftover processes whose process ids are listed.
const LISTED_PIDS: usize = 3;

/// List processes: background processes and commands of `run`, `exec` and sessions.
///
/// A process that has ended is listed while processes that it started are still running; LEFTOVERS has their number and
/// process ids, and `sandcrab kill ID` ends them. REASON says how a process ended: exited, a signal, timeout, idle timeout,
/// killed, out of memory, output limit, session ended, lost.
#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Also list processes that have ended.
    #[arg(short, long)]
    all: bool,
    /// Only list processes of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
    /// Only print ids.
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) async fn run(args: PsArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let filter = ProcessFilter { all: true, status: None, session_id: args.session };
    let mut list = global.client()?.processes(&filter).await?;
    if !args.all {
        list.processes.retain(is_live);
    }
    let ids = || list.processes.iter().map(|process| process.id.as_str());
    match (output.json, args.quiet) {
        (true, true) => output.document(&ids().collect::<Vec<_>>()).map(|()| 0),
        (true, false) => output.document(&list).map(|()| 0),
        (false, true) => {
            output.bytes(ids().map(|id| format!("{id}\n")).collect::<String>().as_bytes()).map(|()| 0)
        }
        (false, false) => print_table(&list.processes, output).map(|()| 0),
    }
}

fn print_table(processes: &[Process], output: Output) -> Result<(), Failure> {
    let header =
        ["ID", "PID", "STATUS", "EXIT", "REASON", "STARTED", "DURATION", "LEFTOVERS", "SESSION", "COMMAND"];
    let mut table = table::table(output, &header);
    for process in processes {
        table.add_row(row(process));
    }
    table::print(output, &mut table)
}

/// Whether it is running, or has left something running.
pub(crate) fn is_live(process: &Process) -> bool {
    let ended = process.end_time.is_some() || process.exit_code.is_some();
    !ended || process.leftover_count.is_some()
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
        text(process.end.as_ref().map(end::reason)),
        Cell::new(format!("{} ago", table::duration(since(process.start_time, now)))),
        Cell::new(table::duration(since(process.start_time, end))),
        text(leftovers(process)),
        text(process.session_id.clone()),
        Cell::new(table::plain(&process.command)),
    ]
}

/// "2 (17,18)".
fn leftovers(process: &Process) -> Option<String> {
    let count = process.leftover_count?;
    let names = process.leftovers.as_deref().unwrap_or_default();
    let mut pids: Vec<String> = names.iter().take(LISTED_PIDS).map(|name| name.pid.to_string()).collect();
    if usize::try_from(count).unwrap_or(usize::MAX) > pids.len() {
        pids.push("…".to_owned());
    }
    Some(format!("{count} ({})", pids.join(",")))
}
