//! The engine's connection to one supervisor.
//!
//! Sending never blocks. Data that the socket does not accept at once is queued and sent by the task of the link, so
//! a cancelled caller cannot leave half a frame behind. One task per link reads replies and events and dispatches
//! them.
//!
//! The socket is polled only for reading. The runtime's own streams are polled for both, which wakes a worker without need
//! each time the supervisor has read something.

mod events;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, connect, send, shutdown, socket_with,
};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::sync::{Notify, oneshot};

use super::Inner;
use super::life_cycle::Tracked;
use super::slow_replies::SlowReplies;
use crate::descriptors::{receive_with_files, send_with_file};
use crate::id;
use crate::journal::NewJournal;
use crate::layout::socket_address;
use crate::protocol::{Bytes, Command, FrameBuffer, Request, Response, VERSION, frame};
use crate::sys;

/// Maximum number of unanswered requests with which a journal is sent: the kernel limits the descriptors in transit
/// per user, for all supervisors together.
const MOST_FILES: usize = 16;
/// Maximum number of unsent bytes for one supervisor.
const MAX_UNSENT: usize = 256 << 20;

/// Size of the first read, and of the next ones if there is more data.
const SMALL_READ: usize = 4 << 10;
const LARGE_READ: usize = 64 << 10;

/// Delay before the next attempt to send if the socket cannot be polled.
const UNWATCHED_RETRY: Duration = Duration::from_millis(10);

/// Why a request got no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkError {
    /// The supervisor is dead.
    Gone,
    /// Too many unsent bytes.
    Busy,
}

/// Locks a mutex. The data is consistent even after a panic of a holder.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Received data that is not complete yet.
#[derive(Debug, Default)]
struct Incoming {
    frames: FrameBuffer,
    /// Files that came before their message, in order; `None` for a file for which no descriptor was free.
    files: VecDeque<Option<OwnedFd>>,
}

/// A connection to one supervisor.
#[derive(Debug)]
pub(super) struct SupervisorLink {
    pub(super) nonce: u64,
    /// The generation of settings for which it was created; see [`super::pool::Pool`].
    pub(super) generation: u64,
    /// Process id of the supervisor; 0 if unknown.
    pid: AtomicU32,
    socket: AsyncFd<OwnedFd>,
    slow_replies: Arc<SlowReplies>,
    unsent: Mutex<Vec<u8>>,
    /// Notified when there is data to send, or when the link must end.
    wake: Notify,
    next: AtomicU64,
    pending: Mutex<HashMap<u64, oneshot::Sender<Response>>>,
    executions: Mutex<HashMap<u32, Arc<Tracked>>>,
    over: AtomicBool,
    /// Whether it is the engine's connection to this supervisor, not only a probe; its end is then handled.
    serves: AtomicBool,
    /// Whether the supervisor's version accepts a journal with a command.
    takes_journals: AtomicBool,
    /// Whether the supervisor's version reports when the last leftover of an execution has ended.
    reports_leftovers: AtomicBool,
    /// Whether the supervisor's version shares the master of a terminal.
    shares_terminals: AtomicBool,
    renewing: AtomicBool,
    /// Set once its shell is ready.
    ready: AtomicBool,
    pub(super) became_ready: Notify,
}

/// The number of the first request of a connection. It is random, so that a late reply of a supervisor of version 3
/// or older to an earlier engine does not match. Newer supervisors reply only on the connection of the request.
fn first_number() -> u64 {
    u64::from_ne_bytes(id::random()) >> 2 | 1
}

impl SupervisorLink {
    /// Creates a socket to connect with.
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
        slow_replies: Arc<SlowReplies>,
        key: Option<&Bytes>,
    ) -> io::Result<Arc<Self>> {
        connect(&socket, &socket_address(folder, nonce)?)?;
        let socket = sys::watch(socket, Interest::READABLE)?;
        let link = Arc::new(Self {
            nonce,
            generation,
            pid: AtomicU32::new(0),
            socket,
            slow_replies,
            unsent: Mutex::default(),
            wake: Notify::new(),
            next: AtomicU64::new(first_number()),
            pending: Mutex::default(),
            executions: Mutex::default(),
            over: AtomicBool::new(false),
            serves: AtomicBool::new(false),
            takes_journals: AtomicBool::new(true),
            reports_leftovers: AtomicBool::new(true),
            shares_terminals: AtomicBool::new(true),
            renewing: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            became_ready: Notify::new(),
        });
        // `Hello` must be the first request. A new supervisor need not reply.
        let _ = link.notify(&Request::Hello(VERSION, key.cloned()));
        Ok(link)
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether the supervisor is dead, even if the task of the link has not noticed yet.
    pub(super) fn is_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(self.socket.get_ref(), PollFlags::empty())];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        self.is_over() || (polled == Ok(1) && fds[0].revents().contains(PollFlags::HUP))
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// A counter of all requests.
    pub(super) fn request_count(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Sets whether its run is finished and it may soon be ready for another. Returns whether this is a change.
    pub(super) fn set_renewing(&self, renewing: bool) -> bool {
        self.renewing.swap(renewing, Ordering::AcqRel) != renewing
    }

    /// Sends a request without a reply, or whose reply is an event.
    pub(super) fn notify(&self, request: &Request) -> Result<(), LinkError> {
        self.send(&frame(0, request))
    }

    /// Sends a request; the reply arrives through the receiver.
    pub(super) fn request(&self, request: &Request) -> Result<oneshot::Receiver<Response>, LinkError> {
        self.answered(|number| self.send(&frame(number, request)))
    }

    /// Sends a command with its open journal, so that the supervisor need not open and read it first. If the socket
    /// has no room, the command is sent without it.
    pub(super) fn start(
        &self,
        command: Command,
        journal: NewJournal,
    ) -> Result<oneshot::Receiver<Response>, LinkError> {
        let NewJournal { file, key, .. } = journal;
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
    ) -> Result<oneshot::Receiver<Response>, LinkError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        lock(&self.pending).insert(number, sender);
        // Checked after the insertion: a link that ended before did not see the request.
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

    /// Sends a request and waits for its reply.
    pub(super) async fn call(&self, request: &Request) -> Result<Response, LinkError> {
        self.answer(&mut self.request(request)?).await
    }

    /// Waits for a reply. It may take long, but not because a command has stopped the supervisor.
    pub(super) async fn answer(
        &self,
        answer: &mut oneshot::Receiver<Response>,
    ) -> Result<Response, LinkError> {
        let _waiting = self.slow_replies.wait_for(self.pid.load(Ordering::Acquire));
        answer.await.map_err(|_| LinkError::Gone)
    }

    /// Sets the protocol version of an adopted supervisor.
    pub(super) fn is_version(&self, version: u16) {
        self.takes_journals.store(version >= 3, Ordering::Release);
        self.reports_leftovers.store(version >= 4, Ordering::Release);
        self.shares_terminals.store(version >= 6, Ordering::Release);
    }

    /// Requests the master of a terminal, if the supervisor's version shares it.
    pub(super) fn request_master(&self, slot: u32) {
        if self.shares_terminals.load(Ordering::Acquire) {
            // Without it, all input goes through the supervisor.
            let _ = self.notify(&Request::ShareTerminal(slot));
        }
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

    /// Sets the process id of the supervisor.
    pub(super) fn is_process(&self, pid: u32) {
        self.pid.store(pid, Ordering::Release);
    }

    fn send(&self, bytes: &[u8]) -> Result<(), LinkError> {
        if self.is_over() {
            return Err(LinkError::Gone);
        }
        self.send_in_turn(bytes, lock(&self.unsent))
    }

    /// Sends bytes with a file if that is possible at once. Returns whether it was.
    fn send_with(&self, bytes: &[u8], file: &OwnedFd) -> Result<bool, LinkError> {
        if self.is_over() {
            return Err(LinkError::Gone);
        }
        let unsent = lock(&self.unsent);
        if !unsent.is_empty() {
            return Ok(false);
        }
        match send_with_file(self.socket.get_ref(), bytes, file.as_fd()) {
            // The file is sent with the first byte.
            Ok(sent) => self.send_in_turn(&bytes[sent..], unsent).map(|()| true),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(self.give_up()),
            // No room, or the kernel's limit of descriptors in transit is reached.
            Err(_) => Ok(false),
        }
    }

    /// Ends a link that cannot send any more, so that its executions are recovered.
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

    /// Waits until the socket is writable. It is polled for that only during this call.
    async fn writable(&self) {
        let watched = self.socket.get_ref().try_clone().and_then(|own| sys::watch(own, Interest::WRITABLE));
        match watched {
            Ok(socket) => drop(socket.writable().await),
            // A lack of descriptors or memory in this process does not concern the supervisor.
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

    /// Registers an execution for its events.
    pub(super) fn track(&self, execution: Arc<Tracked>) {
        lock(&self.executions).insert(execution.slot(), execution);
    }

    /// Unregisters an execution. Returns whether it was registered.
    pub(super) fn untrack(&self, slot: u32) -> bool {
        lock(&self.executions).remove(&slot).is_some()
    }

    /// The executions that this supervisor still holds.
    pub(super) fn tracked(&self) -> Vec<Arc<Tracked>> {
        lock(&self.executions).values().cloned().collect()
    }

    /// Runs the link until the supervisor disconnects.
    pub(super) async fn run(self: Arc<Self>, engine: Weak<Inner>) {
        let mut incoming = Incoming::default();
        loop {
            let busy = !lock(&self.unsent).is_empty();
            tokio::select! {
                readable = self.socket.readable() => {
                    let received = readable.and_then(|ready| self.receive(ready, &mut incoming, &engine));
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
        // Handles of executions may keep this link alive; close it so that the supervisor notices.
        self.close();
        // Callers that wait for a reply get an error.
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
        incoming: &mut Incoming,
        engine: &Weak<Inner>,
    ) -> io::Result<()> {
        // Enough for all reports of a command. Only a link with more data allocates a buffer: ten thousand idle links
        // must not keep one each.
        let mut small = [0; SMALL_READ];
        let mut large = Vec::new();
        loop {
            let chunk = if large.is_empty() { &mut small[..] } else { &mut large[..] };
            let most = chunk.len();
            let files = incoming.files.len();
            match receive_with_files(self.socket.get_ref(), chunk, &mut incoming.files) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(received) => {
                    let is_all = received < most && incoming.files.len() == files;
                    if is_all {
                        // Everything was read; new data, or the end, makes it ready again.
                        ready.clear_ready();
                    }
                    incoming.frames.extend(&chunk[..received]);
                    self.dispatch(incoming, engine)?;
                    if is_all {
                        break;
                    }
                    large.resize(LARGE_READ, 0);
                }
                Err(Errno::AGAIN) => {
                    ready.clear_ready();
                    break;
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}
