//! [`Execution`]: a handle on anything that runs.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::Inner;
use super::error::ControlError;
use super::link::{Link, LinkError, lock};
use super::output::{Follower, Output, ReadAt, Stream};
use super::reader::OutputReader;
use super::{ReadError, StartError};
use crate::command::SessionEndPolicy;
use crate::end::{End, EndReason, KillReceipt, Usage};
use crate::id::{ExecutionId, SessionId};
use crate::journal::Claimed;
use crate::protocol::{Answer, Bytes, Refusal, Request};

/// How long a process has to end by itself before it is killed, unless the caller says otherwise.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(5);

/// Where an execution stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// Accepted; in a session it may wait for its turn.
    Starting,
    /// Running.
    Running {
        /// Its process id; for a session's command that of the shell.
        pid: u32,
    },
    /// Over.
    Ended(Arc<End>),
}

impl Status {
    /// The end, if it is over.
    pub fn end(&self) -> Option<&Arc<End>> {
        match self {
            Self::Ended(end) => Some(end),
            Self::Starting | Self::Running { .. } => None,
        }
    }
}

/// What is known of an execution without asking its supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionInfo {
    /// Its id.
    pub id: ExecutionId,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// The shell text, or the argv joined by spaces. Of a long one the beginning, then `…`: at most
    /// [`MAX_SHOWN_COMMAND_BYTES`](crate::MAX_SHOWN_COMMAND_BYTES). The record on disk has all of it.
    pub command: String,
    /// Whether it is an argv rather than shell text.
    pub argv: bool,
    /// Whether it was started as a background process.
    pub background: bool,
    /// When it was accepted.
    pub created_at: SystemTime,
    /// When it began to run; in a session it may have waited for its turn.
    pub started_at: Option<SystemTime>,
    /// When it ended.
    pub ended_at: Option<SystemTime>,
    /// The process id it has or had.
    pub pid: Option<u32>,
    /// Where it stands.
    pub status: Status,
    /// How many bytes it has written, dropped ones included, as far as is known without a look.
    pub output_bytes: u64,
    /// What the caller has put there; see [`CommandSpec::note`](crate::CommandSpec::note).
    pub note: Option<Arc<[u8]>>,
}

/// A look at the processes of a running execution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Whether it waits for input on its standard input; `None` where the kernel does not tell.
    pub waiting_for_input: Option<bool>,
    /// The processes it has.
    pub pids: Vec<u32>,
    /// What they and those they have waited for have used so far; `None` from a supervisor of an older
    /// version.
    pub usage: Option<Usage>,
}

/// What never changes about an execution.
#[derive(Debug)]
pub(super) struct Fixed {
    pub(super) id: ExecutionId,
    pub(super) session: Option<SessionId>,
    pub(super) command: String,
    pub(super) argv: bool,
    /// The program and the folder, for errors to name.
    pub(super) program: String,
    pub(super) cwd: PathBuf,
    pub(super) background: bool,
    pub(super) digest: Option<Vec<u8>>,
    pub(super) keep: bool,
    pub(super) on_session_end: SessionEndPolicy,
    /// What it leaves running becomes executions of their own.
    pub(super) adopt: bool,
    pub(super) created_at: SystemTime,
    pub(super) note: Option<Arc<[u8]>>,
}

impl Fixed {
    /// What it means that it was not started.
    pub(super) fn refused(&self, why: Refusal) -> StartError {
        StartError::refused(why, &self.program, self.cwd.clone())
    }
}

/// What changes, as one value that can be watched.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) status: Status,
    pub(super) pid: Option<u32>,
    pub(super) started_at: Option<SystemTime>,
    pub(super) ended_at: Option<SystemTime>,
    /// Nothing more will be written to its journal.
    pub(super) closed: bool,
    pub(super) refused: Option<Refusal>,
}

/// An execution as the engine keeps it.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) fixed: Fixed,
    pub(super) journal: Claimed,
    pub(super) state: watch::Sender<State>,
    pub(super) link: Mutex<Option<Arc<Link>>>,
    /// The position its journal is known to have reached.
    pub(super) position: watch::Sender<u64>,
    /// The supervisor was asked to say when the journal grows.
    armed: AtomicBool,
    /// Held while somebody writes to its standard input.
    writing: tokio::sync::Mutex<()>,
    pub(super) bytes_on_disk: AtomicU64,
}

impl Tracked {
    pub(super) fn new(fixed: Fixed, journal: Claimed) -> Arc<Self> {
        let state = State {
            status: Status::Starting,
            pid: None,
            started_at: None,
            ended_at: None,
            closed: false,
            refused: None,
        };
        Arc::new(Self {
            fixed,
            journal,
            state: watch::Sender::new(state),
            link: Mutex::new(None),
            position: watch::Sender::new(0),
            armed: AtomicBool::new(false),
            writing: tokio::sync::Mutex::new(()),
            bytes_on_disk: AtomicU64::new(0),
        })
    }

    pub(super) fn slot(&self) -> u32 {
        self.journal.slot.0
    }

    /// It runs; says whether that is news.
    pub(super) fn started(&self, pid: u32) -> bool {
        let mut news = false;
        self.state.send_modify(|state| {
            if state.status == Status::Starting {
                state.status = Status::Running { pid };
                news = true;
            }
            state.pid = Some(pid);
            state.started_at.get_or_insert_with(SystemTime::now);
        });
        news
    }

    pub(super) fn not_started(&self, why: Refusal) {
        self.state.send_modify(|state| {
            state.refused = Some(why);
            state.closed = true;
        });
    }

    /// Gives it its end; says whether it had none before.
    pub(super) fn ended(&self, end: End, position: u64) -> bool {
        self.grew(position);
        self.state.send_if_modified(|state| {
            let first = state.status.end().is_none();
            if first {
                state.status = Status::Ended(Arc::new(end));
                state.ended_at = Some(SystemTime::now());
            }
            first
        })
    }

    /// Nothing more will come; says whether that is news.
    pub(super) fn closed(&self, position: u64) -> bool {
        *lock(&self.link) = None;
        self.grew(position);
        self.state.send_if_modified(|state| !std::mem::replace(&mut state.closed, true))
    }

    pub(super) fn grew(&self, position: u64) {
        self.armed.store(false, Ordering::Release);
        self.position.send_if_modified(|known| {
            let grown = position > *known;
            *known = position.max(*known);
            grown
        });
    }

    /// Asks to hear when the journal goes beyond a position.
    pub(super) fn watch_growth(&self, position: u64) {
        if !self.armed.swap(true, Ordering::AcqRel) {
            let link = lock(&self.link).clone();
            if let Some(link) = link {
                // A supervisor that is gone is noticed by its link, which ends the execution.
                let _ = link.tell(&Request::Follow { slot: self.slot(), position });
            }
        }
    }

    pub(super) fn end(&self) -> Option<Arc<End>> {
        self.state.borrow().status.end().cloned()
    }

    pub(super) fn info(&self) -> ExecutionInfo {
        let state = self.state.borrow();
        ExecutionInfo {
            id: self.fixed.id.clone(),
            session: self.fixed.session.clone(),
            command: self.fixed.command.clone(),
            argv: self.fixed.argv,
            background: self.fixed.background,
            created_at: self.fixed.created_at,
            started_at: state.started_at,
            ended_at: state.ended_at,
            pid: state.pid,
            status: state.status.clone(),
            output_bytes: *self.position.borrow(),
            note: self.fixed.note.clone(),
        }
    }
}

/// The end of an execution whose supervisor is gone.
pub(super) fn lost_end() -> End {
    End {
        reason: EndReason::Lost,
        exit_code: None,
        signal: None,
        usage: Usage::default(),
        leftovers: Vec::new(),
        shell_ended: false,
        restored: None,
        leftover_count: 0,
    }
}

/// A handle on anything that runs: cheap to clone, and dropping it changes nothing.
#[derive(Debug, Clone)]
pub struct Execution {
    pub(super) tracked: Arc<Tracked>,
    pub(super) engine: Arc<Inner>,
}

impl Execution {
    /// Its id.
    pub fn id(&self) -> &ExecutionId {
        &self.tracked.fixed.id
    }

    /// What is known of it.
    pub fn info(&self) -> ExecutionInfo {
        self.tracked.info()
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        self.tracked.state.borrow().status.clone()
    }

    /// Waits until it runs or is over, and says whether it could be started.
    pub async fn wait_started(&self) -> Result<(), StartError> {
        let mut states = self.tracked.state.subscribe();
        let begun = |state: &State| state.status != Status::Starting || state.refused.is_some();
        let refused = states.wait_for(begun).await.ok().and_then(|state| state.refused.clone());
        match refused {
            None => Ok(()),
            Some(why) => Err(self.tracked.fixed.refused(why)),
        }
    }

    /// Waits for its end. A command of a session that could not be started has none.
    pub async fn wait(&self) -> Result<Arc<End>, StartError> {
        let mut states = self.tracked.state.subscribe();
        let over = |state: &State| state.status.end().is_some() || state.refused.is_some();
        let state = states.wait_for(over).await.map_err(|_| StartError::Lost)?.clone();
        match (state.status.end(), state.refused) {
            (Some(end), _) => Ok(Arc::clone(end)),
            (None, Some(why)) => Err(self.tracked.fixed.refused(why)),
            (None, None) => Err(StartError::Lost),
        }
    }

    /// Waits until nothing more will come, not even from what it left running.
    pub async fn wait_closed(&self) {
        let mut states = self.tracked.state.subscribe();
        // The sender lives as long as this handle.
        drop(states.wait_for(|state| state.closed).await);
    }

    fn link(&self) -> Result<Arc<Link>, ControlError> {
        if self.tracked.end().is_some() {
            return Err(ControlError::Ended);
        }
        lock(&self.tracked.link).clone().ok_or(ControlError::Ended)
    }

    async fn ask(&self, request: &Request) -> Result<Answer, ControlError> {
        match self.link()?.ask(request).await {
            Ok(Answer::Refused(why)) => Err(ControlError::refused(why)),
            Ok(answer) => Ok(answer),
            Err(LinkError::Gone) => Err(ControlError::Ended),
            Err(LinkError::Busy) => Err(ControlError::Busy),
        }
    }

    /// Ends the whole tree: `signal` first, SIGKILL after `grace` for what is still there. The
    /// receipt lists what was ended. On an execution that has ended it does nothing.
    pub async fn kill(&self, signal: i32, grace: Duration) -> Result<KillReceipt, ControlError> {
        check_signal(signal)?;
        let request = Request::Kill { slot: self.tracked.slot(), signal, grace };
        match self.ask(&request).await {
            Ok(Answer::Receipt(receipt)) => Ok(receipt),
            Ok(_) => Ok(KillReceipt::default()),
            Err(ControlError::Ended) => Ok(KillReceipt::default()),
            Err(e) => Err(e),
        }
    }

    /// Sends a signal to every process of it, and does nothing more.
    pub async fn signal(&self, signal: i32) -> Result<(), ControlError> {
        check_signal(signal)?;
        match self.ask(&Request::Signal { slot: self.tracked.slot(), signal }).await {
            // Looked at after the answer: whoever waits then has waited before.
            Err(ControlError::Ended) if self.status() == Status::Starting => Err(ControlError::NotStarted),
            answer => answer.map(drop),
        }
    }

    /// Writes to its standard input; returns when the bytes are in its pipe. A session's command gets them when its
    /// turn has come. Writes do not mix.
    pub async fn write_stdin(&self, bytes: impl Into<Vec<u8>>) -> Result<(), ControlError> {
        self.give_stdin(bytes.into(), false).await
    }

    /// Closes its standard input.
    pub async fn close_stdin(&self) -> Result<(), ControlError> {
        self.give_stdin(Vec::new(), true).await
    }

    async fn give_stdin(&self, bytes: Vec<u8>, close: bool) -> Result<(), ControlError> {
        // Nothing comes between the pieces of one write.
        let _alone = self.tracked.writing.lock().await;
        let mut rest = bytes.as_slice();
        loop {
            // In pieces, so that no frame is too long and a slow reader is felt.
            let (now, later) = rest.split_at(rest.len().min(1 << 20));
            let close = close && later.is_empty();
            let request =
                Request::WriteStdin { slot: self.tracked.slot(), bytes: Bytes(now.to_vec()), close };
            self.ask(&request).await?;
            if later.is_empty() {
                return Ok(());
            }
            rest = later;
        }
    }

    /// Looks at its processes.
    pub async fn inspect(&self) -> Result<Inspection, ControlError> {
        match self.ask(&Request::Inspect(self.tracked.slot())).await? {
            Answer::Inspected(found) => {
                let crate::protocol::Inspection { waiting_for_input, pids, usage, .. } = found;
                Ok(Inspection { waiting_for_input, pids, usage })
            }
            _ => Err(ControlError::Unsupported),
        }
    }

    /// What it has written so far, at most `limit` bytes of each stream: the head and the tail.
    pub fn output(&self, limit: usize) -> Result<Output, ReadError> {
        Output::read(self.engine.reader(self.tracked.journal)?, limit)
    }

    /// Bytes of one stream from an offset of that stream, at most as many as the buffer holds.
    pub fn read(&self, stream: Stream, offset: u64, buffer: &mut [u8]) -> Result<ReadAt, ReadError> {
        self.reader()?.read(stream, offset, buffer)
    }

    /// What it has written, in pieces, with the journal opened once.
    pub fn reader(&self) -> Result<OutputReader, ReadError> {
        Ok(OutputReader::new(self.engine.reader(self.tracked.journal)?))
    }

    /// Its record from where at most the last bytes of a stream, or of both together, are left, as it
    /// is written.
    pub fn follow_tail(&self, stream: Option<Stream>, bytes: u64) -> Result<Follower, ReadError> {
        let mut reader = self.engine.reader(self.tracked.journal)?;
        reader.seek_tail(stream.map(Into::into), bytes)?;
        Ok(Follower::new(reader, Arc::clone(&self.tracked)))
    }

    /// Its record from a cursor on, as it is written.
    pub fn follow(&self, cursor: u64) -> Result<Follower, ReadError> {
        let mut reader = self.engine.reader(self.tracked.journal)?;
        reader.seek(cursor)?;
        Ok(Follower::new(reader, Arc::clone(&self.tracked)))
    }
}

pub(super) fn check_signal(signal: i32) -> Result<(), ControlError> {
    if (1..=31).contains(&signal) { Ok(()) } else { Err(ControlError::NoSuchSignal(signal)) }
}
