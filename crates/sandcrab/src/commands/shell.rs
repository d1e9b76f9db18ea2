//! `sandcrab shell`.

use clap::Args;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal_args::{DetachKeysArg, NewTerminalArgs, ProgramWords};
use crate::tty::Tty;

/// Open a shell, or run a program, in a terminal on the server.
///
/// Keys, colours, the size of the window and the exit code pass through, as with `ssh`. If the connection is lost or the server
/// is restarted, the program continues, and its screen comes back. The detach keys, ctrl-p ctrl-q, leave the terminal running:
/// `sandcrab attach ID` shows it again. Otherwise the terminal is deleted at the end, with everything that it started, unless
/// it was already running.
///
/// With --json, how the program ended is printed as one document at the end.
#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    terminal: NewTerminalArgs,
    #[command(flatten)]
    detach: DetachKeysArg,
    #[command(flatten)]
    words: ProgramWords,
}

pub(crate) async fn run(args: ShellArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let tty = Tty {
        client: &client,
        request: args.terminal.request(args.words, &client)?,
        detach_keys: args.detach.detach_keys,
        is_interactive: true,
        is_stdout_taken: false,
        output,
    };
    tty.run("`sandcrab shell`").await
}
