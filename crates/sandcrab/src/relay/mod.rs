//! A command on a server, as if it ran here: its output, standard input, signals and exit code pass through.
//!
//! Three things happen at once, and none waits for another: what the command writes is shown ([`show`]), what comes in is
//! passed on (`stdin`), and signals become requests to end it (`interrupts`). The id is ours, so that the command can be
//! ended before the server has said anything about it.

mod interrupts;
mod stdin;

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use sandcrab_api::event::{CompleteEvent, ExecuteEvent};
use sandcrab_api::execute::{CommandRequest, Encoding, ExecuteResult, Overflow};
use sandcrab_client::{Client, KillOptions, LogOptions};
use tokio::sync::watch;

use crate::failure::Failure;
use crate::output::Output;
use interrupts::{Interrupts, Leave};
use stdin::Stdin;

/// How far a command has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    /// Its request is on its way.
    Sent,
    /// The server has it; in a session it may wait for its turn.
    Accepted,
    /// It runs.
    Running,
}

/// Runs a command and returns its exit code; with JSON, prints the result instead of the output.
pub(crate) async fn relay(
    client: &Client,
    mut request: CommandRequest,
    output: Output,
) -> Result<u8, Failure> {
    let id = request.execution_id.get_or_insert_with(new_id).clone();
    // Exact bytes, whatever they are.
    request.encoding = Some(Encoding::Base64);
    // A slow reader of ours must not lose any.
    request.overflow = Some(Overflow::Wait).filter(|_| !output.json);
    let stdin = Stdin::of_this_program();
    request.keep_stdin_open = stdin.is_some().then_some(true);
    let interrupts = Interrupts::listen()?;
    let interrupted = Cell::new(None);
    let (progress, watched) = watch::channel(Progress::Sent);
    let shown = tokio::select! {
        shown = show(client, &request, &progress, output) => shown,
        leave = interrupts.pass_on(client, &id, watched.clone(), &interrupted) => {
            if leave == Leave::NoServer {
                output.note("the server cannot be reached; the command may go on");
            }
            return Ok(interrupted.get().unwrap_or(0));
        }
        failure = stdin::pass_on(stdin, client, &id, watched) => Err(failure),
    };
    match shown {
        // Whatever it made of the signal: who sent it wants to see that it worked.
        Ok(_) if let Some(code) = interrupted.get() => Ok(code),
        Ok(Shown { missing, .. }) if missing > 0 => Err(Failure::missing(missing)),
        Ok(Shown { complete, .. }) => {
            let code = u8::try_from(complete.exit_code & 0xff).unwrap_or(u8::MAX);
            if output.json {
                output.document(&result(client, &request, *complete).await?)?;
            }
            Ok(code)
        }
        // It cannot be heard any more: nobody would know what it does.
        Err(failure @ (Failure::BrokenPipe | Failure::Own { .. })) => {
            let options = KillOptions { signal: Some("SIGPIPE".into()), grace: None };
            // It may have ended by itself.
            drop(client.kill(&id, &options).await);
            Err(failure)
        }
        Err(failure) => Err(failure),
    }
}

/// An id that nothing else has.
fn new_id() -> String {
    let part = || RandomState::new().hash_one(std::time::SystemTime::now());
    format!("cli-{:016x}", part())
}

/// What was shown of a command.
#[derive(Debug)]
struct Shown {
    complete: Box<CompleteEvent>,
    /// How many bytes of its output the server did not keep.
    missing: u64,
}

/// Starts the command and writes what it writes, until it ends.
async fn show(
    client: &Client,
    request: &CommandRequest,
    progress: &watch::Sender<Progress>,
    output: Output,
) -> Result<Shown, Failure> {
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
            // With JSON the result has the head and the tail, and says what is missing.
            ExecuteEvent::Gap(_) if output.json => (),
            ExecuteEvent::Gap(gap) => {
                missing += gap.to.saturating_sub(gap.from);
                output.note(&gap_note(gap.from, gap.to));
            }
            ExecuteEvent::Complete(complete) => return Ok(Shown { complete, missing }),
            ExecuteEvent::Error(error) => return Err(Failure::Event(error)),
        }
    }
    Err(Failure::Own { message: "the stream ended without an end".into(), hint: None, exit_code: 70 })
}

/// What is said about output that is not there any more.
pub(crate) fn gap_note(from: u64, to: u64) -> String {
    format!("{} bytes of output are missing: the server did not keep them", to.saturating_sub(from))
}

/// Writes on a thread of its own: a terminal that is held, or a pipe that nobody reads, must not keep signals from
/// being heard.
pub(crate) async fn write(
    write: impl FnOnce() -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    match tokio::task::spawn_blocking(write).await {
        Ok(written) => written,
        Err(e) => Err(std::io::Error::other(e).into()),
    }
}

/// The result as one document. The stream has told how it ended; what it wrote is asked for as text.
async fn result(
    client: &Client,
    request: &CommandRequest,
    complete: CompleteEvent,
) -> Result<ExecuteResult, Failure> {
    let CompleteEvent { end, usage, result, .. } = complete;
    let options = LogOptions { encoding: Some(Encoding::Utf8), ..LogOptions::default() };
    let logs = client.logs(&result.execution_id, &options).await?;
    Ok(ExecuteResult {
        stdout: logs.stdout,
        stderr: logs.stderr,
        invalid_utf8: logs.invalid_utf8,
        success: result.success,
        exit_code: result.exit_code,
        encoding: None,
        command: result.command,
        args: request.args.clone(),
        duration: result.duration,
        timestamp: result.timestamp,
        session_id: result.session_id,
        execution_id: result.execution_id,
        end,
        usage,
        truncated: logs.truncated,
        leftovers: result.leftovers,
        leftover_count: result.leftover_count,
        session_restarted: result.session_restarted,
        restored_state_age: result.restored_state_age,
        restored_from: result.restored_from,
        shell_ended: result.shell_ended,
        cursor: logs.cursor,
        replaced: None,
    })
}
