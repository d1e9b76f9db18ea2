//! What can be written on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use sandcrab_client::Client;

use crate::commands;
use crate::connection::Connection;
use crate::failure::Failure;

/// Runs commands in a sandbox: the server, and the command line to use it.
///
/// A server keeps what it runs, and every byte it wrote, for whoever asks by its id: `sandcrab serve` starts one, and
/// the other commands use it. `sandcrab run` also works without.
#[derive(Debug, Parser)]
#[command(name = "sandcrab", bin_name = "sandcrab", version, after_long_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The summary; `docs/exit-codes.md` has every error by name.
const EXIT_CODES: &str = "\
Exit codes:
  run, exec, session exec and wait end with the exit code of the command: its own, 128 + n if it
  died of signal n, 124 if it took longer than its timeout. Beside that:
    2    the command line makes no sense
    64   the request makes no sense
    65   there is no such process, session, program or file
    66   something is in the way: the id is taken, standard input is closed, the shell has ended
    69   the server cannot be reached, or is stopping
    70   an error of the server's own
    74   standard input or output failed
    75   too many, too large or too late: try again later
    76   the answer makes no sense: it may not come from a Sandcrab server
    77   not permitted: the token is missing or wrong
    130  ended by Ctrl-C; 129, 143 by SIGHUP, SIGTERM
    141  nobody reads standard output any more";

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct GlobalOptions {
    /// The server's address: http://HOST:PORT or unix:PATH.
    ///
    /// By default that of the server that runs on the default state directory, else http://127.0.0.1:7070.
    #[arg(long, global = true, value_name = "URL", env = "SANDCRAB_URL", help_heading = "Global options")]
    pub(crate) url: Option<String>,
    /// The file with the server's token.
    ///
    /// By default the token is taken from the variable SANDCRAB_TOKEN, or, for a server on this machine, from the default
    /// state directory: $SANDCRAB_STATE_DIR, $XDG_STATE_HOME/sandcrab, ~/.local/state/sandcrab, or for root
    /// /var/lib/sandcrab.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "SANDCRAB_TOKEN_FILE",
        help_heading = "Global options"
    )]
    pub(crate) token_file: Option<PathBuf>,
    /// Print JSON: one document, or one a line where it is a stream; errors too.
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
}

impl GlobalOptions {
    /// How to find the server.
    pub(crate) fn connection(&self) -> Connection<'_> {
        Connection { url: self.url.as_deref(), token_file: self.token_file.as_deref() }
    }

    /// A client of the server.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        self.connection().client()
    }
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<commands::serve::ServeArgs>),
    Run(commands::run::RunArgs),
    Exec(commands::exec::ExecArgs),
    Ps(commands::ps::PsArgs),
    Logs(commands::logs::LogsArgs),
    Kill(commands::kill::KillArgs),
    Wait(commands::wait::WaitArgs),
    Session(commands::session::SessionArgs),
    Health(commands::health::HealthArgs),
    Completions(commands::completions::CompletionsArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        super::Cli::command().debug_assert();
    }
}
