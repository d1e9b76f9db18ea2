//! [`Terminal`]: an execution with a pseudo-terminal. `docs/design/terminals.md` describes the design.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::timeout;

use super::error::{ControlError, InputError, TerminalError};
use super::execution::Execution;
use super::life_cycle::TerminalState;
use super::link::{LinkError, SupervisorLink, lock};
use super::start::StartContext;
use super::{Engine, StartError, validate};
use crate::command::CommandSpec;
use crate::end::KillReceipt;
use crate::id::{ExecutionId, SessionId};
use crate::journal;
use crate::protocol::{Bytes, Refusal, Request, Response};
use crate::record::TerminalRecord;
use crate::terminal::{MAX_TERM_BYTES, MAX_TERMINAL_INPUT_BYTES, TerminalSize};

/// Default value of `TERM`.
pub const DEFAULT_TERM: &str = "xterm-256color";

/// Maximum time to wait for the supervisor of an ended terminal to close its journal. It cannot while the disk is full.
const CLOSE_TIME: Duration = Duration::from_secs(1);
/// Maximum time to find out whether a terminal has ended whose connection was lost.
const LOST_LINK_TIME: Duration = Duration::from_secs(5);
/// Maximum time to wait for processes of an ended terminal before its id is refused: after the hangup they may be about
/// to exit.
const LEFTOVERS_EXIT_TIME: Duration = Duration::from_millis(500);
/// Interval of looking at them.
const LEFTOVERS_INTERVAL: Duration = Duration::from_millis(10);

/// A terminal to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalSpec {
    /// The program and its options. The options for standard input, overflow, leftovers, digest and background do not
    /// apply.
    pub command: CommandSpec,
    /// Whether an interactive bash runs, which is not a login shell, instead of the program of `command`.
    pub interactive_shell: bool,
    /// Its first size.
    pub size: TerminalSize,
    /// The value of `TERM`, at most [`MAX_TERM_BYTES`].
    pub term: String,
    /// The session from whose state it starts. It ends with the session, unless
    /// [`CommandSpec::on_session_end`] says otherwise.
    pub session: Option<SessionId>,
}

impl TerminalSpec {
    /// A terminal with an interactive bash.
    pub fn shell() -> Self {
        let command = CommandSpec::argv(["bash", "-i"]);
        Self { interactive_shell: true, ..Self::command(command) }
    }

    /// A terminal with this command.
    pub fn command(command: CommandSpec) -> Self {
        Self {
            command,
            interactive_shell: false,
            size: TerminalSize::default(),
            term: DEFAULT_TERM.into(),
            session: None,
        }
    }

    /// Sets the id.
    #[must_use]
    pub fn id(mut self, id: ExecutionId) -> Self {
        self.command.id = Some(id);
        self
    }

    /// Sets the first size.
    #[must_use]
    pub fn size(mut self, size: TerminalSize) -> Self {
        self.size = size;
        self
    }

    /// Sets the session from whose state it starts.
    #[must_use]
    pub fn session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    fn check(&self) -> Result<(), TerminalError> {
        let TerminalSize { cols, rows } = self.size;
        if !self.size.is_valid() {
            return Err(TerminalError::InvalidSize { cols, rows });
        }
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
        if self.term.is_empty() || self.term.len() > MAX_TERM_BYTES || !self.term.bytes().all(is_allowed) {
            let shown = self.term.chars().take(MAX_TERM_BYTES).collect();
            return Err(TerminalError::InvalidTerm(shown));
        }
        validate::command(&self.command)?;
        Ok(())
    }

    /// The command with the environment of a terminal. Programs prefer `COLUMNS` and `LINES` to the real size, so
    /// they are only set if the caller sets them.
    fn to_command(&self) -> CommandSpec {
        let mut command = self.command.clone();
        let own = [("TERM", Some(self.term.as_str())), ("COLUMNS", None), ("LINES", None)];
        let own = own.map(|(name, value)| (name.into(), value.map(Into::into)));
        command.env.splice(0..0, own);
        command.stdin = crate::command::Stdin::Null;
        command.overflow = crate::command::Overflow::Drop;
        command.leftovers = crate::command::LeftoverPolicy::Keep;
        (command.digest, command.background) = (None, false);
        command
    }
}

/// Result of [`Engine::create_terminal`].
#[derive(Debug)]
pub struct CreatedTerminal {
    /// The terminal.
    pub terminal: Terminal,
    /// Whether this call created it; otherwise a terminal with the same id was already running.
    pub created: bool,
}

/// Terminals that are being created: creations with the same id wait for each other.
#[derive(Debug, Default)]
pub(super) struct TerminalCreations(Mutex<HashMap<ExecutionId, Arc<tokio::sync::Mutex<()>>>>);

/// Removes the entry of a creation when no other one waits for it.
struct CreationTurn<'a> {
    creations: &'a TerminalCreations,
    id: &'a ExecutionId,
    turn: Option<Arc<tokio::sync::Mutex<()>>>,
}

impl TerminalCreations {
    fn of<'a>(&'a self, id: &'a ExecutionId) -> CreationTurn<'a> {
        let turn = Arc::clone(lock(&self.0).entry(id.clone()).or_default());
        CreationTurn { creations: self, id, turn: Some(turn) }
    }
}

impl Drop for CreationTurn<'_> {
    fn drop(&mut self) {
        let mut all = lock(&self.creations.0);
        self.turn = None;
        if all.get(self.id).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            all.remove(self.id);
        }
    }
}

impl Engine {
    /// Creates a terminal. Returns when its program runs. If a terminal with the given id has not ended, returns that
    /// one, also if it is being created at the same time. The record of an ended one is replaced, unless processes that
    /// it started still run.
    pub async fn create_terminal(&self, spec: TerminalSpec) -> Result<CreatedTerminal, TerminalError> {
        spec.check()?;
        if let Some(user) = &spec.command.user {
            self.inner.check_user(user)?;
        }
        let Some(id) = spec.command.id.clone() else {
            return self.start_terminal(&spec).await;
        };
        let turn = self.inner.terminal_creations.of(&id);
        let _alone = match &turn.turn {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        loop {
            let Some(terminal) = self.terminal(&id) else {
                return self.start_terminal(&spec).await;
            };
            if terminal.execution.tracked.end().is_some() {
                // It is closed in a moment: no process can write to it any more.
                let _ = timeout(CLOSE_TIME, terminal.execution.wait_closed()).await;
                terminal.leftovers_exit().await;
                return self.start_terminal(&spec).await;
            }
            // Otherwise it was refused, and its id is free.
            if terminal.execution.wait_started().await.is_ok() {
                return Ok(CreatedTerminal { terminal, created: false });
            }
        }
    }

    async fn start_terminal(&self, spec: &TerminalSpec) -> Result<CreatedTerminal, TerminalError> {
        let record = TerminalRecord {
            size: spec.size,
            term: spec.term.clone(),
            interactive_shell: spec.interactive_shell,
        };
        let command = spec.to_command();
        let started = match &spec.session {
            Some(id) => {
                let session = self.session(id).ok_or_else(|| TerminalError::SessionNotFound(id.clone()))?;
                session.start_terminal(command, &record).await
            }
            None => {
                let context = StartContext { terminal: Some(&record), ..StartContext::default() };
                self.inner.start_alone(&command, context).await
            }
        };
        match started {
            Ok(execution) => Ok(CreatedTerminal { terminal: Terminal { execution }, created: true }),
            Err(StartError::SessionGone(id)) => Err(TerminalError::SessionNotFound(id)),
            Err(e) => Err(self.inner.explain(e).into()),
        }
    }

    /// The terminal with this id, running or ended.
    pub fn terminal(&self, id: &ExecutionId) -> Option<Terminal> {
        self.execution(id).and_then(Terminal::of)
    }

    /// All terminals that have a record, oldest first.
    pub fn terminals(&self) -> Vec<Terminal> {
        let found = self.inner.find(|tracked| tracked.fixed.terminal.is_some());
        found.into_iter().filter_map(Terminal::of).collect()
    }
}

/// A handle on a terminal: cheap to clone; dropping it has no effect on the terminal.
#[derive(Debug, Clone)]
pub struct Terminal {
    /// An execution that is a terminal.
    execution: Execution,
}

impl Terminal {
    fn of(execution: Execution) -> Option<Self> {
        execution.tracked.fixed.terminal.is_some().then_some(Self { execution })
    }

    /// The terminal as an execution: its status and its end, its output, kills and signals.
    pub fn execution(&self) -> &Execution {
        &self.execution
    }

    /// Its id.
    pub fn id(&self) -> &ExecutionId {
        self.execution.id()
    }

    /// Waits for processes that are about to exit.
    async fn leftovers_exit(&self) {
        let gone = async {
            while self.execution.tracked.has_leftovers() {
                tokio::time::sleep(LEFTOVERS_INTERVAL).await;
            }
        };
        // Those that stay are reported by the refusal of the id.
        let _ = timeout(LEFTOVERS_EXIT_TIME, gone).await;
    }

    fn state(&self) -> Option<&TerminalState> {
        self.execution.tracked.fixed.terminal.as_ref()
    }

    /// The value of `TERM` that its program got.
    pub fn term(&self) -> &str {
        self.state().map_or(DEFAULT_TERM, |state| &state.term)
    }

    /// Its current size.
    pub fn size(&self) -> TerminalSize {
        self.state().map_or_else(TerminalSize::default, |state| *state.sizes.borrow())
    }

    /// Its size at the start.
    pub(super) fn first_size(&self) -> TerminalSize {
        self.state().map_or_else(TerminalSize::default, |state| state.first_size)
    }

    /// Its size, to be watched.
    pub fn sizes(&self) -> watch::Receiver<TerminalSize> {
        let state = self.state();
        state.map_or_else(|| watch::channel(TerminalSize::default()).1, |state| state.sizes.subscribe())
    }

    /// Whether output is missing in its journal because the disk is full, to be watched. When it changes back, a saved
    /// screen covers that output, and followers get a gap.
    pub fn unrecorded(&self) -> watch::Receiver<bool> {
        self.state().map_or_else(|| watch::channel(false).1, |state| state.unrecorded.subscribe())
    }

    /// Time of the last output, resize or input.
    pub fn last_activity(&self) -> SystemTime {
        let tracked = &self.execution.tracked;
        let dir = Arc::clone(lock(&self.execution.engine.store).dir());
        let written = journal::modified_at(&dir, tracked.journal);
        let typed = self.state().and_then(|state| *lock(&state.last_input));
        let last = written.max(typed).unwrap_or(tracked.fixed.created_at);
        tracked.ended_at().map_or(last, |ended| ended.min(last))
    }

    /// Queues input. Returns when it is queued, which does not depend on the program: at most
    /// [`MAX_TERMINAL_INPUT_BYTES`] are queued for a program that does not read. Concurrent writes are not
    /// interleaved.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), InputError> {
        let turn = InputTurn(Arc::clone(&self.execution.tracked.writing).lock_owned().await);
        self.write_in(turn, bytes).await
    }

    /// Queues input in a turn, as [`Terminal::write`] does.
    pub async fn write_in(&self, turn: InputTurn, bytes: &[u8]) -> Result<(), InputError> {
        let tracked = &self.execution.tracked;
        let state = self.state().ok_or(InputError::Control(ControlError::Unsupported))?;
        let mut accepted = self.write_directly(bytes, &turn);
        for piece in bytes[accepted..].chunks(MAX_TERMINAL_INPUT_BYTES) {
            if tracked.end().is_some() {
                return Err(InputError::Ended);
            }
            let (slot, told) = (tracked.slot(), state.direct.begin_queueing());
            let request = Request::WriteTerminal { slot, bytes: Bytes(piece.to_vec()), direct: told };
            let link = tracked.link();
            let queued = match self.execution.call_once(&request).await {
                Ok(Response::Queued(queued, waiting)) => {
                    state.direct.queued(told, waiting);
                    usize::try_from(queued).unwrap_or(0).min(piece.len())
                }
                Ok(Response::Refused(Refusal::NoSuchExecution)) => return Err(InputError::Ended),
                Ok(Response::Refused(why)) => return Err(InputError::Control(ControlError::refused(why))),
                Ok(_) => return Err(InputError::Control(ControlError::Unsupported)),
                Err(LinkError::Busy) => return Err(InputError::Full { accepted }),
                // It may have been queued, so it is not sent again. A supervisor is gone when its terminal has ended.
                Err(LinkError::Gone) if self.ends_soon(link).await => return Err(InputError::Ended),
                Err(LinkError::Gone) => return Err(InputError::Control(ControlError::Disconnected)),
            };
            accepted += queued;
            *lock(&state.last_input) = Some(SystemTime::now());
            if queued < piece.len() {
                return Err(InputError::Full { accepted });
            }
        }
        Ok(())
    }

    /// Writes input, or the beginning of it, if that is possible at once; see [`Terminal::expect_keys`]. Returns the number of
    /// bytes, and the turn in which [`Terminal::write_in`] writes the rest. Without a turn, other input is being written,
    /// and nothing of this one is.
    pub fn write_now(&self, bytes: &[u8]) -> (usize, Option<InputTurn>) {
        let Ok(guard) = Arc::clone(&self.execution.tracked.writing).try_lock_owned() else {
            return (0, None);
        };
        let turn = InputTurn(guard);
        (self.write_directly(bytes, &turn), Some(turn))
    }

    fn write_directly(&self, bytes: &[u8], _turn: &InputTurn) -> usize {
        let Some(state) = self.state().filter(|_| self.execution.tracked.end().is_none()) else { return 0 };
        let written = state.direct.write(bytes);
        if written > 0 {
            *lock(&state.last_input) = Some(SystemTime::now());
        }
        written
    }

    /// Makes keys take the shortest way for as long as the guard lives: [`Terminal::write`] writes them to the terminal itself
    /// if nothing is queued before them. Has no effect on what is written and in which order. Costs a descriptor.
    pub fn expect_keys(&self) -> KeysGuard {
        if self.state().is_some_and(|state| state.direct.add_user())
            && let Some(link) = self.execution.tracked.link()
        {
            link.request_master(self.execution.tracked.slot());
        }
        KeysGuard(self.clone())
    }

    /// Whether it has ended, after this connection was lost: the end is known as soon as the supervisor was looked for.
    async fn ends_soon(&self, lost: Option<Arc<SupervisorLink>>) -> bool {
        let tracked = &self.execution.tracked;
        if let Some(lost) = lost {
            drop(timeout(LOST_LINK_TIME, tracked.next_link(&lost)).await);
        }
        tracked.end().is_some()
    }

    /// Sets the size. Its program is notified with SIGWINCH.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), ControlError> {
        let state = self.state().ok_or(ControlError::Unsupported)?;
        let _alone = state.resizing.lock().await;
        let slot = self.execution.tracked.slot();
        match self.execution.call_again(&Request::Resize { slot, size }).await? {
            Response::Done => {
                state.sizes.send_if_modified(|known| std::mem::replace(known, size) != size);
                Ok(())
            }
            _ => Err(ControlError::Unsupported),
        }
    }

    /// Ends everything that it started, daemons included: SIGHUP first, SIGKILL after `grace`. Its record stays, as
    /// that of an ended terminal.
    pub async fn delete(&self, grace: Duration) -> Result<KillReceipt, ControlError> {
        self.execution.kill(libc::SIGHUP, grace).await
    }

    /// Removes the record of an ended terminal. A client that reads it is not disturbed; the id is free.
    pub fn forget(&self) -> Result<(), ControlError> {
        self.execution.engine.forget_terminal(&self.execution.tracked)
    }

    /// A value that differs from that of every other terminal, also of an earlier or later one with the same id. The
    /// cursors of one are not valid for another.
    pub fn incarnation(&self) -> String {
        let salt = &self.execution.tracked.journal.salt.0;
        salt.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The right to write input to a terminal. No other input is written while it exists.
#[derive(Debug)]
#[must_use = "other input may come between the beginning and the rest"]
pub struct InputTurn(#[expect(dead_code, reason = "held")] tokio::sync::OwnedMutexGuard<()>);

/// A client that types; see [`Terminal::expect_keys`].
#[derive(Debug)]
pub struct KeysGuard(Terminal);

impl Drop for KeysGuard {
    fn drop(&mut self) {
        if let Some(state) = self.0.state() {
            state.direct.remove_user();
        }
    }
}
