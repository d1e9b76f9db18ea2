//! What a supervisor hears and says on its connections.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;
use crate::command::CommandSpec;
use crate::journal::{JournalStore, MIN_JOURNAL_BYTES};
use crate::protocol::Command;

struct Stage {
    directory: tempfile::TempDir,
    store: JournalStore,
    link: EngineLink,
}

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (store, _) = JournalStore::open(&directory.path().join("journals")).unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { directory, store, link: EngineLink::new(listener.into(), None) }
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(self.directory.path().join("socket")).unwrap()
    }

    fn accept(&mut self) -> Vec<Incoming> {
        let Accepted { mut old, new } = self.link.accept();
        old.extend(new.unwrap_or_default());
        old
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
    let sent = send_with_file(engine, bytes, file.as_fd()).unwrap();
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
    assert!(stage.accept().is_empty());
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
fn requests_sent_before_another_engine_connected_are_handled() {
    let mut stage = Stage::new();
    let old = stage.connect();
    assert!(stage.accept().is_empty());
    for text in ["one", "two", "three"] {
        let (journal, bytes) = stage.command(text);
        send_with(&old, &bytes, &journal.file);
    }
    drop(old);
    let _new = stage.connect();
    let seen: Vec<_> = stage.accept().into_iter().map(|incoming| texts(incoming).0).collect();
    assert_eq!(seen, ["one", "two", "three"]);
}

/// What the old engine has attached is detached before the requests of the new one are handled.
#[test]
fn requests_of_the_engine_that_is_replaced_are_separate() {
    let mut stage = Stage::new();
    let key = Bytes(vec![7; 16]);
    stage.link.key = Some(key.clone());
    let hello = frame(1, &Request::Hello(4, Some(key)));
    let engines = ["old", "new"].map(|text| {
        let (mut engine, (_, command)) = (stage.connect(), stage.command(text));
        engine.write_all(&[hello.clone(), command].concat()).unwrap();
        engine
    });
    let texts = |incoming: Vec<Incoming>| incoming.into_iter().map(|one| texts(one).0).collect::<Vec<_>>();
    let Accepted { old, new } = stage.link.accept();
    assert_eq!((texts(old), new.map(texts)), (vec!["old".to_owned()], Some(vec!["new".to_owned()])));
    // Another connection that does not authenticate changes nothing.
    let _other = stage.connect();
    let Accepted { old, new } = stage.link.accept();
    assert!(old.is_empty() && new.is_none());
    drop(engines);
}

#[test]
fn replies_are_sent_only_to_the_connection_of_their_request() {
    let mut stage = Stage::new();
    let mut old = stage.connect();
    assert!(stage.accept().is_empty());
    let hello = frame(1, &Request::Hello(4, None));
    old.write_all(&hello).unwrap();
    let earlier = stage.link.receive();
    let (journal, bytes) = stage.command("unread");
    send_with(&old, &bytes, &journal.file);
    let mut new = stage.connect();
    let taken = stage.accept();
    new.write_all(&hello).unwrap();
    let asked = stage.link.receive();
    let numbers = |incoming: &[Incoming]| incoming.iter().map(|i| i.envelope.request).collect::<Vec<_>>();
    let (earlier, taken, asked) = (numbers(&earlier), numbers(&taken), numbers(&asked));
    assert_eq!((earlier.len(), taken.len(), asked.len()), (1, 1, 1));
    // The old engine's request and its unread command are answered late; an event is for any engine.
    stage.link.send(earlier[0], &Response::Done);
    stage.link.send(taken[0], &Response::Accepted);
    stage.link.send(0, &Response::Ready);
    stage.link.send(asked[0], &Response::Done);
    // A second answer to the same request has no one to go to.
    stage.link.send(asked[0], &Response::Accepted);
    stage.link.flush();
    drop(stage);
    let mut bytes = Vec::new();
    new.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [frame(0, &Response::Ready), frame(1, &Response::Done)].concat());
}

#[test]
fn a_connection_that_there_is_no_descriptor_for_is_not_waited_for_in_a_loop() {
    let mut stage = Stage::new();
    let mut engine = stage.connect();
    let listens = |link: &EngineLink| link.expected().count() == 1;
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..before }).unwrap();
    assert!(stage.accept().is_empty());
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(!listens(&stage.link), "it would be readable at once");
    let again = stage.link.wake_at().unwrap();
    stage.link.close_unauthenticated(again);
    assert!(listens(&stage.link));
    assert!(stage.accept().is_empty());
    engine.write_all(&frame(1, &Request::Hello(4, None))).unwrap();
    assert_eq!(stage.link.receive().len(), 1);
}

#[test]
fn an_engine_that_does_not_read_does_not_hold_up_the_end() {
    let mut stage = Stage::new();
    let _engine = stage.connect();
    assert!(stage.accept().is_empty());
    for _ in 0..200_000 {
        stage.link.send(0, &Response::Grew { slot: 1, position: u64::MAX, unrecorded: None });
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
    assert!(stage.accept().is_empty());
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
    assert!(stage.accept().is_empty());
    let (journal, bytes) = stage.command("whole");
    send_with(&old, &bytes, &journal.file);
    let (journal, bytes) = stage.command("cut off");
    send_with(&old, &bytes[..9], &journal.file);
    let new = stage.connect();
    let mut seen: Vec<_> = stage.accept().into_iter().map(texts).collect();
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
    assert!(stage.accept().is_empty());
    for text in ["lost", "kept"] {
        let (journal, bytes) = stage.command(text);
        send_with(&engine, &bytes, &journal.file);
    }
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..before }).unwrap();
    let mut chunk = [0; 4 << 10];
    let socket = stage.link.engine.take().unwrap();
    let got = receive_with_files(&socket, &mut chunk, &mut stage.link.files).unwrap();
    setrlimit(Resource::Nofile, before).unwrap();
    stage.link.frames.extend(&chunk[..got]);
    stage.link.engine = Some(socket);
    let seen: Vec<_> = stage.link.receive().into_iter().map(texts).collect();
    let kept = Some("kept".to_owned());
    assert_eq!(seen, [("lost".to_owned(), None), ("kept".to_owned(), kept)]);
}
