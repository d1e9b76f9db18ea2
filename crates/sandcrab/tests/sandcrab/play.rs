//! Recordings that are played, in a terminal and elsewhere.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Program, Pty, sandcrab};

const HEADER: &str = r#"{"version":2,"width":80,"height":24}"#;

fn play(home: &Path, args: &[&str]) -> Command {
    let mut command = sandcrab(home);
    command.arg("play").args(args);
    command
}

fn cast(home: &Path, events: &str) -> PathBuf {
    let path = home.join("test.cast");
    std::fs::write(&path, format!("{HEADER}\n{events}")).unwrap();
    path
}

#[test]
fn a_recording_is_played_in_its_time() {
    let home = tempfile::tempdir().unwrap();
    let path = cast(home.path(), "[0.0,\"o\",\"one \"]\n[3.0,\"o\",\"two\\r\\n\"]\n[3.0,\"i\",\"x\"]\n");
    let began = Instant::now();
    let finished =
        Program::start(&mut play(home.path(), &["-s", "10", path.to_str().unwrap()])).finish().with_code(0);
    assert_eq!(finished.text(), "one two\r\n");
    assert!(began.elapsed() >= Duration::from_millis(300));
    // An hour of silence.
    let path = cast(home.path(), "[3600.0,\"o\",\"three\"]\n");
    let args = ["--idle-limit", "10ms", path.to_str().unwrap()];
    assert_eq!(Program::start(&mut play(home.path(), &args)).finish().with_code(0).text(), "three");
    let recording = std::fs::read(&path).unwrap();
    let from_pipe = Program::fed(&mut play(home.path(), &["-i", "0", "-"]), &recording).finish().with_code(0);
    assert_eq!(from_pipe.text(), "three");
}

/// The recording leaves the alternate screen on and asks the terminal a question.
#[test]
fn the_terminal_is_restored_after_a_recording() {
    let home = tempfile::tempdir().unwrap();
    let path = cast(home.path(), "[0.0,\"o\",\"\\u001b[?1049h\\u001b[?25l\\u001b[cshown\"]\n");
    let mut pty = Pty::start(&play(home.path(), &[path.to_str().unwrap()]));
    pty.press("typed while it plays");
    let finished = pty.finish().with_code(0);
    let shown = finished.text();
    assert!(shown.contains("\x1b[?1049h\x1b[?25l\x1b[cshown"), "{shown:?}");
    assert!(shown.ends_with("\x1b[?25h\x1b[?1049l"), "{shown:?}");
}

#[test]
fn ctrl_c_ends_a_recording_at_any_time() {
    let home = tempfile::tempdir().unwrap();
    // While it waits for the next event.
    let path = cast(home.path(), "[0.0,\"o\",\"\\u001b[?1049hbegun\"]\n[1000.0,\"o\",\"never\"]\n");
    let mut pty = Pty::start(&play(home.path(), &[path.to_str().unwrap()]));
    pty.wait_for("begun");
    pty.press("\x03");
    let finished = pty.finish().with_code(130);
    assert!(finished.text().ends_with("\x1b[?1049l"), "{finished:?}");
    // Ctrl-\ too.
    let mut pty = Pty::start(&play(home.path(), &[path.to_str().unwrap()]));
    pty.wait_for("begun");
    pty.press("\x1c");
    let finished = pty.finish().with_code(131);
    assert!(finished.text().ends_with("\x1b[?1049l"), "{finished:?}");
    // While the file has no writer, so that it cannot even be opened.
    let fifo = home.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let pty = Pty::start(&play(home.path(), &[fifo.to_str().unwrap()]));
        // It has set the terminal, so it listens to signals.
        crate::support::eventually("it has begun", || (!pty.is_restored()).then_some(()));
        pty.signal(signal);
        pty.finish().with_code(128 + signal.as_raw());
    }
}

#[test]
fn what_is_not_a_recording_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| Program::start(&mut play(home.path(), args)).finish();
    let missing = run(&["/nowhere/x.cast"]).with_code(125);
    assert!(missing.stderr.contains("failed to play /nowhere/x.cast: No such file"), "{missing:?}");
    let other = run(&["/etc/passwd"]).with_code(125);
    assert!(other.stderr.contains("line 1: not an asciicast header"), "{other:?}");
    assert!(other.stderr.contains("hint: "), "{other:?}");
    let endless = run(&["/dev/zero"]).with_code(125);
    assert!(endless.stderr.contains("line 1: longer than"), "{endless:?}");
    for wrong in [&["-s", "0", "x"][..], &["-s", "-1", "x"], &["-s", "nan", "x"], &["--json", "x"]] {
        run(wrong).with_code(2);
    }
}
