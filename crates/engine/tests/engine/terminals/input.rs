//! Input: its order, its bound, and interrupts that do not wait behind it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::net::{Shutdown, SocketAddrUnix, getpeername, shutdown};
use rustix::process::{ForeignRawFd, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use sandcrab_engine::{CommandSpec, InputError, MAX_TERMINAL_INPUT_BYTES, TerminalSpec};

use super::job_control::has_terminal;
use super::{GRACE, Seen, create, whole_text};
use crate::support::{Place, TEST_TIMEOUT, eventually, eventually_async, supervisor_of};

/// A terminal in raw mode whose program does not read until it gets SIGUSR1, then reads as many bytes as it is told
/// and prints their checksum.
pub(super) const LAZY_READER: &str = "
import os, signal, sys, tty, zlib
tty.setraw(0)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.write(1, b'lazy')
signal.sigwait([signal.SIGUSR1])
left = int(sys.argv[1])
seen = 0
while left:
    got = os.read(0, left)
    seen = zlib.crc32(got, seen)
    left -= len(got)
os.write(1, b'<%d>' % seen)
";

#[tokio::test]
async fn the_queue_of_a_program_that_does_not_read_is_bounded() {
    let place = Place::new();
    let engine = place.open().await;
    // The first write fills the kernel's buffers and the queue.
    let paste: Vec<u8> = (0..1_000_000_u32).map(|n| b'a' + u8::try_from(n % 23).unwrap()).collect();
    let spec = |count: usize| {
        TerminalSpec::command(CommandSpec::argv(["python3", "-c", LAZY_READER, &count.to_string()]))
    };
    let mut first = Seen::new(create(&engine, spec(1)).await);
    first.wait_for("lazy").await;
    let Err(InputError::Full { accepted }) = first.terminal.write(&paste).await else {
        panic!("a million bytes are accepted")
    };
    // The kernel's part is at most a few dozen KiB.
    assert!((MAX_TERMINAL_INPUT_BYTES..4 * MAX_TERMINAL_INPUT_BYTES).contains(&accepted), "{accepted}");
    // All that was accepted arrives, in order.
    let mut second = Seen::new(create(&engine, spec(accepted_of(&paste))).await);
    second.wait_for("lazy").await;
    second.terminal.write(&paste[..accepted_of(&paste)]).await.unwrap();
    second.terminal.execution().signal(libc::SIGUSR1).await.unwrap();
    second.wait_for(">").await;
    let printed = whole_text(&second.terminal).await;
    let expected = format!("<{}>", crc32fast::hash(&paste[..accepted_of(&paste)]));
    assert!(printed.contains(&expected), "{printed} without {expected}");
}

/// As many bytes of a paste as every queue accepts.
fn accepted_of(paste: &[u8]) -> usize {
    paste.len().min(MAX_TERMINAL_INPUT_BYTES)
}

#[tokio::test]
async fn an_interrupt_does_not_wait_behind_a_paste() {
    let place = Place::new();
    let engine = place.open().await;
    let mut shell = Seen::shell(&engine).await;
    // Without canonical mode the kernel keeps what is not read; signals stay on.
    let time = format!("{}", 300_000_000 + std::process::id());
    shell.type_line(&format!("stty -icanon; sleep {time}")).await;
    eventually("it is in the foreground", || has_terminal(&time)).await;
    let paste = vec![b'x'; 2 * MAX_TERMINAL_INPUT_BYTES];
    // The kernel takes some of it later.
    eventually_async("everything is full", async || {
        matches!(shell.terminal.write(&paste).await, Err(InputError::Full { accepted: 0 }))
    })
    .await;
    shell.press(b"\x03").await;
    shell.wait_for("[130]> ").await;
    // The paste is gone, as the kernel discards input on a signal.
    shell.run("echo al''ive", "alive").await;
}

/// A paste that the kernel accepts, but which is more than its line discipline holds.
#[tokio::test]
async fn an_interrupt_does_not_wait_behind_a_paste_that_the_kernel_accepts() {
    let place = Place::new();
    let engine = place.open().await;
    for (number, modes) in (310..).zip(["sane", "-icanon"]) {
        let mut shell = Seen::shell(&engine).await;
        let time = format!("{}", number * 1_000_000 + std::process::id());
        shell.type_line(&format!("stty {modes}; sleep {time}")).await;
        // Before, an interrupt would be for the shell.
        eventually("it is in the foreground", || has_terminal(&time)).await;
        let paste: String = (0..100).map(|line| format!("{line:078}\r")).collect();
        shell.terminal.write(paste.as_bytes()).await.unwrap();
        // Its echo shows that the line discipline has got so much of it.
        shell.wait_for("00050").await;
        shell.press(b"\x03").await;
        shell.wait_for("[130]> ").await;
        shell.run("stty sane; echo al''ive", "alive").await;
    }
}

#[tokio::test]
async fn a_terminal_is_also_standard_input_of_an_execution() {
    let place = Place::new();
    let engine = place.open().await;
    let spec = TerminalSpec::command(CommandSpec::shell("cat; echo ended"));
    let terminal = create(&engine, spec).await;
    let execution = terminal.execution();
    execution.write_stdin("line\n").await.unwrap();
    execution.close_stdin().await.unwrap();
    let printed = whole_text(&terminal).await;
    assert!(printed.ends_with("line\r\nended\r\n"), "{printed:?}");
    assert!(matches!(terminal.write(b"x").await, Err(InputError::Ended)));
    let run = engine.start(CommandSpec::shell("sleep 1000")).await.unwrap();
    assert!(engine.terminal(run.id()).is_none());
}

/// Ends the connections of this process to its supervisors, as if they had failed. Returns their number.
fn break_links(place: &Place) -> usize {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let folder = place.state().join("supervisors");
    let mut broken = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse::<ForeignRawFd>().ok()) else { continue };
        // It may have been closed meanwhile.
        let Ok(copy) = pidfd_getfd(&own, number, PidfdGetfdFlags::empty()) else { continue };
        let peer = getpeername(&copy).ok().flatten().and_then(|peer| SocketAddrUnix::try_from(peer).ok());
        let Some(path) = peer.as_ref().and_then(SocketAddrUnix::path_bytes) else { continue };
        let path = Path::new(OsStr::from_bytes(path));
        if path.file_name().is_some_and(|name| folder.join(name).exists()) {
            // It may have ended meanwhile.
            broken += usize::from(shutdown(&copy, Shutdown::Both).is_ok());
        }
    }
    broken
}

/// The connection is lost, not the terminal. Input that was not sent yet goes to the next connection, once.
#[tokio::test(flavor = "multi_thread")]
async fn input_survives_a_lost_connection() {
    let place = Place::new();
    let engine = place.open().await;
    let spec = TerminalSpec::command(CommandSpec::shell("stty raw -echo; printf ready; exec cat"));
    let mut seen = Seen::new(create(&engine, spec).await);
    seen.wait_for("ready").await;
    let supervisor = supervisor_of(seen.terminal.execution());
    for round in 0..20 {
        assert!(break_links(&place) > 0, "there is no connection in round {round}");
        seen.press(format!("<{round}>").as_bytes()).await;
        let shown = seen.wait_for(&format!("<{round}>")).await;
        assert_eq!(shown, format!("<{round}>"), "something came twice");
    }
    assert!(supervisor.is_alive());
}

/// Input that is sent while the supervisor ends is not lost with an unknown result: the terminal has ended.
#[tokio::test]
async fn input_after_the_end_of_the_supervisor_finds_an_ended_terminal() {
    let place = Place::new();
    let engine = place.open().await;
    for _ in 0..10 {
        let terminal = create(&engine, TerminalSpec::command(CommandSpec::argv(["cat"]))).await;
        let supervisor = supervisor_of(terminal.execution());
        let writes = async {
            supervisor.kill();
            for _ in 0..50 {
                if let Err(error) = terminal.write(b"x").await {
                    return Some(error);
                }
            }
            None
        };
        let error = tokio::time::timeout(TEST_TIMEOUT, writes).await.unwrap();
        assert!(matches!(error, None | Some(InputError::Ended)), "{error:?}");
        terminal.execution().wait().await.unwrap();
    }
}

/// The engine asks for a number of reports of growth at a time, and asks again when it has got them.
#[tokio::test]
async fn every_line_is_reported_however_many_there_are() {
    let place = Place::new();
    let engine = place.open().await;
    let text = "stty -echo; echo ready; while read n; do echo \"line $n.\"; done";
    let mut seen = Seen::new(create(&engine, TerminalSpec::command(CommandSpec::shell(text))).await);
    seen.wait_for("ready").await;
    // Three times as many as one request asks for.
    for number in 0..100 {
        seen.run(&number.to_string(), &format!("line {number}.")).await;
    }
    seen.terminal.delete(GRACE).await.unwrap();
}
