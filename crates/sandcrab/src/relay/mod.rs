//! Runs a command on a server as if it ran here: output, standard input, signals and the exit code pass through.
//!
//! Three tasks run at the same time: output of the command is printed ([`show`]), standard input is passed on (`stdin`),
//! and signals become requests to end the command (`interrupts`). This program chooses the execution id, so that it can
//! end the command before the server has answered. At the end, `explain` prints what the exit code does not say.

mod explain;
mod interrupts;
mod result;
mod stdin;

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::io::IsTerminal;

use sandcrab_api::ErrorCode;
use sandcrab_api::event::{CompleteEvent, ExecuteEvent};
use sandcrab_api::execute::{CommandRequest, Encoding, Overflow};
use sandcrab_client::{Client, KillOptions};
use tokio::sync::watch;

use crate::exit_code;
use crate::failure::Failure;
use crate::interactive;
use crate::output::Output;
use interrupts::{EarlyExit, Interrupts};
pub(crate) use stdin::Stdin;

/// The progress of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    /// Its request was sent.
    Sent,
    /// The server has accepted it. In a session it may be queued.
    Accepted,
    /// It is running.
    Running,
}

/// What is passed to the command as standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// Standard input of this program, unless it is a terminal or `/dev/null`.
    UnlessTerminal,
    /// Standard input of this program, also of a terminal (`-i`).
    Always,
}

/// `-i`.
#[derive(Debug, clap::Args)]
pub(crate) struct InputArg {
    /// Pass standard input to the command even if it is a terminal: line by line, until Ctrl-D. Otherwise only a file or
    /// a pipe is passed.
    #[arg(short, long)]
    interactive: bool,
}

impl InputArg {
    pub(crate) fn is_interactive(&self) -> bool {
        self.interactive
    }
}

impl From<InputArg> for Input {
    fn from(arg: InputArg) -> Self {
        if arg.interactive { Self::Always } else { Self::UnlessTerminal }
    }
}

/// Runs a command and returns the exit code. With JSON, prints the result instead of the output.
pub(crate) async fn relay(
    client: &Client,
    mut request: CommandRequest,
    input: Input,
    output: Output,
) -> Result<u8, Failure> {
    let id = request.execution_id.get_or_insert_with(new_id).clone();
    // Exact bytes.
    request.encoding = Some(Encoding::Base64);
    // A slow reader of this program's output must not lose any.
    request.overflow = Some(Overflow::Wait).filter(|_| !output.json);
    let stdin = match input {
        Input::Always => Some(Stdin::open()),
        Input::UnlessTerminal => Stdin::unless_terminal(),
    };
    if stdin.is_none() && std::io::stdin().is_terminal() {
        interactive::check(&request)?;
    }
    request.keep_stdin_open = stdin.is_some().then_some(true);
    let interrupts = Interrupts::listen(output)?;
    let interrupted = Cell::new(None);
    let (progress, watched) = watch::channel(Progress::Sent);
    let shown = tokio::select! {
        shown = show(client, &request, &progress, output) => shown,
        leave = interrupts.pass_on(client, &id, watched.clone(), &interrupted) => {
            if leave == EarlyExit::NoServer {
                output.note("the server cannot be reached; the command may still be running");
            }
            return Ok(interrupted.get().unwrap_or(0));
        }
        failure = stdin::pass_on(stdin, client, &id, watched) => Err(failure),
    };
    match shown {
        // The exit code reports the signal that this program received, whatever the command made of it.
        Ok(_) if let Some(code) = interrupted.get() => Ok(code),
        Err(Failure::Event(_)) if let Some(code) = interrupted.get() => Ok(code),
        Ok(PrintedOutput { missing, .. }) if missing > 0 => Err(Failure::missing(missing)),
        Ok(PrintedOutput { complete, .. }) => {
            let code = exit_code::of_command(complete.exit_code);
            if output.json {
                output.document(&result::completed(client, &request, *complete).await?)?;
            } else {
                explain::notes(&request, &complete).iter().for_each(|note| output.note(note));
            }
            Ok(code)
        }
        Err(Failure::Event(event)) if event.code == ErrorCode::SessionTerminated => {
            let code = event.exit_code.map_or(exit_code::UNKNOWN, exit_code::of_command);
            if output.json {
                output.document(&result::shell_ended(client, &request, &id, event).await?)?;
            } else {
                output.note(&explain::shell_ended_note(code.into()));
            }
            Ok(code)
        }
        // Its output has no reader any more.
        Err(failure @ (Failure::BrokenPipe | Failure::Local { .. })) => {
            let options = KillOptions { signal: Some("SIGPIPE".into()), grace: None };
            // It may have ended by itself.
            drop(client.kill(&id, &options).await);
            Err(failure)
        }
        Err(failure) => Err(failure),
    }
}

/// A unique id.
fn new_id() -> String {
    let part = || RandomState::new().hash_one(std::time::SystemTime::now());
    format!("cli-{:016x}", part())
}

/// A command whose output has been printed.
#[derive(Debug)]
struct PrintedOutput {
    complete: Box<CompleteEvent>,
    /// Bytes of output that the server has dropped.
    missing: u64,
}

/// Starts the command and prints its output until it ends.
async fn show(
    client: &Client,
    request: &CommandRequest,
    progress: &watch::Sender<Progress>,
    output: Output,
) -> Result<PrintedOutput, Failure> {
    let mut events = client.execute_stream(request).await?;
    progress.send_replace(Progress::Accepted);
    let mut missing = 0;
    while let Some(event) = events.next().await? {
        match event {
            ExecuteEvent::Start(_) => drop(progress.send_replace(Progress::Running)),
            ExecuteEvent::Stdout(_) | ExecuteEvent::Stderr(_) if output.json => (),
            ExecuteEvent::Stdout(event) => {
                let bytes = client.decode(&event.data)?;
                write(move || output.bytes(&bytes)).await?;
            }
            ExecuteEvent::Stderr(event) => {
                let bytes = client.decode(&event.data)?;
                write(move || output.error_bytes(&bytes)).await?;
            }
            // With JSON the result has the head and the tail, and the number of bytes between them.
            ExecuteEvent::Gap(_) if output.json => (),
            ExecuteEvent::Gap(gap) => {
                missing += gap.to.saturating_sub(gap.from);
                output.note(&gap_note(gap.from, gap.to));
            }
            ExecuteEvent::Complete(complete) => return Ok(PrintedOutput { complete, missing }),
            ExecuteEvent::Error(error) => return Err(Failure::Event(error)),
        }
    }
    Err(Failure::incomplete_stream())
}

/// The note on output that the server has dropped.
pub(crate) fn gap_note(from: u64, to: u64) -> String {
    format!("{} bytes of output were dropped by the server and are missing here", to.saturating_sub(from))
}

/// Writes on a thread of its own: a stopped terminal or a full pipe must not delay the handling of signals.
pub(crate) async fn write(
    write: impl FnOnce() -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    match tokio::task::spawn_blocking(write).await {
        Ok(written) => written,
        Err(e) => Err(std::io::Error::other(e).into()),
    }
}
