//! `sandcrab start`.

use clap::{Args, ValueEnum};
use sandcrab_api::execute::{CommandRequest, OnSessionEnd, Overflow};

use super::exec::EndPolicy;
use crate::cli::GlobalOptions;
use crate::command_line::{CommandArgs, RecordArgs};
use crate::failure::Failure;
use crate::output::Output;

/// Start a command in the background and print its id.
///
/// Returns when the program runs. `logs` prints its output, `stdin` writes to its standard input, `signal` sends it a
/// signal, `wait` waits for it and `kill` ends it. With `--session` it starts from the session's state, and does not
/// occupy the session.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Start from the state of this session: working directory, variables, functions.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
    /// What happens to the process when the session is deleted [default: kill].
    #[arg(long, value_name = "ACTION", requires = "session")]
    on_session_end: Option<EndPolicy>,
    /// Keep standard input open, for `sandcrab stdin`.
    #[arg(short, long)]
    interactive: bool,
    /// What happens to output that a follower has not read when --journal-bytes of `serve` are stored: drop the oldest, or make the
    /// process wait [default: drop].
    #[arg(long, value_name = "ACTION")]
    overflow: Option<OverflowArg>,
    /// Keep the record of the finished process until `sandcrab cleanup`.
    #[arg(long)]
    keep_record: bool,
    /// For the error that names the command that does this.
    #[arg(short = 't', long, hide = true)]
    tty: bool,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    command: CommandArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OverflowArg {
    Drop,
    Wait,
}

pub(crate) async fn run(args: StartArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    if args.tty {
        return Err(Failure::usage(
            "`start` has no terminals",
            "use `sandcrab terminal create`, which runs a program in a terminal in the background",
        ));
    }
    let client = global.client()?;
    let request = CommandRequest {
        session_id: args.session,
        process_id: args.record.id,
        leftovers: args.record.leftovers.map(Into::into),
        keep_stdin_open: args.interactive.then_some(true),
        auto_cleanup: args.keep_record.then_some(false),
        overflow: args.overflow.map(|overflow| match overflow {
            OverflowArg::Drop => Overflow::Drop,
            OverflowArg::Wait => Overflow::Wait,
        }),
        on_session_end: args.on_session_end.map(|action| match action {
            EndPolicy::Keep => OnSessionEnd::Keep,
            EndPolicy::Kill => OnSessionEnd::Kill,
        }),
        ..args.command.request(&client)?
    };
    let started = client.start_process(&request).await?;
    if output.json {
        output.document(&started)?;
    } else {
        output.line(&started.process_id)?;
    }
    Ok(0)
}
