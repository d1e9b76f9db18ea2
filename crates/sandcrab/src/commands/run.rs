//! `sandcrab run`.

use clap::Args;
use sandcrab_api::execute::{CommandRequest, Leftovers};
use sandcrab_client::Client;

use crate::cli::GlobalOptions;
use crate::command_line::CommandArgs;
use crate::embedded::Embedded;
use crate::failure::Failure;
use crate::output::Output;
use crate::relay::{InputArg, relay};
use crate::terminal::DetachKeys;
use crate::terminal_args::{self, TtyArgs};
use crate::tty::Tty;

/// Run a command, on the running server if there is one, else on a temporary server.
///
/// Output, standard input (a file or a pipe), signals and the exit code pass through, as if the command ran here. Ctrl-C
/// sends SIGINT to the command and everything it started, and SIGKILL after 10 seconds; a second Ctrl-C kills at once.
///
/// On a running server (--url, or the default server) the command gets the server's working directory and environment. It
/// has a record (see `sandcrab ps --all`), and processes that it leaves running continue. A note on standard error names
/// that server. A temporary server runs the command in the current directory with this environment. It keeps nothing, and
/// processes that the command leaves running are killed.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Always use a temporary server, even if a server is running.
    #[arg(long)]
    pub(crate) standalone: bool,
    #[command(flatten)]
    input: InputArg,
    #[command(flatten)]
    tty: TtyArgs,
    #[command(flatten)]
    command: CommandArgs,
}

pub(crate) async fn run(args: RunArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let running = if args.standalone { None } else { global.connection().running().await? };
    if let Some(client) = running {
        let request = args.command.request(&client)?;
        output.note(&format!(
            "using the server at {}; --standalone runs the command without it",
            client.address()
        ));
        if args.tty.tty {
            let detach_keys = args.tty.detach_keys()?;
            return on_terminal(&client, request, args.input, detach_keys, output).await;
        }
        return relay(&client, request, args.input.into(), output).await;
    }
    let embedded = Embedded::start().await?;
    let ended = match args.command.request(embedded.client()) {
        Ok(request) if args.tty.tty => {
            // The terminal would end with the server: there is nothing to detach from.
            on_terminal(embedded.client(), request, args.input, DetachKeys::none(), output).await
        }
        Ok(mut request) => {
            request.leftovers = Some(Leftovers::Kill);
            relay(embedded.client(), request, args.input.into(), output).await
        }
        Err(failure) => Err(failure),
    };
    embedded.stop().await;
    ended
}

async fn on_terminal(
    client: &Client,
    request: CommandRequest,
    input: InputArg,
    detach_keys: DetachKeys,
    output: Output,
) -> Result<u8, Failure> {
    let request = terminal_args::of_command(request);
    let is_interactive = input.is_interactive();
    Tty { client, request, detach_keys, is_interactive, is_stdout_taken: false, output }.run("-t").await
}
