//! A supervisor's connection to the engine: at most one, replaced when a new engine connects.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::{Errno, write};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SocketFlags, accept_with, recvmsg,
};
use rustix::process::geteuid;

use crate::journal::NewJournal;
use crate::protocol::{Answer, Bytes, Envelope, FrameBuffer, FrameError, Refusal, Request, frame};

/// How long the news that a command was accepted and runs may wait for its end.
const NEWS_DELAY: Duration = Duration::from_micros(300);
/// The most bytes that wait to be read by an engine. One that does not read for so long is cut off;
/// it may connect again and loses nothing, since everything is in the journals.
const MAX_BACKLOG: usize = 128 << 20;

/// How long the last answers may take to be sent.
const FINISH_TIME: Duration = Duration::from_secs(2);
/// The most connections at a time that have not proved to be the engine's, and how long each may take to do so.
const MAX_STRANGERS: usize = 32;
const STRANGER_TIME: Duration = Duration::from_secs(2);
/// How long no connection is taken after there was no descriptor for one: it would be readable all the time.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// A request, with the journal that came with it. Its number is the link's own, never used again: see
/// [`Link::unanswered`].
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) envelope: Envelope<Request>,
    pub(crate) journal: Option<NewJournal>,
}

/// How far to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Until a read brings less than was asked for.
    Short,
    /// Until nothing is left.
    Empty,
}

/// The listener and the engine that is connected, if one is.
#[derive(Debug)]
pub(crate) struct Link {
    listener: OwnedFd,
    /// What the other side has to know to be the engine; `None` if anything that connects is, in tests.
    key: Option<Bytes>,
    /// Connections that have not proved to be the engine's.
    strangers: Vec<Stranger>,
    engine: Option<OwnedFd>,
    frames: FrameBuffer,
    /// Files that came with requests, in their order; `None` for one that there was no descriptor for.
    files: VecDeque<Option<OwnedFd>>,
    unsent: Vec<u8>,
    /// Requests of this connection that have no answer yet: the number that the engine gave each, by the number that
    /// it has here. Engines number their requests independently, so a late answer to one engine could pass for an
    /// answer to the next. A number from here is in this map only as long as its connection is, and `send` drops
    /// an answer whose number is not.
    unanswered: BTreeMap<u64, u64>,
    next_number: u64,
    connected: bool,
    /// When what is unsent is to be sent; `None` if there is nothing, or no room.
    due: Option<Instant>,
    /// No connection is taken before.
    accept_after: Option<Instant>,
}

impl Link {
    pub(crate) fn new(listener: OwnedFd, key: Option<Bytes>) -> Self {
        Self {
            listener,
            key,
            strangers: Vec::new(),
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

    /// The descriptors that a new engine makes readable; [`accept`](Self::accept) deals with them. None while an engine is
    /// connected: there is one at a time, and its connection ends with it.
    pub(crate) fn expected(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let is_expected = self.engine.is_none();
        let listener = (is_expected && self.accept_after.is_none()).then(|| self.listener.as_fd());
        let strangers = self.strangers.iter().filter(move |_| is_expected).map(|s| s.socket.as_fd());
        listener.into_iter().chain(strangers)
    }

    pub(crate) fn engine(&self) -> Option<BorrowedFd<'_>> {
        self.engine.as_ref().map(AsFd::as_fd)
    }

    /// Whether an engine has ever been connected.
    pub(crate) fn was_connected(&self) -> bool {
        self.connected
    }

    /// Whether the loop should wait for room to send.
    pub(crate) fn is_blocked(&self) -> bool {
        self.due.is_none() && !self.unsent.is_empty()
    }

    /// Takes the newest connection. Requests that were still on the old one are returned first: an
    /// engine that was killed right after it sent them has promised their executions.
    pub(crate) fn accept(&mut self) -> Vec<Incoming> {
        let mut requests = Vec::new();
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..MAX_STRANGERS {
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
                requests.append(&mut self.receive_until(Until::Empty));
                self.serve(new, FrameBuffer::default(), VecDeque::new());
            } else if is_same_user(&new) {
                // The engine says who it is at once, so the oldest is not it.
                if self.strangers.len() == MAX_STRANGERS {
                    self.strangers.remove(0);
                }
                self.strangers.push(Stranger::new(new));
            }
        }
        requests.append(&mut self.hear_strangers());
        requests
    }

    /// Turns to an engine.
    fn serve(&mut self, engine: OwnedFd, frames: FrameBuffer, files: VecDeque<Option<OwnedFd>>) {
        self.disconnect();
        self.engine = Some(engine);
        self.frames = frames;
        self.files = files;
        self.connected = true;
    }

    /// Listens to connections that have not proved to be the engine's. One that has is served; one that says anything else,
    /// or says it too slowly, is closed.
    fn hear_strangers(&mut self) -> Vec<Incoming> {
        let Some(key) = self.key.clone() else { return Vec::new() };
        let mut requests = Vec::new();
        for mut stranger in std::mem::take(&mut self.strangers) {
            match stranger.hear(&key) {
                Heard::Nothing => self.strangers.push(stranger),
                Heard::Wrong => {}
                Heard::Key => {
                    requests.append(&mut self.receive_until(Until::Empty));
                    self.serve(stranger.socket, stranger.frames, stranger.files);
                    requests.append(&mut self.take_frames().0);
                }
            }
        }
        requests
    }

    /// What the engine has sent so far, or the beginning of it: the rest makes the next poll return at once. Drops the
    /// connection when it is over.
    pub(crate) fn receive(&mut self) -> Vec<Incoming> {
        self.receive_until(Until::Short)
    }

    fn receive_until(&mut self, until: Until) -> Vec<Incoming> {
        let mut requests = Vec::new();
        let mut chunk = [0; 4 << 10];
        let (mut over, mut more) = (false, true);
        while more && let Some(engine) = &self.engine {
            match receive_some(engine, &mut chunk, &mut self.files) {
                Ok(0) => over = true,
                Ok(n) => {
                    self.frames.extend(&chunk[..n]);
                    // A file that comes with a request makes a read short, whatever is behind it.
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

    /// The requests that have come whole; and whether what follows cannot be read.
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
                    self.send(request, &Answer::Refused(Refusal::Unsupported));
                }
                Err(FrameError::TooLong(_) | FrameError::Malformed) => return (requests, true),
            }
        }
    }

    /// The number that a request has here; 0 if it expects no answer.
    fn number(&mut self, engines: u64) -> u64 {
        if engines == 0 {
            return 0;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.unanswered.insert(number, engines);
        number
    }

    /// The journal that came with a request, if one did.
    fn journal_of(&mut self, request: &Request) -> Option<NewJournal> {
        let Request::Start(command) = request else { return None };
        let key = command.journal?;
        // One that came with a request that could not be read is not its.
        while let Some(file) = self.files.pop_front() {
            match file {
                Some(file) if key.is_of(&file) => return Some(NewJournal { file, key }),
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

    /// Sends to the engine, if one is connected; request 0 is an event. An answer goes to the connection that its
    /// request came from, or nowhere. What one turn of the loop has to say goes out together, at its end: each
    /// write wakes the engine.
    pub(crate) fn send(&mut self, request: u64, answer: &Answer) {
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
        // Most commands are over before anybody could do anything with the news that they run.
        let can_wait = matches!(answer, Answer::Accepted | Answer::Started { .. });
        let due = if can_wait { Instant::now() + NEWS_DELAY } else { Instant::now() };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
        if self.unsent.len() > MAX_BACKLOG {
            self.flush();
        }
        if self.unsent.len() > MAX_BACKLOG {
            self.disconnect();
        }
    }

    /// When the next thing is to be sent.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        let strangers = self.strangers.iter().map(|stranger| stranger.until);
        strangers.chain(self.due).chain(self.accept_after).min()
    }

    /// Closes connections that have not proved in time to be the engine's, and takes connections again.
    pub(crate) fn close_strangers(&mut self, now: Instant) {
        self.strangers.retain(|stranger| stranger.until > now);
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
                // A connection that is over is found by the next read.
                Err(_) => break,
            }
        }
        self.unsent.drain(..sent);
        if self.unsent.is_empty() && self.unsent.capacity() > 64 << 10 {
            self.unsent = Vec::new();
        }
    }

    /// Waits a moment for the last answers to be taken, before the supervisor goes.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if let Some(engine) = &self.engine {
            rustix::io::ioctl_fionbio(engine, false)?;
            // An engine that was stopped reads nothing. What it misses is in the journals.
            set_socket_timeout(engine, Timeout::Send, Some(FINISH_TIME))?;
            self.flush();
        }
        Ok(())
    }
}

/// A connection that has not proved to be the engine's.
#[derive(Debug)]
struct Stranger {
    socket: OwnedFd,
    frames: FrameBuffer,
    files: VecDeque<Option<OwnedFd>>,
    until: Instant,
}

/// What a stranger has said.
enum Heard {
    Nothing,
    Key,
    Wrong,
}

impl Stranger {
    fn new(socket: OwnedFd) -> Self {
        let until = Instant::now() + STRANGER_TIME;
        Self { socket, frames: FrameBuffer::default(), files: VecDeque::new(), until }
    }

    /// Reads the first request, which has to be a greeting with the key.
    fn hear(&mut self, key: &Bytes) -> Heard {
        // One read: a greeting is shorter than that, and what comes in more pieces is not the engine's.
        let mut chunk = [0; 4 << 10];
        match receive_some(&self.socket, &mut chunk, &mut self.files) {
            Ok(0) => return Heard::Wrong,
            Ok(n) => self.frames.extend(&chunk[..n]),
            Err(Errno::AGAIN | Errno::INTR) => return Heard::Nothing,
            Err(_) => return Heard::Wrong,
        }
        match self.frames.next::<Request>() {
            Ok(Some(Envelope { body: Request::Hello(_, Some(said)), .. })) if is_same(&said.0, &key.0) => {
                Heard::Key
            }
            _ => Heard::Wrong,
        }
    }
}

/// Compares in a time that does not depend on where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Whether the other side is a process of this user, or of root.
fn is_same_user(socket: &OwnedFd) -> bool {
    let user = rustix::net::sockopt::socket_peercred(socket).map(|peer| peer.uid);
    user.is_ok_and(|user| user == geteuid() || user.is_root())
}

/// Reads from the engine's socket. A file comes with the first bytes of its request, and ends the read.
fn receive_some(
    engine: &OwnedFd,
    chunk: &mut [u8],
    files: &mut VecDeque<Option<OwnedFd>>,
) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(engine, &mut [IoSliceMut::new(chunk)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = message {
            files.extend(came.map(Some));
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        files.push_back(None);
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests;
