//! The engine's connection to one supervisor.
//!
//! Sending never waits: what the socket does not take at once is queued and sent by the link's own
//! task, so that a caller that goes away cannot leave half a frame behind. One task per link reads
//! answers and events and hands them to whoever they are for.
//!
//! The socket is watched for reading only. One that is watched for both, as the runtime's own streams are, wakes a
//! worker each time the supervisor has read something, for nothing.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags,
    SocketType, connect, recv, send, sendmsg, shutdown, socket_with,
};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::sync::{Notify, oneshot};

use super::Inner;
use super::life_cycle::Tracked;
use super::patience::Patience;
use crate::end::EndReason;
use crate::id;
use crate::journal::NewJournal;
use crate::layout::socket_address;
use crate::protocol::{Answer, Bytes, Command, FrameBuffer, FrameError, Request, VERSION, frame};
use crate::sys;

/// How many requests may be unanswered for a journal to go with the next: the kernel allows a user so many files on
/// their way, all supervisors together.
const MOST_FILES: usize = 16;
/// The most bytes that wait to be taken by one supervisor.
const MAX_UNSENT: usize = 256 << 20;

/// How long to wait before the next attempt to send where the socket cannot be watched.
const UNWATCHED_RETRY: Duration = Duration::from_millis(10);

/// Why a link gave no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkError {
    /// The supervisor is gone.
    Gone,
    /// Too much waits to be sent.
    Busy,
}

/// Locks a mutex whose holders never panic half-way; if one did, the data is still whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection to one supervisor.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) nonce: u64,
    /// Which of the engine's settings it was made for; see [`super::pool::Pool`].
    pub(super) generation: u64,
    /// The supervisor's process; 0 as long as it is not known.
    pid: AtomicU32,
    socket: AsyncFd<OwnedFd>,
    patience: Arc<Patience>,
    unsent: Mutex<Vec<u8>>,
    /// Told when there is something to send, or when the link is to end.
    wake: Notify,
    next: AtomicU64,
    pending: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    executions: Mutex<HashMap<u32, Arc<Tracked>>>,
    over: AtomicBool,
    /// It is the engine's connection to this supervisor, and not just a try; its end is looked into.
    serves: AtomicBool,
    /// It is of a version that takes a command's journal with it.
    takes_journals: AtomicBool,
    /// It is of a version that reports when nothing is left of what an execution left running.
    reports_leftovers: AtomicBool,
    renewing: AtomicBool,
    /// Told once its shell is up.
    ready: AtomicBool,
    pub(super) became_ready: Notify,
}

/// The number of a connection's first request: random, so that what a supervisor of version 3 or older still has to say
/// to an earlier engine answers none of this one's. A newer supervisor says it to the earlier engine or not at all.
fn first_number() -> u64 {
    u64::from_ne_bytes(id::random()) >> 2 | 1
}

impl Link {
    /// A socket to connect with.
    pub(super) fn socket() -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
    }

    /// Connects to the supervisor with this nonce.
    pub(super) fn connect(
        socket: OwnedFd,
        folder: &OwnedFd,
        nonce: u64,
        generation: u64,
        patience: Arc<Patience>,
        key: Option<&Bytes>,
    ) -> io::Result<Arc<Self>> {
        connect(&socket, &socket_address(folder, nonce)?)?;
        let socket = sys::watch(socket, Interest::READABLE)?;
        let link = Arc::new(Self {
            nonce,
            generation,
            pid: AtomicU32::new(0),
            socket,
            patience,
            unsent: Mutex::default(),
            wake: Notify::new(),
            next: AtomicU64::new(first_number()),
            pending: Mutex::default(),
            executions: Mutex::default(),
            over: AtomicBool::new(false),
            serves: AtomicBool::new(false),
            takes_journals: AtomicBool::new(true),
            reports_leftovers: AtomicBool::new(true),
            renewing: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            became_ready: Notify::new(),
        });
        // A supervisor hears nothing else before. A fresh one need not answer.
        let _ = link.tell(&Request::Hello(VERSION, key.cloned()));
        Ok(link)
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether the supervisor is gone, even if the link's own task has not noticed yet.
    pub(super) fn is_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(self.socket.get_ref(), PollFlags::empty())];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        self.is_over() || (polled == Ok(1) && fds[0].revents().contains(PollFlags::HUP))
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// A number that goes up with everything that is asked of it.
    pub(super) fn asked(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Notes that its run is over and that it may soon be ready for another; says whether that is new.
    pub(super) fn set_renewing(&self, renewing: bool) -> bool {
        self.renewing.swap(renewing, Ordering::AcqRel) != renewing
    }

    /// Sends a request that has no answer, or whose answer comes as events.
    pub(super) fn tell(&self, request: &Request) -> Result<(), LinkError> {
        self.send(&frame(0, request))
    }

    /// Sends a request; the answer comes through the receiver.
    pub(super) fn request(&self, request: &Request) -> Result<oneshot::Receiver<Answer>, LinkError> {
        self.answered(|number| self.send(&frame(number, request)))
    }

    /// Sends a command with its journal, open, so that the supervisor need not open and read it before the command can
    /// begin. Where the socket has no room for it, the command goes without.
    pub(super) fn start(
        &self,
        command: Command,
        journal: NewJournal,
    ) -> Result<oneshot::Receiver<Answer>, LinkError> {
        let NewJournal { file, key } = journal;
        let takes = self.takes_journals.load(Ordering::Acquire) && lock(&self.pending).len() < MOST_FILES;
        let mut request = Request::Start(Box::new(Command { journal: takes.then_some(key), ..command }));
        self.answered(|number| {
            if takes && self.send_with(&frame(number, &request), &file)? {
                return Ok(());
            }
            if let Request::Start(command) = &mut request {
                command.journal = None;
            }
            self.send(&frame(number, &request))
        })
    }

    fn answered(
        &self,
        send: impl FnOnce(u64) -> Result<(), LinkError>,
    ) -> Result<oneshot::Receiver<Answer>, LinkError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        lock(&self.pending).insert(number, sender);
        // Checked after the insertion: an end that came before it has not seen it.
        if self.is_over() {
            lock(&self.pending).remove(&number);
            return Err(LinkError::Gone);
        }
        if let Err(e) = send(number) {
            lock(&self.pending).remove(&number);
            return Err(e);
        }
        Ok(receiver)
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn ask(&self, request: &Request) -> Result<Answer, LinkError> {
        self.answer(&mut self.request(request)?).await
    }

    /// Waits for an answer. It may take long; but not because a command has stopped the supervisor.
    pub(super) async fn answer(&self, answer: &mut oneshot::Receiver<Answer>) -> Result<Answer, LinkError> {
        let _waiting = self.patience.wait_for(self.pid.load(Ordering::Acquire));
        answer.await.map_err(|_| LinkError::Gone)
    }

    /// Notes which version of the protocol an adopted supervisor speaks.
    pub(super) fn is_version(&self, version: u16) {
        self.takes_journals.store(version >= 3, Ordering::Release);
        self.reports_leftovers.store(version >= 4, Ordering::Release);
    }

    pub(super) fn reports_leftovers(&self) -> bool {
        self.reports_leftovers.load(Ordering::Acquire)
    }

    /// Makes it the engine's connection to this supervisor.
    pub(super) fn serve(&self) {
        self.serves.store(true, Ordering::Release);
    }

    /// Ends the connection.
    pub(super) fn close(&self) {
        let _ = shutdown(self.socket.get_ref(), Shutdown::Both);
    }

    /// Notes which process the supervisor is.
    pub(super) fn is_process(&self, pid: u32) {
        self.pid.store(pid, Ordering::Release);
    }

    fn send(&self, bytes: &[u8]) -> Result<(), LinkError> {
        if self.is_over() {
            return Err(LinkError::Gone);
        }
        self.send_in_turn(bytes, lock(&self.unsent))
    }

    /// Sends bytes with a file, if they can go at once; says whether.
    fn send_with(&self, bytes: &[u8], file: &OwnedFd) -> Result<bool, LinkError> {
        if self.is_over() {
            return Err(LinkError::Gone);
        }
        let unsent = lock(&self.unsent);
        if !unsent.is_empty() {
            return Ok(false);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
        let parts = [IoSlice::new(bytes)];
        let flags = SendFlags::NOSIGNAL;
        match rustix::io::retry_on_intr(|| sendmsg(self.socket.get_ref(), &parts, &mut ancillary, flags)) {
            // The file goes with the first byte.
            Ok(sent) => self.send_in_turn(&bytes[sent..], unsent).map(|()| true),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(self.give_up()),
            // No room; or as many files are on their way as the kernel allows a user.
            Err(_) => Ok(false),
        }
    }

    /// Ends a link over which nothing can be sent any more, so that what it has is told its end.
    fn give_up(&self) -> LinkError {
        self.close();
        LinkError::Gone
    }

    fn send_in_turn(&self, mut bytes: &[u8], mut unsent: MutexGuard<'_, Vec<u8>>) -> Result<(), LinkError> {
        if unsent.is_empty() {
            while !bytes.is_empty() {
                match self.send_some(bytes) {
                    Ok(n) => bytes = &bytes[n..],
                    Err(Errno::AGAIN) => break,
                    Err(_) => return Err(self.give_up()),
                }
            }
            if bytes.is_empty() {
                return Ok(());
            }
        }
        if unsent.len() + bytes.len() > MAX_UNSENT {
            return Err(LinkError::Busy);
        }
        unsent.extend_from_slice(bytes);
        drop(unsent);
        self.wake.notify_one();
        Ok(())
    }

    fn send_some(&self, bytes: &[u8]) -> Result<usize, Errno> {
        rustix::io::retry_on_intr(|| send(self.socket.get_ref(), bytes, SendFlags::NOSIGNAL))
    }

    /// Waits until the socket may take more. It is watched for that only for so long.
    async fn writable(&self) {
        let watched = self.socket.get_ref().try_clone().and_then(|own| sys::watch(own, Interest::WRITABLE));
        match watched {
            Ok(socket) => drop(socket.writable().await),
            // That this process has no descriptor or no memory for it says nothing of the supervisor.
            Err(_) => tokio::time::sleep(UNWATCHED_RETRY).await,
        }
    }

    fn send_more(&self) -> io::Result<()> {
        let mut unsent = lock(&self.unsent);
        let mut sent = 0;
        while sent < unsent.len() {
            match self.send_some(&unsent[sent..]) {
                Ok(n) => sent += n,
                Err(Errno::AGAIN) => break,
                Err(e) => return Err(e.into()),
            }
        }
        unsent.drain(..sent);
        if unsent.is_empty() {
            *unsent = Vec::new();
        }
        Ok(())
    }

    /// Makes an execution hear of what happens to it.
    pub(super) fn track(&self, execution: Arc<Tracked>) {
        lock(&self.executions).insert(execution.slot(), execution);
    }

    /// Lets go of an execution; says whether it was tracked.
    pub(super) fn untrack(&self, slot: u32) -> bool {
        lock(&self.executions).remove(&slot).is_some()
    }

    /// The executions that this supervisor still holds.
    pub(super) fn tracked(&self) -> Vec<Arc<Tracked>> {
        lock(&self.executions).values().cloned().collect()
    }

    /// Runs the link until the supervisor is gone.
    pub(super) async fn run(self: Arc<Self>, engine: Weak<Inner>) {
        let mut frames = FrameBuffer::default();
        let mut chunk = Vec::new();
        loop {
            let busy = !lock(&self.unsent).is_empty();
            tokio::select! {
                readable = self.socket.readable() => {
                    let received = readable.and_then(|ready| self.receive(ready, &mut frames, &mut chunk, &engine));
                    if received.is_err() {
                        break;
                    }
                }
                () = self.writable(), if busy => {
                    if self.send_more().is_err() {
                        break;
                    }
                }
                () = self.wake.notified() => {}
            }
        }
        self.over.store(true, Ordering::Release);
        // Handles on executions may keep this link; the supervisor is to know that it is over.
        self.close();
        // Whoever waits for an answer learns that none will come.
        lock(&self.pending).clear();
        self.became_ready.notify_waiters();
        if self.serves.load(Ordering::Acquire)
            && let Some(engine) = engine.upgrade()
        {
            engine.link_over(&self);
        }
    }

    fn receive(
        self: &Arc<Self>,
        mut ready: AsyncFdReadyGuard<'_, OwnedFd>,
        frames: &mut FrameBuffer,
        chunk: &mut Vec<u8>,
        engine: &Weak<Inner>,
    ) -> io::Result<()> {
        chunk.resize(4 << 10, 0);
        loop {
            match recv(self.socket.get_ref(), &mut chunk[..], RecvFlags::empty()) {
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((_, n)) => {
                    if n < chunk.len() {
                        // That was all; whatever has come since, or its end, makes it ready again.
                        ready.clear_ready();
                    }
                    frames.extend(&chunk[..n]);
                    self.dispatch(frames, engine)?;
                    if n < chunk.len() {
                        break;
                    }
                    if chunk.len() < 64 << 10 {
                        chunk.resize(64 << 10, 0);
                    }
                }
                Err(Errno::AGAIN) => {
                    ready.clear_ready();
                    break;
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        // Ten thousand idle links must not each keep a buffer.
        *chunk = Vec::new();
        Ok(())
    }

    fn dispatch(self: &Arc<Self>, frames: &mut FrameBuffer, engine: &Weak<Inner>) -> io::Result<()> {
        loop {
            match frames.next::<Answer>() {
                Ok(Some(envelope)) if envelope.request == 0 => self.event(envelope.body, engine),
                Ok(Some(envelope)) => {
                    if let Some(sender) = lock(&self.pending).remove(&envelope.request) {
                        // The one who asked may have gone.
                        drop(sender.send(envelope.body));
                    }
                }
                Ok(None) => return Ok(()),
                // An event of a newer supervisor; what matters is in the journal too.
                Err(FrameError::Unknown(_)) => {}
                Err(e) => return Err(io::Error::other(e)),
            }
        }
    }

    fn event(self: &Arc<Self>, event: Answer, engine: &Weak<Inner>) {
        let find = |slot: u32| lock(&self.executions).get(&slot).cloned();
        match event {
            Answer::Ready => {
                self.ready.store(true, Ordering::Release);
                self.became_ready.notify_waiters();
            }
            Answer::Renewed => {
                if let Some(engine) = engine.upgrade() {
                    engine.renewed(self);
                }
            }
            Answer::Started { slot, pid } => {
                if let (Some(execution), Some(engine)) = (find(slot), engine.upgrade()) {
                    engine.execution_started(&execution, pid);
                }
            }
            Answer::NotStarted { slot, why } => {
                if let (Some(execution), Some(engine)) = (find(slot), engine.upgrade()) {
                    self.untrack(slot);
                    engine.execution_refused(&execution, why);
                }
            }
            Answer::Ended { slot, end, position, unrecorded, stderr_bytes } => {
                if let (Some(execution), Some(engine)) = (find(slot), engine.upgrade()) {
                    execution.set_stderr_bytes(stderr_bytes.unwrap_or(0));
                    if let Some(lengths) = unrecorded
                        && engine.record_end(self.nonce, &execution, &end, lengths)
                    {
                        // If it does not come to know, the next engine is told of the end once more.
                        let _ = self.tell(&Request::EndRecorded(slot));
                    }
                    engine.execution_ended(&execution, end, position);
                }
            }
            Answer::Closed { slot, position } => {
                if let (Some(execution), Some(engine)) = (find(slot), engine.upgrade()) {
                    if !execution.has_leftovers() {
                        self.untrack(slot);
                    }
                    engine.execution_closed(&execution, position);
                    // After a run that it ended itself, a supervisor ends too.
                    let is_reusable = execution.end().is_some_and(|end| {
                        end.leftover_count == 0
                            && matches!(end.reason, EndReason::Exited | EndReason::Signaled)
                    });
                    if is_reusable && execution.fixed.session.is_none() {
                        engine.renewing(self);
                    }
                }
            }
            Answer::Gone { slot } => {
                if let (Some(execution), Some(engine)) = (find(slot), engine.upgrade()) {
                    self.untrack(slot);
                    engine.execution_leftovers_gone(&execution);
                }
            }
            Answer::Restarted(_) => {
                if let Some(engine) = engine.upgrade() {
                    engine.session_restarted(self);
                }
            }
            Answer::Grew { slot, position } => {
                if let Some(execution) = find(slot) {
                    execution.grew(position);
                }
            }
            _ => {}
        }
    }
}
