//! Commands whose end the caller awaits.

use std::mem;
use std::time::Duration;

use futures_util::Stream;
use sandcrab_api::event::ExecuteEvent;
use sandcrab_api::execute::CommandRequest;

use super::command::Command;
use super::ending::{Ending, Started};
use super::scope::{Scope, bound};
use crate::key::new_id;
use crate::{ClientError, Events, ExecResult};

impl Scope {
    /// Runs a command and waits for its end. A command that fails, or that a timeout ends, has a result, too. The command
    /// belongs to its caller: if this future is dropped, it ends ([`Command::kill_on_drop`]).
    pub async fn exec(&self, command: impl Into<Command>) -> Result<ExecResult, ClientError> {
        let command = command.into();
        let kills_on_drop = command.kills_on_drop;
        let mut request = bound!(self, command.awaited() => CommandRequest);
        // The server does not notice the drop while there is no connection. A chosen id may be that of another command.
        let chosen = (kills_on_drop && given_id(&request).is_none()).then(|| new_id("x"));
        request.execution_id = request.execution_id.or_else(|| chosen.clone());
        let started = chosen.map(|id| Started::Execution { id, grace: grace(&request) });
        let ending = Ending::new(self.client(), started);
        ending.answered(self.client().execute_once(&request).await)
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
    /// ([`Command::kill_on_drop`]). A command with an id does not end if this future is dropped before it has returned.
    pub async fn exec_stream(&self, command: impl Into<Command>) -> Result<ExecStream, ClientError> {
        let Command { request, kills_on_drop } = command.into();
        let mut request = bound!(self, request => CommandRequest);
        let given = given_id(&request).map(str::to_owned);
        let is_given = given.is_some();
        // The id is needed before the first event, to end the command.
        let id = given.unwrap_or_else(|| new_id("x"));
        request.execution_id.get_or_insert_with(|| id.clone());
        let started = kills_on_drop.then(|| Started::Execution { id: id.clone(), grace: grace(&request) });
        let mut ending = Ending::new(self.client(), started);
        if is_given {
            ending = ending.unconfirmed();
        }
        let opened = self.client().execute_stream(&request).await;
        match &opened {
            Ok(events) if events.is_connected() => ending.confirm(),
            Ok(_) => (),
            Err(_) => ending.note(&opened),
        }
        Ok(ExecStream { id, events: opened?, ending })
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

/// The id that the caller has chosen.
fn given_id(request: &CommandRequest) -> Option<&str> {
    request.execution_id.as_deref().or(request.process_id.as_deref())
}

fn grace(request: &CommandRequest) -> Option<Duration> {
    request.grace_ms.map(Duration::from_millis)
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
    ending: Ending,
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
        let event = self.events.next().await;
        match &event {
            Ok(_) => self.ending.confirm(),
            Err(_) => self.ending.note(&event),
        }
        match event? {
            Some(ExecuteEvent::Error(error)) => {
                self.ending.forget();
                Err(ClientError::of_event(&error))
            }
            Some(event) => {
                if matches!(event, ExecuteEvent::Complete(_)) {
                    self.ending.forget();
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
        self.ending.forget();
        mem::take(&mut self.id)
    }
}
