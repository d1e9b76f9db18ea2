//! `sandcrab exec`.

use clap::{Args, ValueEnum};
use sandcrab_api::execute::{CommandRequest, OnDisconnect};

use crate::cli::GlobalOptions;
use crate::command_line::{CommandArgs, RecordArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::relay::{InputArg, relay};
use crate::terminal_args::{self, TtyArgs};
use crate::tty::Tty;

/// Run a command on the server.
///
/// Output, standard input (a file or a pipe), signals and the exit code pass through, as if the command ran here. Ctrl-C
/// sends SIGINT to the command and everything it started, and SIGKILL after 10 seconds; a second Ctrl-C kills at once. If
/// the connection is lost the command continues, and its output resumes when the server is back.
///
/// With -it the command runs in a terminal: programs such as editors and shells work, and keys go to the command, Ctrl-C
/// included.
///
/// With --json, the result is printed as one document when the command has ended.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// Run the command in the shell of this session. Commands of one session run one after the other. With -t it runs in
    /// a new shell with the state of the session, which does not change.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    options: ExecOptions,
}

/// Options of `exec` and `session exec`.
#[derive(Debug, Args)]
pub(crate) struct ExecOptions {
    #[command(flatten)]
    input: InputArg,
    #[command(flatten)]
    tty: TtyArgs,
    #[command(flatten)]
    record: RecordArgs,
    /// What happens to the command if this program is killed or loses its connection [default: keep].
    #[arg(long, value_name = "ACTION", conflicts_with = "tty")]
    on_disconnect: Option<EndPolicy>,
    #[command(flatten)]
    command: CommandArgs,
}

/// What happens to a command when what it belongs to ends.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum EndPolicy {
    Keep,
    Kill,
}

pub(crate) async fn run(args: ExecArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    args.options.run(args.session, global, output).await
}

impl ExecOptions {
    /// Runs the command, in a session if one is given.
    pub(crate) async fn run(
        self,
        session: Option<String>,
        global: &GlobalOptions,
        output: Output,
    ) -> Result<u8, Failure> {
        let client = global.client()?;
        let request = CommandRequest {
            session_id: session,
            execution_id: self.record.id,
            leftovers: self.record.leftovers.map(Into::into),
            on_disconnect: self.on_disconnect.map(|action| match action {
                EndPolicy::Keep => OnDisconnect::Keep,
                EndPolicy::Kill => OnDisconnect::Kill,
            }),
            ..self.command.request(&client)?
        };
        if self.tty.tty {
            let tty = Tty {
                client: &client,
                request: terminal_args::of_command(request),
                detach_keys: self.tty.detach_keys()?,
                is_interactive: self.input.is_interactive(),
                is_stdout_taken: false,
                output,
            };
            return tty.run("-t").await;
        }
        relay(&client, request, self.input.into(), output).await
    }
}
