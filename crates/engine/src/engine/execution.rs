//! [`Execution`]: a handle on a running or finished command.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::timeout;

use super::Inner;
use super::error::ControlError;
use super::follower::Follower;
use super::life_cycle::{DirectInput, RecordGuard, State, Tracked};
use super::link::{LinkError, SupervisorLink};
use super::output::{Output, ReadAt, Stream};
use super::reader::OutputReader;
use super::recover::Liveness;
use super::{ReadError, StartError};
use crate::end::{End, EndReason, KillReceipt, Leftover, Usage};
use crate::id::{ExecutionId, SessionId};
use crate::journal::JournalReader;
use crate::protocol::{Bytes, Request, Response};

/// Default grace period between the signal of a kill and SIGKILL.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(5);

/// Number of connections on which a request is tried if connections break.
const SEND_ATTEMPTS: usize = 3;
/// Time for which such a request waits for the next connection.
const RECONNECT_TIME: Duration = Duration::from_secs(20);

/// Status of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// Accepted; it may wait in the queue of a session.
    Starting,
    /// Running.
    Running {
        /// Its process id; for a session's command that of the shell.
        pid: u32,
    },
    /// Ended.
    Ended(Arc<End>),
}

impl Status {
    /// The end, if it has ended.
    pub fn end(&self) -> Option<&Arc<End>> {
        match self {
            Self::Ended(end) => Some(end),
            Self::Starting | Self::Running { .. } => None,
        }
    }
}

/// Information on an execution that is available without a request to its supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionInfo {
    /// Its id.
    pub id: ExecutionId,
    /// The session to which it belongs.
    pub session: Option<SessionId>,
    /// The shell text, or the argv joined by spaces. A long one is truncated to
    /// [`MAX_SHOWN_COMMAND_BYTES`](crate::MAX_SHOWN_COMMAND_BYTES) and ends in `…`. The record on disk is complete.
    pub command: String,
    /// Whether it is an argv; otherwise it is shell text.
    pub argv: bool,
    /// Whether it was started as a background process.
    pub background: bool,
    /// Time at which it was accepted.
    pub created_at: SystemTime,
    /// Time at which it started to run, after a wait in the queue of a session.
    pub started_at: Option<SystemTime>,
    /// Time of its end.
    pub ended_at: Option<SystemTime>,
    /// Its current or last process id.
    pub pid: Option<u32>,
    /// Its status.
    pub status: Status,
    /// Number of output bytes, dropped ones included, as far as the engine knows it.
    pub output_bytes: u64,
    /// Number of bytes of standard error among these. Known after the end, except from a supervisor of an older
    /// version.
    pub stderr_bytes: u64,
    /// Whether leftovers still run. [`Execution::leftovers`] lists them.
    pub has_leftovers: bool,
    /// The note of the caller; see [`CommandSpec::note`](crate::CommandSpec::note).
    pub note: Option<Arc<[u8]>>,
    /// The end of a finished execution with the same id, whose record this one replaced. Unknown after a restart of
    /// the engine.
    pub replaced: Option<Arc<End>>,
    /// Whether it is a terminal: [`Engine::terminal`](crate::Engine::terminal).
    pub is_terminal: bool,
}

/// Information on the processes of a running execution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Whether it waits for input on its standard input; `None` if the kernel does not report it.
    pub waiting_for_input: Option<bool>,
    /// Its processes.
    pub pids: Vec<u32>,
    /// Resource usage so far of these processes and of those they have waited for; `None` from a supervisor of an
    /// older version.
    pub usage: Option<Usage>,
}

/// A handle on an execution: cheap to clone; dropping it has no effect on the execution.
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

    /// Information that is available without a request to the supervisor.
    pub fn info(&self) -> ExecutionInfo {
        self.tracked.info()
    }

    /// Number of output bytes; see [`ExecutionInfo::output_bytes`].
    pub fn output_bytes(&self) -> u64 {
        self.tracked.position()
    }

    /// Its status.
    pub fn status(&self) -> Status {
        self.tracked.status()
    }

    /// Waits until it runs or has ended. Returns an error if it could not be started.
    pub async fn wait_started(&self) -> Result<(), StartError> {
        let _guard = self.tracked.guard();
        let mut states = self.tracked.states();
        let begun = |state: &State| state.status != Status::Starting || state.refused.is_some();
        let refused = states.wait_for(begun).await.ok().and_then(|state| state.refused.clone());
        match refused {
            None => Ok(()),
            Some(why) => Err(self.tracked.fixed.refused(why)),
        }
    }

    /// Whether its supervisor was lost.
    pub(super) fn is_lost(&self) -> bool {
        self.tracked.end().is_some_and(|end| end.reason == EndReason::Lost)
    }

    /// Waits for its end. A command of a session that could not be started has none.
    pub async fn wait(&self) -> Result<Arc<End>, StartError> {
        let _guard = self.tracked.guard();
        let mut states = self.tracked.states();
        let over = |state: &State| state.status.end().is_some() || state.refused.is_some();
        let state = states.wait_for(over).await.map_err(|_| StartError::Lost)?.clone();
        match (state.status.end(), state.refused) {
            (Some(end), _) => Ok(Arc::clone(end)),
            (None, Some(why)) => Err(self.tracked.fixed.refused(why)),
            (None, None) => Err(StartError::Lost),
        }
    }

    /// Waits until no more output can follow, also from leftovers.
    pub async fn wait_closed(&self) {
        let _guard = self.tracked.guard();
        let mut states = self.tracked.states();
        // The sender lives as long as this handle.
        drop(states.wait_for(|state| state.closed).await);
    }

    /// Sends a request that applies only while the execution runs.
    async fn call(&self, request: &Request) -> Result<Response, ControlError> {
        if self.tracked.end().is_some() {
            return Err(ControlError::Ended);
        }
        self.call_any(request).await
    }

    /// Sends a request that also applies to leftovers.
    async fn call_any(&self, request: &Request) -> Result<Response, ControlError> {
        let link = self.tracked.sent_link().await.ok_or(ControlError::Ended)?;
        heard(link.call(request).await)
    }

    /// Ends the whole process tree: `signal` first, SIGKILL after `grace`. The receipt lists the ended processes. If
    /// the execution has ended, ends its leftovers.
    pub async fn kill(&self, signal: i32, grace: Duration) -> Result<KillReceipt, ControlError> {
        check_signal(signal)?;
        let request = Request::Kill { slot: self.tracked.slot(), signal, grace };
        let Some(link) = self.tracked.sent_link().await else {
            return Ok(KillReceipt::default());
        };
        let mut answer = link.call(&request).await;
        let may_run = || self.tracked.end().is_none() || self.tracked.has_leftovers();
        if answer == Err(LinkError::Gone) && may_run() {
            // Perhaps only the connection broke. A repeated kill has no further effect.
            answer = match Inner::liveness_of(&Arc::downgrade(&self.engine), link.nonce).await {
                Some(Liveness::Alive(living)) => living.link.call(&request).await,
                Some(Liveness::Dead) | None => answer,
            };
        }
        match heard(answer) {
            Ok(Response::Receipt(receipt)) => Ok(receipt),
            Ok(_) | Err(ControlError::Ended) => Ok(KillReceipt::default()),
            Err(e) => Err(e),
        }
    }

    /// Sends a signal to all its processes, or to its leftovers after the end.
    pub async fn signal(&self, signal: i32) -> Result<(), ControlError> {
        check_signal(signal)?;
        match self.call_any(&Request::Signal { slot: self.tracked.slot(), signal }).await {
            // Checked after the reply: an execution that is queued now was queued before.
            Err(ControlError::Ended) if self.status() == Status::Starting => Err(ControlError::NotStarted),
            answer => answer.map(drop),
        }
    }

    /// Writes to its standard input. Returns when the bytes are in the pipe. A queued command of a session gets them
    /// when it runs. Concurrent writes are not interleaved.
    pub async fn write_stdin(&self, bytes: impl Into<Vec<u8>>) -> Result<(), ControlError> {
        self.give_stdin(bytes.into(), false).await
    }

    /// Closes its standard input.
    pub async fn close_stdin(&self) -> Result<(), ControlError> {
        self.give_stdin(Vec::new(), true).await
    }

    async fn give_stdin(&self, bytes: Vec<u8>, close: bool) -> Result<(), ControlError> {
        // Other writes wait until all pieces of this one are written.
        let _alone = self.tracked.writing.lock().await;
        let mut rest = bytes.as_slice();
        loop {
            // In pieces, to keep frames small and to apply backpressure.
            let (now, later) = rest.split_at(rest.len().min(1 << 20));
            let close = close && later.is_empty();
            let direct = self.tracked.fixed.terminal.as_ref().map(|terminal| &terminal.direct);
            let told = direct.and_then(DirectInput::begin_queueing);
            let (slot, bytes) = (self.tracked.slot(), Bytes(now.to_vec()));
            self.call(&Request::WriteStdin { slot, bytes, close, direct: told }).await?;
            if let Some(direct) = direct {
                direct.queued(told, None);
            }
            if later.is_empty() {
                return Ok(());
            }
            rest = later;
        }
    }

    /// Returns information on its processes.
    pub async fn inspect(&self) -> Result<Inspection, ControlError> {
        match self.call(&Request::Inspect(self.tracked.slot())).await? {
            Response::Inspected(found) => {
                let crate::protocol::Inspection { waiting_for_input, pids, usage, .. } = found;
                Ok(Inspection { waiting_for_input, pids, usage })
            }
            _ => Err(ControlError::Unsupported),
        }
    }

    /// Sends a request that has no effect if it is repeated. If the connection breaks, sends it again on the next one.
    pub(super) async fn call_again(&self, request: &Request) -> Result<Response, ControlError> {
        if self.tracked.end().is_some() {
            return Err(ControlError::Ended);
        }
        let mut link = self.tracked.sent_link().await.ok_or(ControlError::Ended)?;
        for _ in 0..SEND_ATTEMPTS {
            match link.call(request).await {
                Err(LinkError::Gone) if self.tracked.end().is_none() => {}
                answer => return heard(answer),
            }
            link = self.next_link(&link).await.ok_or(ControlError::Disconnected)?;
        }
        Err(ControlError::Disconnected)
    }

    /// Sends a request that must not be repeated. A request that could not be sent, because the connection is over, is sent
    /// on the next one. If the connection breaks after that, the request may have been carried out.
    pub(super) async fn call_once(&self, request: &Request) -> Result<Response, LinkError> {
        let mut link = self.tracked.sent_link().await.ok_or(LinkError::Gone)?;
        for _ in 0..SEND_ATTEMPTS {
            match link.request(request) {
                Ok(mut answer) => return link.answer(&mut answer).await,
                // The supervisor ignores a request whose end is missing.
                Err(LinkError::Gone) if self.tracked.end().is_none() => {}
                Err(e) => return Err(e),
            }
            link = self.next_link(&link).await.ok_or(LinkError::Gone)?;
        }
        Err(LinkError::Gone)
    }

    /// The connection after one that is over. The task of the old one looks for the supervisor: a second search beside it
    /// would end the connection that the first one has found.
    async fn next_link(&self, link: &Arc<SupervisorLink>) -> Option<Arc<SupervisorLink>> {
        timeout(RECONNECT_TIME, self.tracked.next_link(link)).await.ok().flatten()
    }

    /// Opens its journal. The guard protects the record from removal.
    fn open_journal(&self) -> Result<(JournalReader, RecordGuard), ReadError> {
        let guard = self.tracked.guard().ok_or(ReadError::Removed)?;
        Ok((self.engine.reader(self.tracked.journal)?, guard))
    }

    /// Its processes, also after its end. Empty if its supervisor has ended.
    pub(super) async fn pids(&self) -> Vec<u32> {
        match self.call_any(&Request::Inspect(self.tracked.slot())).await {
            Ok(Response::Inspected(found)) => found.pids,
            _ => Vec::new(),
        }
    }

    /// Scans for leftovers that still run. Returns at most [`MAX_LEFTOVERS`](crate::MAX_LEFTOVERS) of them, and their
    /// total number.
    pub async fn leftovers(&self) -> (Vec<Leftover>, usize) {
        if self.tracked.end().is_none() {
            return Default::default();
        }
        match self.call_any(&Request::Inspect(self.tracked.slot())).await {
            Ok(Response::Inspected(found)) => (found.leftovers.unwrap_or_default(), found.pids.len()),
            _ => Default::default(),
        }
    }

    /// The output so far, at most `limit` bytes per stream: head and tail.
    pub fn output(&self, limit: usize) -> Result<Output, ReadError> {
        let (reader, _guard) = self.open_journal()?;
        Output::read(reader, limit)
    }

    /// Reads bytes of one stream from an offset of that stream, at most the length of the buffer.
    pub fn read(&self, stream: Stream, offset: u64, buffer: &mut [u8]) -> Result<ReadAt, ReadError> {
        self.reader()?.read(stream, offset, buffer)
    }

    /// A reader of the output in pieces, which opens the journal once. The record is protected from removal
    /// meanwhile.
    pub fn reader(&self) -> Result<OutputReader, ReadError> {
        let (reader, guard) = self.open_journal()?;
        Ok(OutputReader::new(reader, Some(guard)))
    }

    /// Follows its record from the point where at most this many last bytes of one stream, or of both, remain. The
    /// record is protected from removal meanwhile.
    pub fn follow_tail(&self, stream: Option<Stream>, bytes: u64) -> Result<Follower, ReadError> {
        let (mut reader, guard) = self.open_journal()?;
        reader.seek_tail(stream.map(Into::into), bytes)?;
        Ok(Follower::new(reader, Arc::clone(&self.tracked), guard))
    }

    /// Follows its record from a cursor. The record is protected from removal meanwhile.
    pub fn follow(&self, cursor: u64) -> Result<Follower, ReadError> {
        let (mut reader, guard) = self.open_journal()?;
        reader.seek(cursor)?;
        Ok(Follower::new(reader, Arc::clone(&self.tracked), guard))
    }
}

pub(super) fn check_signal(signal: i32) -> Result<(), ControlError> {
    if (1..=31).contains(&signal) { Ok(()) } else { Err(ControlError::NoSuchSignal(signal)) }
}

/// Converts a reply of a supervisor to a result for the caller.
fn heard(answer: Result<Response, LinkError>) -> Result<Response, ControlError> {
    match answer {
        Ok(Response::Refused(why)) => Err(ControlError::refused(why)),
        Ok(answer) => Ok(answer),
        Err(LinkError::Gone) => Err(ControlError::Ended),
        Err(LinkError::Busy) => Err(ControlError::Busy),
    }
}
