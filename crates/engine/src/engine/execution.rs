//! [`Execution`]: a handle on anything that runs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Inner;
use super::error::ControlError;
use super::life_cycle::{RecordGuard, State, Tracked};
use super::link::{Link, LinkError, lock};
use super::output::{Follower, Output, ReadAt, Stream};
use super::reader::OutputReader;
use super::recover::Fate;
use super::{ReadError, StartError};
use crate::end::{End, EndReason, KillReceipt, Leftover, Usage};
use crate::id::{ExecutionId, SessionId};
use crate::journal::JournalReader;
use crate::protocol::{Answer, Bytes, Request};

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
    /// How many of these are of standard error. Known when it has ended, and not from a supervisor of an older version.
    pub stderr_bytes: u64,
    /// Whether something that it left when it ended is still running. [`Execution::leftovers`] looks at what.
    pub has_leftovers: bool,
    /// What the caller has put there; see [`CommandSpec::note`](crate::CommandSpec::note).
    pub note: Option<Arc<[u8]>>,
    /// The end of a finished execution that had the same id, and whose record this one replaced. Not known after a restart
    /// of the engine.
    pub replaced: Option<Arc<End>>,
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
        self.tracked.status()
    }

    /// Waits until it runs or is over, and says whether it could be started.
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

    /// Waits until nothing more will come, not even from what it left running.
    pub async fn wait_closed(&self) {
        let _guard = self.tracked.guard();
        let mut states = self.tracked.states();
        // The sender lives as long as this handle.
        drop(states.wait_for(|state| state.closed).await);
    }

    /// Its supervisor, unless nothing of it is left.
    fn link(&self) -> Result<Arc<Link>, ControlError> {
        lock(&self.tracked.link).clone().ok_or(ControlError::Ended)
    }

    /// Asks for something that is done to what runs of it.
    async fn ask(&self, request: &Request) -> Result<Answer, ControlError> {
        if self.tracked.end().is_some() {
            return Err(ControlError::Ended);
        }
        self.ask_of_any(request).await
    }

    /// Asks for something that is done to what it left running as well.
    async fn ask_of_any(&self, request: &Request) -> Result<Answer, ControlError> {
        heard(self.link()?.ask(request).await)
    }

    /// Ends the whole tree: `signal` first, SIGKILL after `grace` for what is still there. The
    /// receipt lists what was ended. Of an execution that has ended it ends what that left running.
    pub async fn kill(&self, signal: i32, grace: Duration) -> Result<KillReceipt, ControlError> {
        check_signal(signal)?;
        let request = Request::Kill { slot: self.tracked.slot(), signal, grace };
        let Ok(link) = self.link() else {
            return Ok(KillReceipt::default());
        };
        let mut answer = link.ask(&request).await;
        let may_run = || self.tracked.end().is_none() || self.tracked.has_leftovers();
        if answer == Err(LinkError::Gone) && may_run() {
            // Only the connection may be over. To kill what was killed already changes nothing.
            answer = match Inner::fate_of(&Arc::downgrade(&self.engine), link.nonce).await {
                Some(Fate::Alive(living)) => living.link.ask(&request).await,
                Some(Fate::Dead) | None => answer,
            };
        }
        match heard(answer) {
            Ok(Answer::Receipt(receipt)) => Ok(receipt),
            Ok(_) | Err(ControlError::Ended) => Ok(KillReceipt::default()),
            Err(e) => Err(e),
        }
    }

    /// Sends a signal to every process of it, or that it left running when it ended, and does nothing more.
    pub async fn signal(&self, signal: i32) -> Result<(), ControlError> {
        check_signal(signal)?;
        match self.ask_of_any(&Request::Signal { slot: self.tracked.slot(), signal }).await {
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

    /// Opens its journal. The guard keeps the record for as long as it is read.
    fn open_journal(&self) -> Result<(JournalReader, RecordGuard), ReadError> {
        let guard = self.tracked.guard().ok_or(ReadError::Removed)?;
        Ok((self.engine.reader(self.tracked.journal)?, guard))
    }

    /// What it left when it ended and is running now, by a look: the first
    /// [`MAX_LEFTOVERS`](crate::MAX_LEFTOVERS) processes, and how many there are.
    pub async fn leftovers(&self) -> (Vec<Leftover>, usize) {
        if self.tracked.end().is_none() {
            return Default::default();
        }
        match self.ask_of_any(&Request::Inspect(self.tracked.slot())).await {
            Ok(Answer::Inspected(found)) => (found.leftovers.unwrap_or_default(), found.pids.len()),
            _ => Default::default(),
        }
    }

    /// What it has written so far, at most `limit` bytes of each stream: the head and the tail.
    pub fn output(&self, limit: usize) -> Result<Output, ReadError> {
        let (reader, _guard) = self.open_journal()?;
        Output::read(reader, limit)
    }

    /// Bytes of one stream from an offset of that stream, at most as many as the buffer holds.
    pub fn read(&self, stream: Stream, offset: u64, buffer: &mut [u8]) -> Result<ReadAt, ReadError> {
        self.reader()?.read(stream, offset, buffer)
    }

    /// What it has written, in pieces, with the journal opened once. Its record is not removed meanwhile.
    pub fn reader(&self) -> Result<OutputReader, ReadError> {
        let (reader, guard) = self.open_journal()?;
        Ok(OutputReader::new(reader, Some(guard)))
    }

    /// Its record from where at most the last bytes of a stream, or of both together, are left, as it
    /// is written. It is not removed meanwhile.
    pub fn follow_tail(&self, stream: Option<Stream>, bytes: u64) -> Result<Follower, ReadError> {
        let (mut reader, guard) = self.open_journal()?;
        reader.seek_tail(stream.map(Into::into), bytes)?;
        Ok(Follower::new(reader, Arc::clone(&self.tracked), guard))
    }

    /// Its record from a cursor on, as it is written. It is not removed meanwhile.
    pub fn follow(&self, cursor: u64) -> Result<Follower, ReadError> {
        let (mut reader, guard) = self.open_journal()?;
        reader.seek(cursor)?;
        Ok(Follower::new(reader, Arc::clone(&self.tracked), guard))
    }
}

pub(super) fn check_signal(signal: i32) -> Result<(), ControlError> {
    if (1..=31).contains(&signal) { Ok(()) } else { Err(ControlError::NoSuchSignal(signal)) }
}

/// What an answer of a supervisor means for the one who asked.
fn heard(answer: Result<Answer, LinkError>) -> Result<Answer, ControlError> {
    match answer {
        Ok(Answer::Refused(why)) => Err(ControlError::refused(why)),
        Ok(answer) => Ok(answer),
        Err(LinkError::Gone) => Err(ControlError::Ended),
        Err(LinkError::Busy) => Err(ControlError::Busy),
    }
}
