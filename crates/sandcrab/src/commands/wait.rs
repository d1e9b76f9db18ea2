//! `sandcrab wait`.

use clap::Args;
use sandcrab_api::execute::EndReason;
use sandcrab_api::process::Process;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::Span;
use crate::table;

/// What the exit code of a process is whose end is not known.
const EXIT_UNKNOWN: u8 = 255;

/// Wait for the end of a process, and end with its exit code.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// The process, or any execution.
    id: String,
    /// The longest to wait, such as 500ms, 5s; then the exit code is 75, and the process goes on.
    #[arg(short, long, value_name = "DURATION")]
    timeout: Option<Span>,
}

pub(crate) async fn run(args: WaitArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let process = global.client()?.wait(&args.id, args.timeout.map(|span| span.0)).await?;
    if output.json {
        output.document(&process)?;
    } else {
        output.line(sentence(&process))?;
    }
    Ok(process.exit_code.map_or(EXIT_UNKNOWN, |code| u8::try_from(code & 0xff).unwrap_or(EXIT_UNKNOWN)))
}

/// How it ended.
fn sentence(process: &Process) -> String {
    let code = process.exit_code.map_or_else(|| "none".to_owned(), |code| code.to_string());
    let how = match process.end.as_ref().map(|end| (end.reason, end.signal)) {
        Some((EndReason::Exited, _)) => "returned".to_owned(),
        Some((EndReason::Signaled, Some(signal))) => {
            format!("died of {}", sandcrab_api::signal::name(signal))
        }
        Some((EndReason::Signaled, None)) => "died of a signal".to_owned(),
        Some((EndReason::Timeout, _)) => "took longer than its timeout".to_owned(),
        Some((EndReason::IdleTimeout, _)) => "was silent for too long".to_owned(),
        Some((EndReason::Killed, _)) => "was killed".to_owned(),
        Some((EndReason::Oom, _)) => "ran out of memory".to_owned(),
        Some((EndReason::OutputLimit, _)) => "wrote more than it may".to_owned(),
        Some((EndReason::SessionEnded, _)) => "ended with its session".to_owned(),
        Some((EndReason::Lost, _)) | None => "was lost".to_owned(),
    };
    let took = process.end_time.and_then(|end| {
        end.to_system_time().duration_since(process.start_time.to_system_time()).ok().map(table::duration)
    });
    let after = took.map(|took| format!(" after {took}")).unwrap_or_default();
    format!("{} {how}{after}, exit code {code}", process.id)
}
