//! Keys that the engine writes to a terminal itself: their order, and what still needs the supervisor.

use std::future::Future;
use std::os::fd::AsRawFd;
use std::task::{Context, Waker};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use sandcrab_engine::{
    CommandSpec, EndReason, InputError, KeysGuard, MAX_TERMINAL_INPUT_BYTES, TerminalSpec,
};

use super::input::LAZY_READER;
use super::job_control::has_terminal;
use super::{Seen, create};
use crate::support::{Place, Seen as Process, TEST_TIMEOUT, eventually, supervisor_of};

/// The number of a terminal, as in `/dev/pts/7`.
fn number_of(seen: &Seen) -> String {
    let pid = seen.terminal.execution().info().pid.unwrap();
    let path = std::fs::read_link(format!("/proc/{pid}/fd/0")).unwrap();
    path.file_name().unwrap().to_str().unwrap().into()
}

/// How often this process has the master of the terminal with this number open.
fn masters(number: &str) -> usize {
    let line = format!("tty-index:\t{number}");
    let infos = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let is_master = |info: String| info.lines().any(|found| found == line);
    infos.filter(|entry| std::fs::read_to_string(entry.path()).is_ok_and(is_master)).count()
}

/// Makes keys take the direct way. The first one goes through the supervisor, whose reply says that nothing is queued.
async fn expect_keys(seen: &Seen, first: &[u8]) -> KeysGuard {
    let guard = seen.terminal.expect_keys();
    seen.press(first).await;
    assert_eq!(masters(&number_of(seen)), 1, "the supervisor has not sent the master");
    guard
}

fn send(process: Process, signal: Signal) {
    let pid = Pid::from_raw(process.pid.cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[tokio::test]
async fn a_key_does_not_wait_for_the_supervisor() {
    let place = Place::new();
    let engine = place.open().await;
    let file = place.file("typed");
    let text = format!("stty raw -echo; printf ready; exec cat > {}", file.display());
    let mut seen = Seen::new(create(&engine, TerminalSpec::command(CommandSpec::shell(text))).await);
    seen.wait_for("ready").await;
    let _keys = expect_keys(&seen, b"a").await;
    let supervisor = supervisor_of(seen.terminal.execution());
    send(supervisor, Signal::STOP);
    for key in [b"b", b"c", b"d"] {
        seen.press(key).await;
    }
    eventually("the program has read the keys", || std::fs::read(&file).is_ok_and(|typed| typed == b"abcd"))
        .await;
    send(supervisor, Signal::CONT);
    seen.press(b"e").await;
    eventually("it reads on", || std::fs::read(&file).is_ok_and(|typed| typed == b"abcde")).await;
    assert!(supervisor.is_alive());
}

/// Writes all bytes in small pieces, as a person types. What is not accepted is written again.
async fn type_all(seen: &Seen, bytes: &[u8]) {
    for key in bytes.chunks(97) {
        let mut rest = key;
        while !rest.is_empty() {
            match tokio::time::timeout(TEST_TIMEOUT, seen.terminal.write(rest)).await.unwrap() {
                Ok(()) => break,
                Err(InputError::Full { accepted }) => rest = &rest[accepted..],
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// More than the kernel accepts, so that some of it is queued by the supervisor, and keys come before and after that. The
/// second half is typed while the program reads, and by the next engine.
#[tokio::test]
async fn keys_and_queued_input_stay_in_order() {
    let place = Place::new();
    let typed: Vec<u8> = (0..200_000_u32).map(|n| b'a' + u8::try_from(n % 23).unwrap()).collect();
    for is_adopted in [false, true] {
        let mut engine = place.open().await;
        let count = typed.len().to_string();
        let command = CommandSpec::argv(["python3", "-c", LAZY_READER, &count]);
        let mut seen = Seen::new(create(&engine, TerminalSpec::command(command)).await);
        seen.wait_for("lazy").await;
        let id = seen.terminal.id().clone();
        let (first, second) = typed.split_at(MAX_TERMINAL_INPUT_BYTES);
        let mut keys = expect_keys(&seen, &first[..1]).await;
        type_all(&seen, &first[1..]).await;
        if is_adopted {
            drop((seen, keys, engine));
            engine = place.open().await;
            seen = Seen::new(engine.terminal(&id).unwrap());
            keys = seen.terminal.expect_keys();
        }
        seen.terminal.execution().signal(libc::SIGUSR1).await.unwrap();
        type_all(&seen, second).await;
        seen.wait_for(&format!("<{}>", crc32fast::hash(&typed))).await;
        drop((keys, engine));
    }
}

/// Waits for SIGUSR1, reads up to the word `other`, and prints the checksum.
const READER_TO_OTHER: &str = "
import os, signal, tty, zlib
tty.setraw(0)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.write(1, b'lazy')
signal.sigwait([signal.SIGUSR1])
seen = b''
while not seen.endswith(b'other'):
    seen += os.read(0, 65536)
os.write(1, b'<%d>' % zlib.crc32(seen))
";

/// The bytes of another client must not get into an escape sequence.
#[tokio::test]
async fn no_input_comes_between_a_part_of_a_key_and_the_rest() {
    let place = Place::new();
    let engine = place.open().await;
    for key in [&b"\x1b[A"[..], b"\x1b[15~", b"\x1b[1;5A", b"\x1b[15;5~"] {
        let command = CommandSpec::argv(["python3", "-c", READER_TO_OTHER]);
        let mut seen = Seen::new(create(&engine, TerminalSpec::command(command)).await);
        seen.wait_for("lazy").await;
        let _keys = expect_keys(&seen, key).await;
        let mut typed = key.len();
        let (written, turn) = loop {
            match seen.terminal.write_now(key) {
                (written, turn) if written < key.len() => break (written, turn.unwrap()),
                _ => typed += key.len(),
            }
            assert!(typed < MAX_TERMINAL_INPUT_BYTES, "a terminal accepts {typed} bytes");
        };
        let terminal = seen.terminal.clone();
        let mut other = Box::pin(terminal.write(b"other"));
        assert!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        seen.terminal.write_in(turn, &key[written..]).await.unwrap();
        other.await.unwrap();
        let expected = [key.repeat(typed / key.len() + 1).as_slice(), b"other"].concat();
        seen.terminal.execution().signal(libc::SIGUSR1).await.unwrap();
        seen.wait_for(&format!("<{}>", crc32fast::hash(&expected))).await;
    }
}

/// The next engine does not know how much the last one has typed.
#[tokio::test]
async fn an_interrupt_does_not_wait_behind_typed_keys() {
    let place = Place::new();
    for (number, (modes, is_adopted)) in (320..).zip([("sane", false), ("-icanon", false), ("sane", true)]) {
        let mut engine = place.open().await;
        let mut shell = Seen::shell(&engine).await;
        let mut keys = expect_keys(&shell, b" ").await;
        let time = format!("{}", number * 1_000_000 + std::process::id());
        shell.type_line(&format!("stty {modes}; sleep {time}")).await;
        eventually("it is in the foreground", || has_terminal(&time)).await;
        // More than the line discipline holds, as in the test of a paste.
        for line in 0..100 {
            shell.press(format!("{line:078}\r").as_bytes()).await;
        }
        shell.wait_for("00050").await;
        if is_adopted {
            let id = shell.terminal.id().clone();
            drop((shell, keys, engine));
            engine = place.open().await;
            shell = Seen::new(engine.terminal(&id).unwrap());
            keys = shell.terminal.expect_keys();
        }
        shell.press(b"\x03").await;
        shell.wait_for("[130]> ").await;
        shell.run("stty sane; echo al''ive", "alive").await;
        drop((keys, engine));
    }
}

/// A copy of the master keeps a terminal open, so the engine has one only while it is needed.
#[tokio::test]
async fn the_master_is_held_only_while_keys_are_expected() {
    let place = Place::new();
    let engine = place.open().await;
    let cat = || TerminalSpec::command(CommandSpec::shell("stty raw -echo; printf ready; exec cat"));
    let mut seen = Seen::new(create(&engine, cat()).await);
    seen.wait_for("ready").await;
    seen.press(b"x").await;
    let number = number_of(&seen);
    assert_eq!(masters(&number), 0, "it was not requested");
    let (first, second) = (expect_keys(&seen, b"x").await, seen.terminal.expect_keys());
    drop(first);
    assert_eq!(masters(&number), 1, "another client types");
    drop(second);
    assert_eq!(masters(&number), 0, "no client types");
    let _third = expect_keys(&seen, b"x").await;
    seen.terminal.execution().kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
    seen.terminal.execution().wait().await.unwrap();
    assert_eq!(masters(&number), 0, "the terminal has ended");

    // Input is activity, which the supervisor must notice.
    let mut spec = cat();
    spec.command = spec.command.idle_timeout(Duration::from_secs(600));
    let mut seen = Seen::new(create(&engine, spec).await);
    seen.wait_for("ready").await;
    let _keys = seen.terminal.expect_keys();
    seen.press(b"x").await;
    assert_eq!(masters(&number_of(&seen)), 0, "a terminal with an idle timeout");
}

/// Descriptors are kept for clients that connect and end something.
#[tokio::test]
async fn the_master_is_not_held_if_descriptors_are_scarce() {
    let place = Place::new();
    let engine = place.open().await;
    let text = "stty raw -echo; printf ready; exec cat";
    let mut seen = Seen::new(create(&engine, TerminalSpec::command(CommandSpec::shell(text))).await);
    seen.wait_for("ready").await;
    let number = number_of(&seen);
    let lowest_free = std::fs::File::open("/dev/null").unwrap().as_raw_fd();
    let before = getrlimit(Resource::Nofile);
    // Some of the reserved descriptors are free.
    let current = u64::try_from(lowest_free).unwrap() + 12;
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..before }).unwrap();
    let _keys = seen.terminal.expect_keys();
    for key in [b"a", b"b", b"c"] {
        seen.press(key).await;
    }
    seen.wait_for("abc").await;
    assert_eq!(masters(&number), 0);
    setrlimit(Resource::Nofile, before).unwrap();
}

#[tokio::test]
async fn a_killed_supervisor_ends_a_terminal_whose_master_is_shared() {
    let place = Place::new();
    let engine = place.open().await;
    let time = format!("{}", 330_000_000 + std::process::id());
    let text = format!("printf ready; exec sleep {time}");
    let mut seen = Seen::new(create(&engine, TerminalSpec::command(CommandSpec::shell(text))).await);
    seen.wait_for("ready").await;
    let (_keys, number) = (expect_keys(&seen, b"x").await, number_of(&seen));
    supervisor_of(seen.terminal.execution()).kill();
    let end = tokio::time::timeout(TEST_TIMEOUT, seen.terminal.execution().wait()).await.unwrap().unwrap();
    assert_eq!(end.reason, EndReason::Lost);
    eventually("its program has ended", || !has_terminal(&time)).await;
    assert!(matches!(seen.terminal.write(b"x").await, Err(InputError::Ended)));
    assert_eq!(masters(&number), 0);
}
