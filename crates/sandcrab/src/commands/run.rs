//! `sandcrab run`.

use clap::Args;
use sandcrab_api::execute::Leftovers;

use crate::cli::GlobalOptions;
use crate::command_line::CommandArgs;
use crate::embedded::Embedded;
use crate::failure::Failure;
use crate::output::Output;
use crate::relay::relay;

/// Run a command, on the server if there is one, else on one of its own.
///
/// The command's output, standard input (unless it is a terminal), signals and exit code pass through, as if it ran here.
/// Ctrl-C ends it with everything it started: it gets SIGINT and 10 seconds; a second Ctrl-C kills it at once.
///
/// Without --url, and where no default server runs, a server is started for this one command: it works in the current
/// folder with this environment, keeps nothing, and what the command leaves running ends with it. On a server that runs, the
/// command gets the server's folder and environment, has a record (see `ps --all`), and what it leaves running goes on.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    command: CommandArgs,
}

pub(crate) async fn run(args: RunArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let mut request = args.command.request();
    if let Some(client) = global.connection().running().await? {
        return relay(&client, request, output).await;
    }
    request.leftovers = Some(Leftovers::Kill);
    let embedded = Embedded::start().await?;
    let ended = relay(embedded.client(), request, output).await;
    embedded.stop().await;
    ended
}
