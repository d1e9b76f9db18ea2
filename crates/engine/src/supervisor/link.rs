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
        }
    }

    /// The descriptors that a new engine makes readable; [`accept`](Self::accept) deals with them. None while an engine is
    /// connected: there is one at a time, and its connection ends with it.
    pub(crate) fn expected(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let is_expected = self.engine.is_none();
        let listener = is_expected.then(|| self.listener.as_fd());
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
            let Ok(new) = accept_with(&self.listener, flags) else { break };
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
        self.strangers.iter().map(|stranger| stranger.until).chain(self.due).min()
    }

    /// Closes connections that have not proved in time to be the engine's.
    pub(crate) fn close_strangers(&mut self, now: Instant) {
        self.strangers.retain(|stranger| stranger.until > now);
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
mod tests {
    use std::fs::File;
    use std::io::{IoSlice, Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;
    use crate::command::CommandSpec;
    use crate::journal::{JournalStore, MIN_JOURNAL_BYTES};
    use crate::protocol::Command;

    struct Stage {
        directory: tempfile::TempDir,
        store: JournalStore,
        link: Link,
    }

    impl Stage {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let (store, _) = JournalStore::open(&directory.path().join("journals")).unwrap();
            let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
            listener.set_nonblocking(true).unwrap();
            Self { directory, store, link: Link::new(listener.into(), None) }
        }

        fn connect(&self) -> UnixStream {
            UnixStream::connect(self.directory.path().join("socket")).unwrap()
        }

        /// A command with the journal that was claimed for it, and its frame.
        fn command(&mut self, text: &str) -> (NewJournal, Vec<u8>) {
            let (claimed, journal) = self.store.claim(text.as_bytes(), MIN_JOURNAL_BYTES).unwrap();
            let mut command = Command::new(claimed.slot.0, &CommandSpec::shell(text));
            command.journal = Some(journal.key);
            (journal, frame(1, &Request::Start(Box::new(command))))
        }
    }

    fn send_with(engine: &UnixStream, bytes: &[u8], file: &OwnedFd) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
        let sent = sendmsg(engine, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL).unwrap();
        assert_eq!(sent, bytes.len());
    }

    /// The text of the command that a request is to run, and that of the journal that came with it.
    fn texts(incoming: Incoming) -> (String, Option<String>) {
        let Request::Start(command) = incoming.envelope.body else { panic!("{:?}", incoming.envelope) };
        let crate::protocol::WireProgram::Shell(text) = command.program else { panic!("no text") };
        let journal = incoming.journal.map(|journal| {
            let mut bytes = Vec::new();
            File::from(journal.file).read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[bytes.len() - text.0.len()..]).into_owned()
        });
        (String::from_utf8(text.0).unwrap(), journal)
    }

    #[test]
    fn each_command_gets_the_journal_that_came_with_it() {
        let mut stage = Stage::new();
        let mut engine = stage.connect();
        assert!(stage.link.accept().is_empty());
        let mut expected = Vec::new();
        for text in ["one", "two", "three", "four"] {
            let (journal, bytes) = stage.command(text);
            if text == "two" {
                // As where the engine's socket was full.
                let mut command = Command::new(0, &CommandSpec::shell(text));
                command.journal = None;
                rustix::io::write(&engine, &frame(1, &Request::Start(Box::new(command)))).unwrap();
                expected.push((text.to_owned(), None));
            } else {
                let (first, rest) = bytes.split_at(7);
                send_with(&engine, first, &journal.file);
                engine.write_all(rest).unwrap();
                expected.push((text.to_owned(), Some(text.to_owned())));
            }
        }
        let mut seen = Vec::new();
        while seen.len() < expected.len() {
            seen.extend(stage.link.receive().into_iter().map(texts));
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn everything_that_was_sent_before_another_engine_connected_is_heard() {
        let mut stage = Stage::new();
        let old = stage.connect();
        assert!(stage.link.accept().is_empty());
        for text in ["one", "two", "three"] {
            let (journal, bytes) = stage.command(text);
            send_with(&old, &bytes, &journal.file);
        }
        drop(old);
        let _new = stage.connect();
        let seen: Vec<_> = stage.link.accept().into_iter().map(|incoming| texts(incoming).0).collect();
        assert_eq!(seen, ["one", "two", "three"]);
    }

    #[test]
    fn an_answer_goes_to_the_connection_of_its_request_or_nowhere() {
        let mut stage = Stage::new();
        let mut old = stage.connect();
        assert!(stage.link.accept().is_empty());
        let hello = frame(1, &Request::Hello(4, None));
        old.write_all(&hello).unwrap();
        let earlier = stage.link.receive();
        let (journal, bytes) = stage.command("unread");
        send_with(&old, &bytes, &journal.file);
        let mut new = stage.connect();
        let taken = stage.link.accept();
        new.write_all(&hello).unwrap();
        let asked = stage.link.receive();
        let numbers = |incoming: &[Incoming]| incoming.iter().map(|i| i.envelope.request).collect::<Vec<_>>();
        let (earlier, taken, asked) = (numbers(&earlier), numbers(&taken), numbers(&asked));
        assert_eq!((earlier.len(), taken.len(), asked.len()), (1, 1, 1));
        // The old engine's request and its unread command are answered late; an event is for any engine.
        stage.link.send(earlier[0], &Answer::Done);
        stage.link.send(taken[0], &Answer::Accepted);
        stage.link.send(0, &Answer::Ready);
        stage.link.send(asked[0], &Answer::Done);
        // A second answer to the same request has no one to go to.
        stage.link.send(asked[0], &Answer::Accepted);
        stage.link.flush();
        drop(stage);
        let mut bytes = Vec::new();
        new.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, [frame(0, &Answer::Ready), frame(1, &Answer::Done)].concat());
    }

    #[test]
    fn an_engine_that_does_not_read_does_not_hold_up_the_end() {
        let mut stage = Stage::new();
        let _engine = stage.connect();
        assert!(stage.link.accept().is_empty());
        for _ in 0..200_000 {
            stage.link.send(0, &Answer::Grew { slot: 1, position: u64::MAX });
        }
        let begun = Instant::now();
        stage.link.finish().unwrap();
        assert!(!stage.link.unsent.is_empty() && begun.elapsed() < FINISH_TIME * 3);
    }

    #[test]
    fn the_file_of_a_request_that_cannot_be_read_is_not_the_next_ones() {
        #[derive(minicbor::Encode)]
        enum Future {
            #[n(99)]
            Teleport(#[n(0)] u32),
        }
        let mut stage = Stage::new();
        let engine = stage.connect();
        assert!(stage.link.accept().is_empty());
        let (other, _) = stage.command("other");
        send_with(&engine, &frame(7, &Future::Teleport(1)), &other.file);
        let (journal, bytes) = stage.command("next");
        send_with(&engine, &bytes, &journal.file);
        let seen: Vec<_> = stage.link.receive_until(Until::Empty).into_iter().map(texts).collect();
        assert_eq!(seen, [("next".to_owned(), Some("next".to_owned()))]);
    }

    #[test]
    fn a_command_that_was_cut_off_leaves_no_journal_to_the_next_engine() {
        let mut stage = Stage::new();
        let old = stage.connect();
        assert!(stage.link.accept().is_empty());
        let (journal, bytes) = stage.command("whole");
        send_with(&old, &bytes, &journal.file);
        let (journal, bytes) = stage.command("cut off");
        send_with(&old, &bytes[..9], &journal.file);
        let new = stage.connect();
        let mut seen: Vec<_> = stage.link.accept().into_iter().map(texts).collect();
        let (journal, bytes) = stage.command("next");
        send_with(&new, &bytes, &journal.file);
        seen.extend(stage.link.receive().into_iter().map(texts));
        let both = |text: &str| (text.to_owned(), Some(text.to_owned()));
        assert_eq!(seen, [both("whole"), both("next")]);
    }

    #[test]
    fn a_journal_that_there_was_no_descriptor_for_is_not_replaced_by_the_next() {
        let mut stage = Stage::new();
        let engine = stage.connect();
        assert!(stage.link.accept().is_empty());
        for text in ["lost", "kept"] {
            let (journal, bytes) = stage.command(text);
            send_with(&engine, &bytes, &journal.file);
        }
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..before }).unwrap();
        let mut chunk = [0; 4 << 10];
        let socket = stage.link.engine.take().unwrap();
        let got = receive_some(&socket, &mut chunk, &mut stage.link.files).unwrap();
        setrlimit(Resource::Nofile, before).unwrap();
        stage.link.frames.extend(&chunk[..got]);
        stage.link.engine = Some(socket);
        let seen: Vec<_> = stage.link.receive().into_iter().map(texts).collect();
        let kept = Some("kept".to_owned());
        assert_eq!(seen, [("lost".to_owned(), None), ("kept".to_owned(), kept)]);
    }
}
