//! Runs a program in a new terminal of the server and shows it here: `shell`, `exec -t`, `run -t` and `record`.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use sandcrab_api::execute::EndReason;
use sandcrab_api::terminal::{TerminalExitFrame, TerminalRequest};
use sandcrab_client::{Client, ClientError, KillOptions};
use serde_json::json;

use crate::end;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::{DetachKeys, LocalScreen, Outcome, View};

/// How long a server may take to delete a terminal after a signal.
const DELETE_TIMEOUT: Duration = Duration::from_secs(10);

/// A program in a terminal.
#[derive(Debug)]
pub(crate) struct Tty<'a> {
    pub(crate) client: &'a Client,
    pub(crate) request: TerminalRequest,
    pub(crate) detach_keys: DetachKeys,
    /// Whether keys are passed on.
    pub(crate) is_interactive: bool,
    /// Whether standard output is needed for something else, such as a recording.
    pub(crate) is_stdout_taken: bool,
    pub(crate) output: Output,
}

/// How the program ended, as far as this program has received it.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The id of the terminal.
    pub(crate) id: String,
    /// Whether this program has created the terminal. Another one, with an id that was given, is not deleted.
    pub(crate) is_own: bool,
    pub(crate) outcome: Outcome,
}

impl Tty<'_> {
    /// Runs the program until it ends or the user detaches; returns the exit code. The terminal is then deleted, unless the
    /// user has detached, or it existed before.
    pub(crate) async fn run(self, what: &str) -> Result<u8, Failure> {
        let (client, output) = (self.client, self.output);
        let finished = self.show(what).await?;
        if finished.is_own && !matches!(finished.outcome, Outcome::Detached) {
            delete(client, &finished.id).await;
        }
        finished.report(output)
    }

    /// The same without deleting the terminal and reporting the outcome.
    pub(crate) async fn show(self, what: &str) -> Result<Finished, Failure> {
        let mut screen = LocalScreen::open(what, self.is_stdout_taken || self.output.json)?;
        let mut request = self.request;
        if let Some((cols, rows)) = screen.size() {
            (request.cols, request.rows) = (Some(cols), Some(rows));
        }
        let is_id_given = request.id.is_some();
        let id = request.id.get_or_insert_with(new_id).clone();
        let created = tokio::select! {
            created = self.client.create_terminal(&request) => created?,
            number = screen.end_signal() => {
                // With an id that was given it may be another terminal, which existed before.
                if !is_id_given {
                    delete(self.client, &id).await;
                }
                return Ok(Finished { id, is_own: !is_id_given, outcome: Outcome::Signal(number) });
            }
        };
        let is_own = created.created;
        let view = View {
            client: self.client,
            id: &id,
            detach_keys: self.detach_keys,
            // A new terminal continues below what is on the screen; one that was already running is repainted.
            since: is_own.then_some(0),
            read_only: !self.is_interactive,
        };
        match screen.show(view).await {
            Ok(outcome) => Ok(Finished { id, is_own, outcome }),
            Err(failure) if is_lost(&failure) => Err(lost(&id, failure)),
            // The local terminal failed: without a viewer the program would run on, unknown to the user.
            Err(failure) => {
                if is_own {
                    delete(self.client, &id).await;
                }
                Err(failure)
            }
        }
    }
}

impl Finished {
    /// Prints what the exit code does not say; returns the exit code.
    pub(crate) fn report(&self, output: Output) -> Result<u8, Failure> {
        let id = &self.id;
        match &self.outcome {
            Outcome::Exited(exit) => {
                if output.json {
                    let TerminalExitFrame { exit_code, end, .. } = exit;
                    output.document(
                        &json!({ "id": id, "detached": false, "exitCode": exit_code, "end": end }),
                    )?;
                } else if !matches!(exit.end.reason, EndReason::Exited | EndReason::Signaled) {
                    output.note(&format!("the program {}", end::predicate(&exit.end)));
                }
                Ok(exit_code::of_command(exit.exit_code))
            }
            Outcome::Detached => {
                if output.json {
                    output.document(&json!({ "id": id, "detached": true }))?;
                } else {
                    // The cursor is where the program left it.
                    drop(output.error_bytes(b"\n"));
                    output.note(&format!(
                        "detached from {id}, which continues; attach again with `sandcrab attach {id}`"
                    ));
                }
                Ok(0)
            }
            Outcome::Signal(number) => Ok(128 + number),
        }
    }
}

/// Whether the server could not be reached any more.
fn is_lost(failure: &Failure) -> bool {
    matches!(failure, Failure::Client(ClientError::Unreachable { .. } | ClientError::ConnectionLost { .. }))
}

/// Adds to an error that the terminal may still be running.
pub(crate) fn lost(id: &str, failure: Failure) -> Failure {
    if !is_lost(&failure) {
        return failure;
    }
    failure.with_hint(format!("the terminal continues; attach again with `sandcrab attach {id}`"))
}

/// Ends a terminal that is no longer needed, with everything that it started. Its record stays.
pub(crate) async fn delete(client: &Client, id: &str) {
    let hang_up = KillOptions { signal: Some("SIGHUP".to_owned()), ..KillOptions::default() };
    // It may be gone, or the server may be.
    drop(tokio::time::timeout(DELETE_TIMEOUT, client.kill(id, &hang_up)).await);
}

/// An id that is short enough to be typed. 48 random bits: it is not that of another terminal.
fn new_id() -> String {
    let number = RandomState::new().hash_one((std::process::id(), SystemTime::now()));
    format!("t-{:012x}", number >> 16)
}
