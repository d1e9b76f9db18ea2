//! [`Task`]: the owner of a service. It alone changes the record.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sandcrab_api::event::ServerEvent;
use sandcrab_api::service::{ServiceChangeEvent, ServiceExecution, ServiceState};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_engine::{CommandSpec, End, EndReason, Execution, KillReceipt, Status};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::check::{Checker, Probe};
use super::definition::{Definition, command};
use super::ending::{AfterEnd, EndReply, PendingEnd};
use super::health::HealthTracker;
use super::policy::{Outcome, RestartDecision};
use super::record::{self, Phase, Record, Store};
use super::registry::Handle;
use super::snapshot::{ObservedHealth, elapsed, remaining, snapshot};
use crate::app::App;
use crate::convert;
use crate::error::ApiError;
use crate::input::find_session;
use crate::launch::{self, Kind};
use crate::note::SessionNote;

/// Time before a start whose record could not be written is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A request of a client.
#[derive(Debug)]
pub(super) enum Command {
    /// Ends the current execution.
    End { then: AfterEnd, signal: i32, grace: Duration, reply: EndReply },
    /// Ends the current execution, and then the task without touching the record, which another task writes. If that one
    /// fails, it sends where to report that the record is as it was.
    Replace { reply: EndReply, put_back: oneshot::Receiver<oneshot::Sender<()>> },
}

/// The service whose id a new one has, until the first start of that.
#[derive(Debug)]
pub(super) struct Former {
    handle: Arc<Handle>,
    put_back: oneshot::Sender<oneshot::Sender<()>>,
}

impl Former {
    /// Takes the place of a service.
    async fn replace(handle: Arc<Handle>) -> Self {
        let (put_back, receiver) = oneshot::channel();
        handle.replace(receiver).await;
        Self { handle, put_back }
    }

    /// Lets it continue, with its record. Returns false if it has ended.
    async fn put_back(self, id: &str, new: &Arc<Handle>, app: &App) -> bool {
        let (done, is_done) = oneshot::channel();
        if self.put_back.send(done).is_err() || is_done.await.is_err() {
            return false;
        }
        app.services.put_back(id, new, self.handle);
        true
    }
}

/// Why another execution begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Required by the policy after the end of the last one.
    Policy,
    /// Requested by a client.
    Request,
}

/// The owner of a service.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) app: App,
    pub(super) record: Record,
    definition: Definition,
    store: Store,
    pub(super) handle: Arc<Handle>,
    pub(super) commands: mpsc::Receiver<Command>,
    /// The current execution.
    execution: Option<Execution>,
    observed: ObservedHealth,
    /// The reply to the request that created the service, until the first start.
    pub(super) begun: Option<oneshot::Sender<Result<(), ApiError>>>,
    replaces: Option<Arc<Handle>>,
    pub(super) former: Option<Former>,
    /// Accepted requests to end the current execution.
    pub(super) pending: Vec<PendingEnd>,
    /// The phase before the current end, if nothing ran in it.
    pub(super) idle_before: Option<Phase>,
    /// Requests that wait for the next execution.
    pub(super) restarting: Vec<(EndReply, KillReceipt)>,
    /// Whether the task ends.
    pub(super) is_over: bool,
    pub(super) is_removed: bool,
}

impl Task {
    pub(super) fn new(
        app: &App,
        record: Record,
        definition: Definition,
        handle: Arc<Handle>,
        commands: mpsc::Receiver<Command>,
    ) -> Self {
        Self {
            app: App::clone(app),
            store: Store::new(app.sandbox.state_dir.clone()),
            record,
            definition,
            handle,
            commands,
            execution: None,
            observed: ObservedHealth::default(),
            begun: None,
            replaces: None,
            former: None,
            pending: Vec::new(),
            idle_before: None,
            restarting: Vec::new(),
            is_over: false,
            is_removed: false,
        }
    }

    /// For a new service: the reply to its request, and the service that had its id.
    pub(super) fn begins(
        &mut self,
        reply: oneshot::Sender<Result<(), ApiError>>,
        replaces: Option<Arc<Handle>>,
    ) {
        (self.begun, self.replaces) = (Some(reply), replaces);
    }

    /// Runs until the service is removed or the server stops.
    pub(super) async fn run(mut self) {
        if let Some(replaced) = self.replaces.take() {
            self.former = Some(Former::replace(replaced).await);
        }
        if self.begun.is_some()
            && let Err(error) = self.save().await
        {
            self.refuse(record::failed(&error)).await;
        }
        while !self.is_over && !self.app.stopping.is_stopping() {
            match self.record.phase {
                Phase::Starting => self.start().await,
                Phase::Running { started_at } => self.watch(started_at).await,
                Phase::Ending { .. } => self.end().await,
                Phase::Waiting { until } => self.wait(until).await,
                Phase::Stopped | Phase::Failed => self.idle().await,
            }
        }
    }

    /// Writes the record to the disk.
    pub(super) async fn save(&self) -> io::Result<()> {
        let (store, record) = (self.store.clone(), self.record.clone());
        tokio::task::spawn_blocking(move || store.write(&record)).await.map_err(io::Error::other)?
    }

    pub(super) async fn remove_record(&self) -> io::Result<()> {
        let (store, id) = (self.store.clone(), self.record.id.clone());
        tokio::task::spawn_blocking(move || store.remove(&id)).await.map_err(io::Error::other)?
    }

    /// Changes the phase. If the disk is full, the next server sees an earlier phase, from which it reaches this one again.
    pub(super) async fn set_phase(&mut self, phase: Phase) {
        self.record.phase = phase;
        if let Err(error) = self.save().await {
            tracing::warn!(service = self.record.id, %error, "the record of a service cannot be written");
        }
        self.publish();
    }

    /// Shows the service to others.
    pub(super) fn publish(&mut self) {
        let new = snapshot(&self.record, &self.observed, self.begun.is_none(), self.is_removed);
        let service = Arc::clone(&new.service);
        let before = self.handle.snapshot.send_replace(new).service;
        let is_change = before.state != service.state
            || before.execution_id != service.execution_id
            || before.next_restart != service.next_restart
            || before.pid != service.pid;
        if is_change && !self.is_removed && self.begun.is_none() {
            let service = (*service).clone();
            let event = ServiceChangeEvent { service, timestamp: Timestamp::now() };
            // Without a watcher.
            drop(self.app.services.changes.send(Arc::new(ServerEvent::ServiceChanged(Box::new(event)))));
        }
    }

    /// The current execution, if it is known.
    fn execution(&mut self) -> Option<Execution> {
        if self.execution.is_none() && self.record.noted < self.record.attempt {
            let id = self.record.execution_id(self.record.attempt);
            self.execution = id.and_then(|id| self.app.sandbox.engine.execution(&id));
        }
        self.execution.clone()
    }

    /// The current execution, if it may have processes.
    pub(super) fn live_execution(&mut self) -> Option<Execution> {
        self.execution().filter(|execution| {
            let info = execution.info();
            info.status.end().is_none() || info.has_leftovers
        })
    }

    /// The first start failed: there is no service, or the one that had the id before.
    async fn refuse(&mut self, error: ApiError) {
        self.is_removed = true;
        self.is_over = true;
        let is_back = match self.former.take() {
            Some(former) => former.put_back(&self.record.id, &self.handle, &self.app).await,
            None => false,
        };
        if !is_back {
            drop(self.remove_record().await);
            self.app.services.forget(&self.record.id, &self.handle);
        }
        let reply = self.begun.take();
        self.publish();
        if let Some(reply) = reply {
            // The client may have left.
            drop(reply.send(Err(error)));
        }
    }

    /// Starts the current execution, unless an earlier server has done so.
    async fn start(&mut self) {
        self.observed = ObservedHealth::default();
        // It may wait for a command of the session, for any time. If it is dropped, either nothing was started, or the
        // engine has an execution with this id.
        let launched = tokio::select! {
            biased;
            () = self.app.stopping.begun() => return,
            Some(command) = self.commands.recv() => Err(command),
            launched = launch(&self.app, &self.record) => Ok(launched),
        };
        let launched = match launched {
            Ok(launched) => launched,
            // If it is refused, the start is tried again.
            Err(command) => return self.accept(command).await,
        };
        match launched {
            Ok(execution) => {
                let info = execution.info();
                let started_at = info.started_at.unwrap_or(info.created_at).into();
                self.observed.pid = info.pid;
                self.observed.state = self.definition.check.as_ref().map(|_| ServiceState::Starting);
                self.execution = Some(execution);
                self.record.set_error(None);
                let begun = self.begun.take();
                self.set_phase(Phase::Running { started_at }).await;
                self.former = None;
                if let Some(reply) = begun {
                    // The client may have left.
                    drop(reply.send(Ok(())));
                }
                for (reply, receipt) in self.restarting.drain(..) {
                    drop(reply.send(Ok(receipt)));
                }
            }
            Err(error) if self.begun.is_some() => self.refuse(error).await,
            Err(error) => {
                let now = Timestamp::now();
                let text = error.internal_message().unwrap_or(error.message()).to_owned();
                tracing::warn!(service = self.record.id, error = text, "a service could not be started");
                self.record.set_error(Some(error.message().to_owned()));
                let execution_id = self.record.execution_id(self.record.attempt);
                self.record.note_end(ServiceExecution {
                    execution_id: execution_id.map(|id| id.to_string()).unwrap_or_default(),
                    start_time: now,
                    end_time: now,
                    exit_code: None,
                    end: None,
                    error: self.record.error.clone(),
                });
                for (reply, _) in self.restarting.drain(..) {
                    drop(reply.send(Err(error.clone())));
                }
                // Without its session, it can never be started again.
                let is_of_session =
                    matches!(error.code(), ErrorCode::SessionNotFound | ErrorCode::SessionDestroyed);
                self.judge(if is_of_session { Outcome::SessionEnded } else { Outcome::Failure }).await;
            }
        }
    }

    /// The command of health checks: with the user, environment and directory of the service.
    async fn check_command(&self) -> Option<CommandSpec> {
        let Some(Probe::Command(text)) = self.definition.check.as_ref().map(|check| check.probe.clone())
        else {
            return None;
        };
        // The id is replaced by a generated one. A spec that is not valid now was so at the start.
        let like = spec(&self.app, &self.record, "check".into()).await.ok()?;
        let mut spec = CommandSpec::shell(text);
        (spec.env, spec.cwd, spec.user) = (like.env, like.cwd, like.user);
        Some(spec)
    }

    /// Watches the current execution until it ends or a client changes the service.
    async fn watch(&mut self, started_at: Timestamp) {
        let Some(execution) = self.execution() else {
            // It was removed after its end, while no server ran.
            let id = self.record.execution_id(self.record.attempt);
            let lost = self.record.lost(id.map(|id| id.to_string()).unwrap_or_default(), started_at);
            self.record.note_end(lost);
            self.record
                .set_error(Some("the record of the execution was removed, so its end is unknown".into()));
            return self.judge(Outcome::Failure).await;
        };
        if let Status::Running { pid } = execution.status() {
            self.observed.pid = Some(pid);
        }
        let check = self.definition.check.clone();
        let mut health =
            check.as_ref().map(|check| HealthTracker::new(check.interval, check.retries, check.start_period));
        self.observed.state = health.as_ref().map(HealthTracker::state);
        self.publish();
        let mut checker = match check {
            Some(check) => {
                let command = self.check_command().await;
                Some(Checker::new(App::clone(&self.app), check, execution.clone(), command))
            }
            None => None,
        };
        let mut next = Instant::now();
        loop {
            let checked = async {
                match &mut checker {
                    Some(checker) => {
                        tokio::time::sleep_until(next).await;
                        checker.run().await
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.app.stopping.begun() => return,
                _ = execution.wait() => {
                    let outcome = self.note_end().await;
                    return self.judge(outcome).await;
                }
                Some(command) = self.commands.recv() => {
                    self.accept(command).await;
                    if self.is_over || !matches!(self.record.phase, Phase::Running { .. }) {
                        return;
                    }
                }
                result = checked => {
                    let Some(health) = &mut health else { continue };
                    let pause = health.note(result.is_ok(), elapsed(started_at));
                    next = Instant::now() + pause;
                    let was_unhealthy = self.observed.state == Some(ServiceState::Unhealthy);
                    self.observed.state = Some(health.state());
                    self.observed.last_check = Some(Timestamp::now());
                    self.observed.error = result.err();
                    self.publish();
                    let is_unhealthy = health.state() == ServiceState::Unhealthy;
                    if is_unhealthy && !was_unhealthy && self.definition.policy.on_unhealthy {
                        let why = self.observed.error.clone().unwrap_or_default();
                        self.record.set_error(Some(format!("unhealthy: {why}")));
                        return self.set_phase(Phase::Ending { then: AfterEnd::Judge }).await;
                    }
                }
            }
        }
    }

    /// Notes the end of the current execution. Returns what it means for the policy.
    pub(super) async fn note_end(&mut self) -> Outcome {
        let Some(execution) = self.execution() else { return Outcome::Failure };
        let info = execution.info();
        let ended = info.status.end().cloned();
        let execution = ServiceExecution {
            execution_id: info.id.to_string(),
            start_time: info.started_at.unwrap_or(info.created_at).into(),
            end_time: info.ended_at.map_or_else(Timestamp::now, Into::into),
            exit_code: ended.as_ref().and_then(|end| end.exit_code),
            end: ended.as_ref().map(|end| convert::end(end)),
            error: None,
        };
        self.record.note_end(execution);
        let outcome = match outcome(ended.as_deref()) {
            Outcome::Failure if self.has_lost_session() => Outcome::SessionEnded,
            outcome => outcome,
        };
        if outcome == Outcome::Failure && !matches!(self.record.phase, Phase::Ending { .. }) {
            self.record.set_error(Some(ended.as_deref().map_or_else(|| "it is lost".into(), reason)));
        }
        outcome
    }

    /// Whether the session that the executions start from was deleted.
    fn has_lost_session(&self) -> bool {
        let session = self.record.request.session_id.as_deref();
        session.is_some_and(|session| find_session(&self.app.sandbox, session).is_err())
    }

    /// Lets the policy decide what follows the end of an execution.
    pub(super) async fn judge(&mut self, outcome: Outcome) {
        let last = self.record.history.front();
        let ran_for = last.and_then(|last| {
            last.end_time.to_system_time().duration_since(last.start_time.to_system_time()).ok()
        });
        let ran_for = ran_for.unwrap_or_default();
        match self.definition.policy.after_end(outcome, ran_for, self.record.in_a_row) {
            RestartDecision::Restart { after, in_a_row } => {
                self.record.in_a_row = in_a_row;
                let until = std::time::SystemTime::now() + after;
                self.set_phase(Phase::Waiting { until: until.into() }).await;
            }
            RestartDecision::Stop => {
                let error = (outcome == Outcome::SessionEnded).then(|| "its session was deleted".to_owned());
                self.record.set_error(error);
                self.set_phase(Phase::Stopped).await;
            }
            RestartDecision::Fail => self.set_phase(Phase::Failed).await,
        }
    }

    /// Waits for the time of the next execution.
    async fn wait(&mut self, until: Timestamp) {
        tokio::select! {
            biased;
            () = self.app.stopping.begun() => {}
            Some(command) = self.commands.recv() => self.accept(command).await,
            () = tokio::time::sleep(remaining(until, self.definition.policy.max_backoff)) => {
                self.begin_next(Cause::Policy).await;
            }
        }
    }

    /// Begins the next execution. Its number is on the disk before it starts.
    pub(super) async fn begin_next(&mut self, cause: Cause) {
        let counted = u64::from(cause == Cause::Policy);
        self.record.attempt += 1;
        self.record.restarts += counted;
        self.record.phase = Phase::Starting;
        let saved = self.save().await;
        if let Err(error) = saved {
            self.record.attempt -= 1;
            self.record.restarts -= counted;
            let refusal = record::failed(&error);
            self.record.set_error(Some(refusal.message().to_owned()));
            for (reply, _) in self.restarting.drain(..) {
                drop(reply.send(Err(refusal.clone())));
            }
            let until = std::time::SystemTime::now() + RETRY_AFTER;
            // A request that was refused must not start a service that did not run.
            let former = self.idle_before.filter(|_| cause == Cause::Request);
            if let Some(former) = former {
                return self.set_phase(former).await;
            }
            self.record.phase = Phase::Waiting { until: until.into() };
        } else {
            self.execution = None;
        }
        self.publish();
    }

    /// Waits for a request.
    async fn idle(&mut self) {
        self.publish();
        tokio::select! {
            biased;
            () = self.app.stopping.begun() => {}
            Some(command) = self.commands.recv() => self.accept(command).await,
        }
    }
}

async fn launch(app: &App, record: &Record) -> Result<Execution, ApiError> {
    let id = record.execution_id(record.attempt);
    let id = id.ok_or_else(|| ApiError::internal("the id of an execution is not valid"))?;
    let mut spec = spec(app, record, id.to_string()).await?;
    spec.digest = Some(record.execution_digest());
    let sandbox = &app.sandbox;
    match &record.request.session_id {
        None => Ok(sandbox.engine.start(spec).await?),
        Some(session) => Ok(find_session(sandbox, session)?.start_process(spec).await?),
    }
}

/// The command of an execution.
async fn spec(app: &App, record: &Record, id: String) -> Result<CommandSpec, ApiError> {
    let mut request = command(&record.request, id);
    let sandbox = &app.sandbox;
    let in_session = record.request.session_id.is_some();
    let mut spec = launch::spec(sandbox, &mut request, in_session, &SessionNote::default(), Kind::Process)?;
    spec.user = launch::user(sandbox, request.user.take()).await?;
    Ok(spec)
}

fn outcome(end: Option<&End>) -> Outcome {
    match end {
        Some(end) if end.reason == EndReason::SessionEnded => Outcome::SessionEnded,
        Some(end) if end.reason == EndReason::Exited && end.exit_code == Some(0) => Outcome::Success,
        _ => Outcome::Failure,
    }
}

/// Why an execution is a failure.
fn reason(end: &End) -> String {
    match (end.reason, end.exit_code) {
        (EndReason::Exited, Some(code)) => format!("the program exited with code {code}"),
        (EndReason::Signaled, _) => format!("signal {} ended the program", end.signal.unwrap_or_default()),
        (reason, _) => format!("the program was ended: {}", reason.as_str()),
    }
}
