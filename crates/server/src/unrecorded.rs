//! [`Unrecorded`]: an execution of the server itself, whose record is removed at its end.
//!
//! Its note says so. If the server is killed before, the next one ends it and removes the record.

use std::sync::Arc;
use std::time::Duration;

use sandcrab_engine::{CommandSpec, ControlError, End, Execution, Output, ReadError, StartError};
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;

use crate::app::App;
use crate::error::ApiError;
use crate::note::{self, ExecutionNote};

/// Time before a record that is in use, or that cannot be removed, is tried again. It doubles with each try.
const RETRY_AFTER: Duration = Duration::from_millis(50);
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5);
/// Time that a finished execution has to close its output. Processes that it left behind may keep it open.
const CLOSE_TIME: Duration = Duration::from_secs(1);
const SIGKILL: i32 = 9;

/// What happens to the execution if no caller waits for its end any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Abandoned {
    /// It continues.
    Continues,
    /// It is ended.
    Ends,
}

/// An execution whose record is removed at its end, also if this is dropped before.
#[derive(Debug)]
pub(crate) struct Unrecorded(Option<Running>);

#[derive(Debug)]
struct Running {
    app: App,
    execution: Execution,
    abandoned: Abandoned,
    /// Free after the end.
    permit: Option<OwnedSemaphorePermit>,
}

impl Unrecorded {
    /// Starts a command. If the caller is cancelled meanwhile, the command counts as abandoned.
    pub(crate) async fn start(
        app: &App,
        mut spec: CommandSpec,
        abandoned: Abandoned,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Self, ApiError> {
        let mut note = note::read::<ExecutionNote>(spec.note.as_deref());
        note.is_unrecorded = true;
        note.ends_with_server = abandoned == Abandoned::Ends;
        spec.note = Some(note::write(&note));
        let app = App::clone(app);
        let starting = {
            let app = App::clone(&app);
            async move {
                let execution = app.sandbox.engine.start(spec).await?;
                Ok::<_, StartError>(Self(Some(Running { app, execution, abandoned, permit })))
            }
        };
        // A task of its own: a start that is cancelled may have happened, and its record would stay.
        Ok(app.tasks.spawn(starting.in_current_span()).await.map_err(ApiError::internal)??)
    }

    fn execution(&self) -> Result<&Execution, StartError> {
        self.0.as_ref().map(|running| &running.execution).ok_or(StartError::Lost)
    }

    /// Waits for its end.
    pub(crate) async fn wait(&self) -> Result<Arc<End>, StartError> {
        self.execution()?.wait().await
    }

    /// Its output so far, at most this many bytes per stream.
    pub(crate) fn output(&self, limit: usize) -> Result<Output, ReadError> {
        match &self.0 {
            Some(running) => running.execution.output(limit),
            None => Ok(Output::default()),
        }
    }

    /// The execution, to follow its output.
    pub(crate) fn followed(&self) -> Result<&Execution, ApiError> {
        Ok(self.execution()?)
    }

    /// Removes the record of an execution that has ended. If it is in use, this is done later.
    pub(crate) async fn finish(mut self) {
        if let Some(running) = &self.0 {
            // The end is known a moment before the record can be removed.
            drop(tokio::time::timeout(CLOSE_TIME, running.execution.wait_closed()).await);
            if running.try_remove() {
                self.0 = None;
            }
        }
    }
}

impl Running {
    /// Returns whether the record is gone.
    fn try_remove(&self) -> bool {
        match self.app.sandbox.engine.forget(self.execution.id()) {
            Ok(_) => true,
            Err(
                ControlError::Running
                | ControlError::InUse
                | ControlError::NotStarted
                | ControlError::Os { .. },
            ) => false,
            // There is none.
            Err(_) => true,
        }
    }

    /// Ends the execution or waits for its end, and removes the record. A server that stops leaves the rest to the next one.
    async fn remove(mut self) {
        let stopping = self.app.stopping.clone();
        let work = async {
            if self.abandoned == Abandoned::Ends {
                // It may have ended.
                drop(self.execution.kill(SIGKILL, Duration::ZERO).await);
            }
            drop(self.execution.wait().await);
            self.permit = None;
            let mut pause = RETRY_AFTER;
            while !self.try_remove() {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(MAX_RETRY_AFTER);
            }
        };
        tokio::select! {
            () = work => {}
            () = stopping.cut_off() => {}
        }
    }
}

impl Drop for Unrecorded {
    fn drop(&mut self) {
        // Without a runtime the process ends.
        if let (Some(running), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            let tasks = running.app.tasks.clone();
            tasks.spawn_on(running.remove(), &runtime);
        }
    }
}

/// Ends or awaits the executions of this kind that an earlier server has left, and removes their records.
pub(crate) fn adopt(app: &App) {
    for execution in app.sandbox.engine.executions() {
        let note = note::read::<ExecutionNote>(execution.info().note.as_deref());
        if note.is_unrecorded {
            let abandoned = if note.ends_with_server { Abandoned::Ends } else { Abandoned::Continues };
            let running = Running { app: App::clone(app), execution, abandoned, permit: None };
            app.tasks.spawn(running.remove());
        }
    }
}
