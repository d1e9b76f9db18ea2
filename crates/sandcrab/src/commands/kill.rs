//! `sandcrab kill`.

use clap::Args;
use sandcrab_api::execute::ProcessName;
use sandcrab_api::process::KilledProcess;
use sandcrab_api::signal;
use sandcrab_client::KillOptions;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::Span;
use crate::table;

/// The exit code if somebody could not be ended.
const EXIT_SURVIVORS: u8 = 1;

/// End a process with everything it started.
///
/// The whole tree gets the signal and, after the grace period, SIGKILL, until nobody is left. Prints what was ended, and by
/// which signal; the exit code is 1 if somebody could not be ended. A process that has ended already is no error.
#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// The process, or any execution.
    id: String,
    /// The signal to begin with, by name or number.
    #[arg(short, long, value_name = "SIGNAL", default_value = "SIGTERM")]
    signal: String,
    /// How long it has before SIGKILL, such as 500ms, 5s.
    #[arg(short, long, value_name = "DURATION", default_value = "5s")]
    grace: Span,
}

pub(crate) async fn run(args: KillArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let options = KillOptions { signal: Some(args.signal), grace: Some(args.grace.0) };
    let answer = global.client()?.kill(&args.id, &options).await?;
    if output.json {
        output.document(&answer)?;
    } else {
        receipt(output, &answer.killed, &answer.survivors)?;
    }
    Ok(exit_code(&answer.survivors))
}

/// The exit code of something that was to end processes.
pub(crate) fn exit_code(survivors: &[ProcessName]) -> u8 {
    if survivors.is_empty() { 0 } else { EXIT_SURVIVORS }
}

/// Shows who was ended, and who was not.
pub(crate) fn receipt(
    output: Output,
    killed: &[KilledProcess],
    survivors: &[ProcessName],
) -> Result<(), Failure> {
    if killed.is_empty() && survivors.is_empty() {
        return output.line("nothing was running");
    }
    let mut table = table::table(output, &["PID", "ENDED BY", "COMMAND"]);
    for process in killed {
        table.add_row([
            process.pid.to_string(),
            signal::name(process.signal),
            table::plain(&process.command),
        ]);
    }
    for process in survivors {
        table.add_row([
            process.pid.to_string(),
            "nothing: it is still there".into(),
            table::plain(&process.command),
        ]);
    }
    table::print(output, &mut table)
}
