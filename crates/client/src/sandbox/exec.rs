//! Commands whose end the caller awaits.

use std::mem;

use futures_util::Stream;
use sandcrab_api::event::ExecuteEvent;
use sandcrab_api::execute::CommandRequest;

use super::command::Command;
use super::scope::{Scope, bound};
use crate::key::new_key;
use crate::{Client, ClientError, Events, ExecResult, KillOptions};

impl Scope {
    /// Runs a command and waits for its end. A command that fails, or that a timeout ends, has a result, too. The command
    /// belongs to its caller: if this future is dropped, it ends ([`Command::kill_on_drop`]).
    pub async fn exec(&self, command: impl Into<Command>) -> Result<ExecResult, ClientError> {
        let command: Command = command.into();
        let repeats = !command.kills_on_drop;
        let request = bound!(self, command.awaited() => CommandRequest);
        if repeats {
            self.client().execute_once(&request).await
        } else {
            self.client().execute(&request).await
        }
    }

    /// Runs a program with arguments, which no shell interprets, and waits for its end.
    pub async fn exec_args(
        &self,
        program: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<ExecResult, ClientError> {
        self.exec(Command::program(program, args)).await
    }

    /// Runs a command and returns its output as it is written. The command is started once, and no output is lost or
    /// repeated, however often the connection is lost. If the stream is dropped before its end, the command ends
    /// ([`Command::kill_on_drop`]).
    pub async fn exec_stream(&self, command: impl Into<Command>) -> Result<ExecStream, ClientError> {
        let Command { request, kills_on_drop } = command.into();
        let mut request = bound!(self, request => CommandRequest);
        // The id is needed before the first event, to end the command.
        let id = request.execution_id.get_or_insert_with(|| format!("x-{}", &new_key()[..16])).clone();
        let events = self.client().execute_stream(&request).await?;
        let ending = kills_on_drop.then(|| Ending { client: self.client().clone(), id: id.clone() });
        Ok(ExecStream { id, events, ending })
    }

    /// The same for a program with arguments, which no shell interprets.
    pub async fn exec_stream_args(
        &self,
        program: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<ExecStream, ClientError> {
        self.exec_stream(Command::program(program, args)).await
    }
}

/// The output of a command as it is written. The last event is [`ExecuteEvent::Complete`].
///
/// ```no_run
/// # use sandcrab_client::{ClientError, Sandbox};
/// # use sandcrab_client::api::event::ExecuteEvent;
/// # async fn example(sandbox: Sandbox) -> Result<(), ClientError> {
/// let mut events = sandbox.exec_stream("make").await?;
/// while let Some(event) = events.next().await? {
///     match event {
///         ExecuteEvent::Stdout(output) => print!("{}", output.data),
///         ExecuteEvent::Stderr(output) => eprint!("{}", output.data),
///         ExecuteEvent::Complete(complete) => println!("exit code {}", complete.exit_code),
///         _ => (),
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct ExecStream {
    id: String,
    events: Events<ExecuteEvent>,
    ending: Option<Ending>,
}

impl ExecStream {
    /// The id of the command.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The cursor after the last event that was returned.
    pub fn cursor(&self) -> Option<&str> {
        self.events.cursor()
    }

    /// The next event; `None` after the last. A command that cannot be started is an error. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<ExecuteEvent>, ClientError> {
        match self.events.next().await? {
            Some(ExecuteEvent::Error(error)) => {
                self.forget();
                Err(ClientError::of_event(&error))
            }
            Some(event) => {
                if matches!(event, ExecuteEvent::Complete(_)) {
                    self.forget();
                }
                Ok(Some(event))
            }
            None => Ok(None),
        }
    }

    /// The same as a [`Stream`], which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<ExecuteEvent, ClientError>> {
        futures_util::stream::unfold(Some(self), async |events| {
            let mut events = events?;
            match events.next().await {
                Ok(Some(event)) => Some((Ok(event), Some(events))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// Stops reading, and lets the command continue. Returns its id.
    pub fn detach(mut self) -> String {
        self.forget();
        mem::take(&mut self.id)
    }

    fn forget(&mut self) {
        if let Some(ending) = &mut self.ending {
            ending.id.clear();
        }
    }
}

/// Ends a command when it is dropped, unless its id was cleared.
#[derive(Debug)]
struct Ending {
    client: Client,
    id: String,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let (client, id) = (self.client.clone(), mem::take(&mut self.id));
        if id.is_empty() {
            return;
        }
        // Outside of a runtime no request can be sent.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // The caller is gone, so it can neither wait for the end nor learn of a failure.
            runtime.spawn(async move { drop(client.kill(&id, &KillOptions::default()).await) });
        }
    }
}
