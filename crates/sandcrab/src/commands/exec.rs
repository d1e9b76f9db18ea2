//! `sandcrab exec`.

use clap::Args;

use crate::cli::GlobalOptions;
use crate::command_line::CommandArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::relay::relay;

/// Run a command on the server.
///
/// The command's output, standard input (unless it is a terminal), signals and exit code pass through, as if it ran here.
/// Ctrl-C ends it with everything it started: it gets SIGINT and 10 seconds; a second Ctrl-C kills it at once. If the
/// connection is lost the command goes on, and so does its output when the server is back.
///
/// With --json the result is printed as one document when the command has ended.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// Run it in this session's shell, which keeps its state; commands of one session wait for each other.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    command: CommandArgs,
}

pub(crate) async fn run(args: ExecArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let mut request = args.command.request();
    request.session_id = args.session;
    relay(&global.client()?, request, output).await
}
