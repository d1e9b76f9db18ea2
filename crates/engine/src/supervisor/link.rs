//! A supervisor's connection to the engine: at most one, replaced when a new engine connects.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::{Errno, write};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SocketFlags, accept_with};
use rustix::process::geteuid;

use crate::descriptors::{receive_with_files, send_with_file};
use crate::journal::NewJournal;
use crate::protocol::{Bytes, Envelope, FrameBuffer, FrameError, Refusal, Request, Response, frame};

/// Maximum delay of the reports that a command was accepted and started, to send them together with its end.
const NEWS_DELAY: Duration = Duration::from_micros(300);
/// Maximum number of unread bytes of an engine. An engine that does not read is disconnected; it may reconnect and
/// loses nothing, since everything is in the journals.
const MAX_BACKLOG: usize = 128 << 20;

/// Maximum time to send the last replies.
const FINISH_TIME: Duration = Duration::from_secs(2);
/// Maximum number of unauthenticated connections, and the time that each has to authenticate.
const MAX_UNAUTHENTICATED: usize = 32;
const AUTHENTICATION_TIME: Duration = Duration::from_secs(2);
/// Delay before the next accept after a lack of descriptors: the listener would be readable all the time.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// A request, with its journal if one was sent. Its number is the link's own and never reused: see
/// [`EngineLink::unanswered`].
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) envelope: Envelope<Request>,
    pub(crate) journal: Option<NewJournal>,
}

/// When to stop reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// After a read that returns less than requested.
    Short,
    /// When no data is left.
    Empty,
}

/// The listener and the connected engine, if any.
#[derive(Debug)]
pub(crate) struct EngineLink {
    listener: OwnedFd,
    /// The key that an engine must present; `None` accepts any connection, in tests.
    key: Option<Bytes>,
    /// Unauthenticated connections.
    unauthenticated: Vec<Unauthenticated>,
    engine: Option<OwnedFd>,
    frames: FrameBuffer,
    /// Files received with requests, in order; `None` for a file for which no descriptor was free.
    files: VecDeque<Option<OwnedFd>>,
    unsent: Vec<u8>,
    /// Requests of this connection without a reply: the engine's number by our own. Engines number their requests
    /// independently, so a late reply for one engine could match a request of the next. A number is in this map only
    /// as long as its connection, and `send` drops a reply whose number is not.
    unanswered: BTreeMap<u64, u64>,
    next_number: u64,
    connected: bool,
    /// Time to send unsent data; `None` without data, or without room.
    due: Option<Instant>,
    /// No connection is accepted before this time.
    accept_after: Option<Instant>,
}

/// The result of accepting connections.
#[derive(Debug, Default)]
pub(crate) struct Accepted {
    /// Remaining requests of connections that were replaced. They are handled too: an engine that was killed right after
    /// it sent them has already claimed their journals.
    pub(crate) old: Vec<Incoming>,
    /// Requests of the engine that has connected, if one has.
    pub(crate) new: Option<Vec<Incoming>>,
}

impl EngineLink {
    pub(crate) fn new(listener: OwnedFd, key: Option<Bytes>) -> Self {
        Self {
            listener,
            key,
            unauthenticated: Vec::new(),
            engine: None,
            frames: FrameBuffer::default(),
            files: VecDeque::new(),
            unsent: Vec::new(),
            unanswered: BTreeMap::new(),
            next_number: 1,
            connected: false,
            due: None,
            accept_after: None,
        }
    }

    /// The descriptors that a new engine makes readable; [`accept`](Self::accept) handles them. None while an engine
    /// is connected: there is one at a time, and its connection ends with it.
    pub(crate) fn expected(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let is_expected = self.engine.is_none();
        let listener = (is_expected && self.accept_after.is_none()).then(|| self.listener.as_fd());
        let unauthenticated =
            self.unauthenticated.iter().filter(move |_| is_expected).map(|s| s.socket.as_fd());
        listener.into_iter().chain(unauthenticated)
    }

    pub(crate) fn engine(&self) -> Option<BorrowedFd<'_>> {
        self.engine.as_ref().map(AsFd::as_fd)
    }

    /// Whether an engine has ever been connected.
    pub(crate) fn was_connected(&self) -> bool {
        self.connected
    }

    /// Whether the loop should wait until the socket is writable.
    pub(crate) fn is_blocked(&self) -> bool {
        self.due.is_none() && !self.unsent.is_empty()
    }

    /// Accepts connections.
    pub(crate) fn accept(&mut self) -> Accepted {
        let mut accepted = Accepted::default();
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..MAX_UNAUTHENTICATED {
            let new = match accept_with(&self.listener, flags) {
                Ok(new) => new,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.accept_after = Some(Instant::now() + ACCEPT_RETRY);
                    break;
                }
            };
            if self.key.is_none() {
                self.serve(new, FrameBuffer::default(), VecDeque::new(), &mut accepted);
            } else if is_same_user(&new) {
                // An engine authenticates at once, so the oldest connection is not an engine.
                if self.unauthenticated.len() == MAX_UNAUTHENTICATED {
                    self.unauthenticated.remove(0);
                }
                self.unauthenticated.push(Unauthenticated::new(new));
            }
        }
        self.authenticate(&mut accepted);
        accepted
    }

    /// Switches to an engine.
    fn serve(
        &mut self,
        engine: OwnedFd,
        frames: FrameBuffer,
        files: VecDeque<Option<OwnedFd>>,
        accepted: &mut Accepted,
    ) {
        accepted.old.append(&mut accepted.new.take().unwrap_or_default());
        accepted.old.append(&mut self.receive_until(Until::Empty));
        self.disconnect();
        self.engine = Some(engine);
        self.frames = frames;
        self.files = files;
        self.connected = true;
        accepted.new = Some(self.take_frames().0);
    }

    /// Reads from unauthenticated connections. An authenticated one is served; one that sends anything else, or too
    /// slowly, is closed.
    fn authenticate(&mut self, accepted: &mut Accepted) {
        let Some(key) = self.key.clone() else { return };
        for mut connection in std::mem::take(&mut self.unauthenticated) {
            match connection.read_hello(&key) {
                HelloRead::Nothing => self.unauthenticated.push(connection),
                HelloRead::Wrong => {}
                HelloRead::Key => {
                    self.serve(connection.socket, connection.frames, connection.files, accepted);
                }
            }
        }
    }

    /// Returns the requests received so far, or the first of them: the rest makes the next poll return at once. Drops
    /// the connection at its end.
    pub(crate) fn receive(&mut self) -> Vec<Incoming> {
        self.receive_until(Until::Short)
    }

    fn receive_until(&mut self, until: Until) -> Vec<Incoming> {
        let mut requests = Vec::new();
        let mut chunk = [0; 4 << 10];
        let (mut over, mut more) = (false, true);
        while more && let Some(engine) = &self.engine {
            match receive_with_files(engine, &mut chunk, &mut self.files) {
                Ok(0) => over = true,
                Ok(n) => {
                    self.frames.extend(&chunk[..n]);
                    // A file received with a request makes a read short, even if more data follows.
                    more = until == Until::Empty || n == chunk.len();
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                Err(_) => over = true,
            }
            let (mut taken, is_broken) = self.take_frames();
            requests.append(&mut taken);
            if over || is_broken {
                self.disconnect();
            }
        }
        requests
    }

    /// The complete requests received, and whether the following data is invalid.
    fn take_frames(&mut self) -> (Vec<Incoming>, bool) {
        let mut requests = Vec::new();
        loop {
            match self.frames.next::<Request>() {
                Ok(Some(mut envelope)) => {
                    envelope.request = self.number(envelope.request);
                    let journal = self.journal_of(&envelope.body);
                    requests.push(Incoming { envelope, journal });
                }
                Ok(None) => return (requests, false),
                Err(FrameError::Unknown(request)) => {
                    let request = self.number(request);
                    self.send(request, &Response::Refused(Refusal::Unsupported));
                }
                Err(FrameError::TooLong(_) | FrameError::Malformed) => return (requests, true),
            }
        }
    }

    /// Assigns a number to a request; 0 if it expects no reply.
    fn number(&mut self, engines: u64) -> u64 {
        if engines == 0 {
            return 0;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.unanswered.insert(number, engines);
        number
    }

    /// The journal received with a request, if any.
    fn journal_of(&mut self, request: &Request) -> Option<NewJournal> {
        let Request::Start(command) = request else { return None };
        let key = command.journal?;
        // A file of an unreadable request belongs to no other request.
        while let Some(file) = self.files.pop_front() {
            match file {
                Some(file) if key.is_of(&file) => {
                    return Some(NewJournal { file, key, silent_bytes: None });
                }
                Some(_) => {}
                None => break,
            }
        }
        None
    }

    fn disconnect(&mut self) {
        self.engine = None;
        self.frames = FrameBuffer::default();
        self.files.clear();
        self.unsent = Vec::new();
        self.unanswered.clear();
        self.due = None;
    }

    /// Sends to the engine, if connected; request 0 is an event. A reply goes to the connection of its request, or is
    /// dropped. All messages of one iteration of the loop are sent together at its end, because each write wakes the
    /// engine.
    pub(crate) fn send(&mut self, request: u64, answer: &Response) {
        // Most commands end before the report of their start is useful.
        let can_wait = matches!(answer, Response::Accepted | Response::Started { .. });
        self.send_within(request, answer, if can_wait { NEWS_DELAY } else { Duration::ZERO });
    }

    /// Sends a reply together with the next message, which is expected at once.
    pub(crate) fn send_with_next(&mut self, request: u64, answer: &Response) {
        self.send_within(request, answer, NEWS_DELAY);
    }

    /// Sends an event with a file, unless earlier messages wait for room.
    pub(crate) fn send_file(&mut self, event: &Response, file: BorrowedFd<'_>) {
        self.flush();
        let Some(engine) = self.engine.as_ref().filter(|_| self.unsent.is_empty()) else { return };
        let bytes = frame(0, event);
        // If there is no room for it, the engine gets none.
        if let Ok(sent) = send_with_file(engine, &bytes, file) {
            self.unsent.extend_from_slice(&bytes[sent..]);
        }
    }

    fn send_within(&mut self, request: u64, answer: &Response, delay: Duration) {
        if self.engine.is_none() {
            return;
        }
        let request = match request {
            0 => 0,
            number => match self.unanswered.remove(&number) {
                Some(engines) => engines,
                None => return,
            },
        };
        self.unsent.extend_from_slice(&frame(request, answer));
        let due = Instant::now() + delay;
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
        if self.unsent.len() > MAX_BACKLOG {
            self.flush();
        }
        if self.unsent.len() > MAX_BACKLOG {
            self.disconnect();
        }
    }

    /// Time of the next send.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        let unauthenticated = self.unauthenticated.iter().map(|connection| connection.until);
        unauthenticated.chain(self.due).chain(self.accept_after).min()
    }

    /// Closes connections that have not authenticated in time, and accepts connections again.
    pub(crate) fn close_unauthenticated(&mut self, now: Instant) {
        self.unauthenticated.retain(|connection| connection.until > now);
        self.accept_after.take_if(|after| *after <= now);
    }

    /// Sends what is due.
    pub(crate) fn flush_due(&mut self) {
        if self.due.is_some_and(|due| due <= Instant::now()) || self.is_blocked() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.due = None;
        let Some(engine) = &self.engine else { return };
        let mut sent = 0;
        while sent < self.unsent.len() {
            match write(engine, &self.unsent[sent..]) {
                Ok(n) => sent += n,
                Err(Errno::INTR) => {}
                // The next read detects the end of the connection.
                Err(_) => break,
            }
        }
        self.unsent.drain(..sent);
        if self.unsent.is_empty() && self.unsent.capacity() > 64 << 10 {
            self.unsent = Vec::new();
        }
    }

    /// Waits briefly for the last replies to be sent, before the supervisor exits.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if let Some(engine) = &self.engine {
            rustix::io::ioctl_fionbio(engine, false)?;
            // A stopped engine does not read. Everything is in the journals.
            set_socket_timeout(engine, Timeout::Send, Some(FINISH_TIME))?;
            self.flush();
        }
        Ok(())
    }
}

/// An unauthenticated connection.
#[derive(Debug)]
struct Unauthenticated {
    socket: OwnedFd,
    frames: FrameBuffer,
    files: VecDeque<Option<OwnedFd>>,
    until: Instant,
}

/// Result of reading from an unauthenticated connection.
enum HelloRead {
    Nothing,
    Key,
    Wrong,
}

impl Unauthenticated {
    fn new(socket: OwnedFd) -> Self {
        let until = Instant::now() + AUTHENTICATION_TIME;
        Self { socket, frames: FrameBuffer::default(), files: VecDeque::new(), until }
    }

    /// Reads the first request, which must be a `Hello` with the key.
    fn read_hello(&mut self, key: &Bytes) -> HelloRead {
        // One read: a `Hello` is shorter, and an engine sends it in one piece.
        let mut chunk = [0; 4 << 10];
        match receive_with_files(&self.socket, &mut chunk, &mut self.files) {
            Ok(0) => return HelloRead::Wrong,
            Ok(n) => self.frames.extend(&chunk[..n]),
            Err(Errno::AGAIN | Errno::INTR) => return HelloRead::Nothing,
            Err(_) => return HelloRead::Wrong,
        }
        match self.frames.next::<Request>() {
            Ok(Some(Envelope { body: Request::Hello(_, Some(said)), .. })) if is_same(&said.0, &key.0) => {
                HelloRead::Key
            }
            _ => HelloRead::Wrong,
        }
    }
}

/// Compares in constant time.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Whether the peer is a process of this user or of root.
fn is_same_user(socket: &OwnedFd) -> bool {
    let user = rustix::net::sockopt::socket_peercred(socket).map(|peer| peer.uid);
    user.is_ok_and(|user| user == geteuid() || user.is_root())
}

#[cfg(test)]
mod tests;
