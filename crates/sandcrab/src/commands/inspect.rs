//! `sandcrab inspect`.

use clap::Args;
use sandcrab_api::process::Process;

use crate::batch::BatchResults;
use crate::cli::GlobalOptions;
use crate::end;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// Show details of processes: how they ended, resource usage, what they left running.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// Ids of the processes.
    #[arg(required = true)]
    ids: Vec<String>,
}

pub(crate) async fn run(args: InspectArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let mut results = BatchResults::new(output, &args.ids);
    for id in &args.ids {
        let Some(process) = results.check(id, client.process_with_metrics(id).await)? else { continue };
        if output.json {
            results.document(&process)?;
            continue;
        }
        let mut table = table::table(output, &[]);
        for (name, value) in rows(&process) {
            table.add_row([name, &table::plain(&value)]);
        }
        table::print(output, &mut table)?;
    }
    Ok(results.exit_code())
}

fn rows(process: &Process) -> Vec<(&'static str, String)> {
    let mut rows = vec![("id", process.id.clone()), ("command", process.command.clone())];
    let mut add = |name: &'static str, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    add("session", process.session_id.clone());
    add("PID", process.pid.map(|pid| pid.to_string()));
    add("status", Some(process.status.as_str().to_owned()));
    add("waiting for", process.waiting.map(|waiting| waiting.as_str().to_owned()));
    add("started", Some(process.start_time.to_string()));
    add("ended", process.end_time.map(|time| time.to_string()));
    add("exit code", process.exit_code.map(|code| code.to_string()));
    add("reason", process.end.as_ref().map(end::reason));
    if let Some(usage) = &process.usage {
        add("wall time", Some(format!("{:.0} ms", usage.wall_ms)));
        add("CPU time", Some(format!("{:.0} ms user, {:.0} ms system", usage.user_ms, usage.system_ms)));
        add("max RSS", Some(format!("{} KiB", usage.max_rss_bytes >> 10)));
    }
    if let Some(live) = process.metrics.as_ref().filter(|live| live.processes > 0) {
        add(
            "live",
            Some(format!(
                "{} processes, {} threads, {} open files, {} KiB resident, {} KiB read, {} KiB written",
                live.processes,
                live.threads,
                live.open_files,
                live.resident_bytes >> 10,
                live.read_bytes >> 10,
                live.written_bytes >> 10
            )),
        );
    }
    let leftovers = process.leftovers.as_deref().unwrap_or_default();
    add("leftovers", process.leftover_count.map(|count| end::leftovers(count, leftovers)));
    rows
}
