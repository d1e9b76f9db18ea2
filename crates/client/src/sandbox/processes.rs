//! Calls on processes.

use std::time::Duration;

use sandcrab_api::ErrorCode;
use sandcrab_api::event::ProcessEvent;
use sandcrab_api::execute::CommandRequest;
use sandcrab_api::process::{KillResponse, Process as ProcessInfo, ProcessLogs, ProcessStatus};

use super::command::Command;
use super::ending::{Ending, Started};
use super::process::Process;
use super::scope::{Scope, bound, known};
use crate::key::new_id;
use crate::{ClientError, Events, FollowOptions, KillOptions, LogOptions, ProcessFilter};

impl Scope {
    /// Starts a command in the background; returns when its program runs. It is started once, also if the connection is lost.
    /// If this future is dropped before it has returned, the process ends, unless the command has an id.
    pub async fn start_process(&self, command: impl Into<Command>) -> Result<Process, ClientError> {
        let mut request = bound!(self, command.into().request => CommandRequest);
        let chosen = match (&request.process_id, &request.execution_id) {
            (None, None) => Some(new_id("p")),
            _ => None,
        };
        request.process_id = request.process_id.or_else(|| chosen.clone());
        let grace = request.grace_ms.map(Duration::from_millis);
        let ending = Ending::new(self.client(), chosen.map(|id| Started::Execution { id, grace }));
        let started = ending.answered(self.client().start_process(&request).await)?;
        let info = ProcessInfo {
            id: started.process_id,
            pid: started.pid,
            command: started.command,
            status: ProcessStatus::Running,
            start_time: started.timestamp,
            end_time: None,
            exit_code: None,
            end: None,
            session_id: request.session_id,
            background: true,
            waiting: None,
            usage: None,
            leftovers: None,
            leftover_count: None,
            metrics: None,
        };
        Ok(Process::new(self.client().clone(), info))
    }

    /// The same for a program with arguments, which no shell interprets.
    pub async fn start_process_args(
        &self,
        program: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Process, ClientError> {
        self.start_process(Command::program(program, args)).await
    }

    /// The processes, the oldest first; those of a session only its own.
    pub async fn list_processes(&self) -> Result<Vec<Process>, ClientError> {
        let session_id = self.session_of(None);
        let list = self.client().processes(&ProcessFilter { session_id, ..ProcessFilter::default() }).await?;
        Ok(list.processes.into_iter().map(|info| Process::new(self.client().clone(), info)).collect())
    }

    /// A process; `None` if it is unknown, or belongs to another session than this.
    pub async fn process(&self, id: &str) -> Result<Option<Process>, ClientError> {
        let found = known(self.client().process(id).await, ErrorCode::ProcessNotFound)?;
        let is_mine =
            |info: &ProcessInfo| self.session_id().is_none_or(|id| info.session_id.as_deref() == Some(id));
        Ok(found.filter(is_mine).map(|info| Process::new(self.client().clone(), info)))
    }

    /// Ends a process and everything it started.
    pub async fn kill_process(&self, id: &str) -> Result<KillResponse, ClientError> {
        self.client().kill(id, &KillOptions::default()).await
    }

    /// Ends every process, or those of the session. Returns how many.
    pub async fn kill_all_processes(&self) -> Result<usize, ClientError> {
        Ok(self.client().kill_all(self.session_id()).await?.cleaned_count)
    }

    /// Removes the records of finished processes. Returns how many.
    pub async fn cleanup_completed_processes(&self) -> Result<usize, ClientError> {
        Ok(self.client().clean_up().await?.cleaned_count)
    }

    /// The output of a process so far.
    pub async fn process_logs(&self, id: &str, options: &LogOptions) -> Result<ProcessLogs, ClientError> {
        self.client().logs(id, options).await
    }

    /// Follows the output of a process until it ends.
    pub async fn stream_process_logs(
        &self,
        id: &str,
        options: &FollowOptions,
    ) -> Result<Events<ProcessEvent>, ClientError> {
        self.client().follow(id, options).await
    }
}
