//! `sandcrab wait`.

use clap::Args;
use futures_util::StreamExt;
use sandcrab_api::process::Process;

use crate::batch::BatchResults;
use crate::cli::GlobalOptions;
use crate::end;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::DurationArg;
use crate::table;

/// Wait for processes to end, and exit with their exit code.
///
/// Prints how each process ended, in the given order. With several ids, the exit code is the first one that is not 0.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Ids of the processes.
    #[arg(required = true)]
    ids: Vec<String>,
    /// Maximum time to wait, such as 500ms or 5s. Then the exit code is 75, and the processes continue.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<DurationArg>,
}

pub(crate) async fn run(args: WaitArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let timeout = args.timeout.map(|span| span.0);
    let waits = args.ids.iter().map(|id| client.wait(id, timeout));
    // All at the same time: one timeout is for all of them.
    let mut ended = futures_util::stream::iter(waits).buffered(args.ids.len());
    let mut results = BatchResults::new(output, &args.ids);
    for id in &args.ids {
        let Some(process) = ended.next().await else { break };
        let Some(process) = results.check(id, process)? else { continue };
        if output.json {
            results.document(&process)?;
        } else {
            output.line(sentence(&process))?;
        }
        results.note_exit_code(process.exit_code.map_or(exit_code::UNKNOWN, exit_code::of_command));
    }
    Ok(results.exit_code())
}

/// How it ended.
fn sentence(process: &Process) -> String {
    let code = process.exit_code.map_or_else(|| "unknown".to_owned(), |code| code.to_string());
    let how = process.end.as_ref().map_or_else(|| "has ended".to_owned(), end::predicate);
    let took = process.end_time.and_then(|end| {
        end.to_system_time().duration_since(process.start_time.to_system_time()).ok().map(table::duration)
    });
    let after = took.map(|took| format!(" after {took}")).unwrap_or_default();
    format!("{} {how}{after}, exit code {code}", process.id)
}
