//! The fixture programs behave as their names say.
#![expect(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use sandcrab_conformance::bench;
use sandcrab_conformance::fixture::{Flood, LIFETIME_VARIABLE, binary_sample};

/// A fixture with its arguments. It ends by itself after twenty seconds.
macro_rules! fixture {
    ($name:literal $(, $argument:expr)*) => {{
        let mut command = Command::new(env!(concat!("CARGO_BIN_EXE_", $name)));
        command.env(LIFETIME_VARIABLE, "20").stdin(Stdio::null()).stdout(Stdio::piped());
        $(command.arg($argument.to_string());)*
        command
    }};
}

fn start(mut command: Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

fn line(stdout: &mut impl BufRead) -> String {
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Returns all output of a program, until all writers have closed it.
fn output(command: Command) -> Vec<u8> {
    let (mut child, mut stdout) = start(command);
    let mut bytes = Vec::new();
    stdout.read_to_end(&mut bytes).unwrap();
    child.wait().unwrap();
    bytes
}

fn signal(pid: &str, signal: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
}

/// Returns the fields of `/proc/PID/stat` after the name: state, parent, group, session, …
fn stat(pid: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    let fields: Vec<String> = fields.split(' ').map(str::to_owned).collect();
    (fields[0] != "Z").then_some(fields)
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn ignores_sigterm() {
    let (mut child, mut stdout) = start(fixture!("ignores_sigterm"));
    assert_eq!(line(&mut stdout), "ready");
    signal(&child.id().to_string(), "-TERM");
    std::thread::sleep(Duration::from_millis(50));
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn leaves_orphan() {
    let text = String::from_utf8(output(fixture!("leaves_orphan", 2))).unwrap();
    assert_eq!(text.lines().count(), 2);
    for pid in text.lines() {
        let own = stat(&std::process::id().to_string()).unwrap();
        assert_eq!(stat(pid).unwrap()[3], own[3], "the orphan left the session");
        signal(pid, "-KILL");
        wait_until("the orphan's end", || stat(pid).is_none());
    }
}

#[test]
fn escapes_session() {
    let text = String::from_utf8(output(fixture!("escapes_session"))).unwrap();
    let pid = text.trim_end();
    let own = stat(&std::process::id().to_string()).unwrap();
    assert_ne!(stat(pid).unwrap()[3], own[3], "the daemon stayed in the session");
    signal(pid, "-KILL");
    wait_until("the daemon's end", || stat(pid).is_none());
}

#[test]
fn holds_pipe_open() {
    let (mut child, mut stdout) = start(fixture!("holds_pipe_open", 200));
    let pid = line(&mut stdout);
    child.wait().unwrap();
    assert!(stat(&pid).is_some());
    assert_eq!(line(&mut stdout), "late");
    assert_eq!(line(&mut stdout), "");
}

#[test]
fn floods_output() {
    const BYTES: usize = 1_000_001;
    let mut command = fixture!("floods_output", BYTES, "both", 5);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let mut bytes = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    assert!(child.wait().unwrap().success());
    for (seed, got) in [(5, bytes), (6, errors.join().unwrap())] {
        let mut expected = vec![0; BYTES];
        Flood::new(seed).read_exact(&mut expected).unwrap();
        assert!(got == expected, "the bytes for seed {seed} differ");
    }
}

#[test]
fn writes_binary() {
    assert_eq!(output(fixture!("writes_binary")), binary_sample());
}

#[test]
fn forks_deep() {
    let (mut child, mut stdout) = start(fixture!("forks_deep", 3, 2));
    assert_eq!(line(&mut stdout), "ready 15");
    child.kill().unwrap();
    child.wait().unwrap();
    // The others sleep. Each holds the output open, so its end shows that all have ended.
    kill_all_holding(&stdout);
    assert_eq!(line(&mut stdout), "");
}

/// Kills every process that holds the writing end of this pipe, which are only the fixtures.
fn kill_all_holding(stdout: &BufReader<ChildStdout>) {
    use std::os::fd::AsRawFd;
    let pipe = fs::read_link(format!("/proc/self/fd/{}", stdout.get_ref().as_raw_fd())).unwrap();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        if fs::read_link(Path::new("/proc").join(&name).join("fd/1")).is_ok_and(|it| it == pipe) {
            signal(&name, "-KILL");
        }
    }
}

#[test]
fn forks_deep_refuses_a_bomb() {
    let mut command = fixture!("forks_deep", 100, 100);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn exits_by_signal() {
    for number in [9, 11, 13, 15] {
        let mut child = fixture!("exits_by_signal", number).spawn().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(number));
    }
}

#[test]
fn respawns() {
    let (mut child, mut stdout) = start(fixture!("respawns", 2, 10));
    assert_eq!(line(&mut stdout), "ready");
    let parent = child.id();
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = || fs::read_to_string(&path).unwrap();
    let before = children();
    let first = before.split_whitespace().next().unwrap().to_owned();
    signal(&first, "-KILL");
    wait_until("a new child", || {
        let now = children();
        let pids: Vec<&str> = now.split_whitespace().collect();
        pids.len() == 2 && !pids.contains(&first.as_str())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    kill_all_holding(&stdout);
    assert_eq!(line(&mut stdout), "");
}

#[test]
fn fork_chain() {
    assert_eq!(output(fixture!("fork_chain", 50, 5)), b"ready\n");
}

#[test]
fn allocates() {
    assert_eq!(output(fixture!("allocates", 16 << 20)), b"ready\n");
    let (mut child, mut stdout) = start(fixture!("allocates", isize::MAX));
    assert_eq!(line(&mut stdout), "refused");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn reads_stdin() {
    let mut command = fixture!("reads_stdin");
    let (mut child, mut stdout) = start({
        command.stdin(Stdio::piped());
        command
    });
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    assert_eq!(line(&mut stdout), "> one");
    drop(stdin);
    assert_eq!(line(&mut stdout), "> bye");
    assert!(child.wait().unwrap().success());
}

#[test]
fn fixture_ends_by_itself() {
    let mut command = fixture!("ignores_sigterm");
    command.env(LIFETIME_VARIABLE, "0");
    let mut child = command.spawn().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(14));
}

#[test]
fn invalid_argument_is_refused() {
    let mut command = fixture!("forks_deep", "many");
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "forks_deep: argument 1, the depth, cannot be \"many\".\n");
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn the_pipe_floor_is_measured() {
    let program = Path::new(env!("CARGO_BIN_EXE_bench"));
    let measured = bench::pipe_rate(program, 64 << 20).unwrap();
    assert!(measured.amount() > 1e6, "{measured} is no throughput");
}
