//! Terminals in a real one: `shell`, `attach`, `exec -it`, `record`.

use rustix::process::Signal;

use crate::support::{Program, Pty, TestServer, eventually, is_alive};

/// Starts the program in a terminal.
fn pty(server: &TestServer, args: &[&str]) -> Pty {
    Pty::start(&server.sandcrab(args))
}

/// A bash whose prompt can be waited for.
fn shell(server: &TestServer, id: &str) -> Pty {
    let pty = pty(server, &["shell", "--id", id, "-e", "PS1=ready> ", "--", "bash", "--norc"]);
    pty.wait_for("ready> ");
    pty
}

/// Whether the terminal exists and its program runs.
fn is_running(server: &TestServer, id: &str) -> bool {
    let list = server.run(&["terminal", "list", "--json"]).with_code(0).json();
    let terminals = list["terminals"].as_array().unwrap().clone();
    terminals.iter().any(|terminal| terminal["id"] == id && terminal["status"] == "running")
}

#[test]
fn a_shell_has_keys_a_size_and_an_exit_code() {
    let server = TestServer::new();
    let mut pty = shell(&server, "t");
    assert!(!pty.is_restored());
    pty.press("stty size; tty; echo $TERM\r");
    pty.wait_for("24 80");
    pty.wait_for("/dev/pts/");
    pty.wait_for("xterm-256color");
    // A resize arrives at the program, as a signal and as a size.
    pty.press("trap 'echo changed to $(stty size)' WINCH; echo tra''pped\r");
    pty.wait_for("trapped\r\n");
    pty.resize(100, 30);
    pty.wait_for("changed to 30 100");
    // Ctrl-C reaches a program that reads nothing.
    pty.press("sh -c 'echo be''gun; exec sleep 1000'\r");
    pty.wait_for("begun\r\n");
    let from = pty.mark();
    pty.press("\x03");
    pty.wait_after(from, "ready> ");
    pty.press("echo code $?\r");
    pty.wait_for("code 130");
    pty.press("exit 7\r");
    let finished = pty.finish().with_code(7);
    assert!(!finished.text().contains("\x1b[2J"), "a new shell does not clear the screen: {finished:?}");
    assert!(!is_running(&server, "t"));
}

#[test]
fn detaching_leaves_the_terminal_and_attaching_shows_it_again() {
    let server = TestServer::new();
    let mut pty = shell(&server, "t");
    pty.press("echo be''fore; export X=kept\r");
    pty.wait_for("before\r\n");
    pty.press("\x10\x11");
    let finished = pty.finish().with_code(0);
    assert!(
        finished.text().contains("detached from t, which continues; attach again with `sandcrab attach t`")
    );
    assert!(is_running(&server, "t"));
    let mut pty = pty_attached(&server, &["attach", "t", "--detach-keys", "ctrl-x,d"]);
    pty.wait_for("before");
    pty.press("echo still $X\r");
    pty.wait_for("still kept");
    // The default keys belong to the program now.
    pty.press("\x10\x11");
    pty.press("\x18d");
    pty.finish().with_code(0);
    assert!(is_running(&server, "t"));
    let mut pty = pty_attached(&server, &["attach", "t"]);
    pty.wait_for("still kept");
    let from = pty.mark();
    pty.press("\x03");
    pty.wait_after(from, "ready> ");
    pty.press("exit 4\r");
    pty.finish().with_code(4);
    // Attaching to a terminal that has ended shows its last screen.
    let finished = pty_attached(&server, &["attach", "t"]).finish().with_code(4);
    assert!(finished.text().contains("still kept"), "{finished:?}");
    let missing = pty_attached(&server, &["attach", "nope"]).finish().with_code(125);
    assert!(missing.text().contains("`sandcrab terminal list` lists all terminals"), "{missing:?}");
}

fn pty_attached(server: &TestServer, args: &[&str]) -> Pty {
    pty(server, args)
}

#[test]
fn modes_that_the_program_left_on_are_switched_off() {
    let server = TestServer::new();
    let left_on = r"printf '\e[?1049h\e[?1000h\e[?1006h\e[?2004h\e[?1h\e=\e[?25l\e[31mleft on'";
    // At the end of the program, and after detaching.
    let finished = pty(&server, &["exec", "-it", left_on]).finish().with_code(0);
    let reset = "\x1b[?1l\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[?2004l\x1b[?1049l\x1b>\x1b[0m";
    assert!(finished.text().ends_with(reset), "{finished:?}");
    let mut pty = pty(&server, &["shell", "--id", "t", &format!("{left_on}; sleep 1000")]);
    pty.wait_for("left on");
    pty.press("\x10\x11");
    let finished = pty.finish().with_code(0);
    assert!(finished.text().contains(reset), "{finished:?}");
    // Also those that a repaint has switched on.
    let mut pty = pty_attached(&server, &["attach", "t"]);
    pty.wait_for("left on");
    let from = pty.mark();
    pty.press("\x10\x11");
    let finished = pty.finish().with_code(0);
    for mode in ["\x1b[?1l", "\x1b[?1000l", "\x1b[?1049l", "\x1b>"] {
        assert!(finished.text()[from..].contains(mode), "no {mode:?} in {finished:?}");
    }
}

#[test]
fn signals_restore_the_terminal_and_end_the_program() {
    let server = TestServer::new();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130), (Signal::QUIT, 131)] {
        let mut pty = shell(&server, "t");
        pty.press("echo pid=$$\r");
        pty.wait_for("pid=");
        let pid = eventually("the pid", || {
            let shown = pty.so_far();
            let digits = shown.rsplit("pid=").next()?.split('\r').next()?;
            digits.parse::<u32>().ok()
        });
        pty.signal(signal);
        pty.finish().with_code(code);
        eventually("the shell has ended", || (!is_alive(pid)).then_some(()));
    }
    // A viewer leaves the terminal running, and so does a shell that found it running.
    server.run(&["terminal", "create", "--id", "kept"]).with_code(0);
    for args in [&["attach", "kept"][..], &["shell", "--id", "kept"]] {
        let pty = pty_attached(&server, args);
        eventually("it is attached", || (!pty.is_restored()).then_some(()));
        pty.signal(Signal::TERM);
        pty.finish().with_code(143);
        assert!(is_running(&server, "kept"), "{args:?}");
    }
}

/// Without a viewer the program would run on, unknown to the user.
#[test]
fn a_shell_whose_output_cannot_be_written_is_ended() {
    let server = TestServer::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let stdout = std::fs::File::from(std::os::fd::OwnedFd::from(writer));
    let command = server.sandcrab(&["shell", "--id", "t", "--", "bash", "-c", "echo shown; exec sleep 1000"]);
    Pty::with_stdout(&command, Some(stdout)).finish().with_code(141);
    assert!(!is_running(&server, "t"));
}

/// A full disk, for example. The recording can still be had.
#[test]
fn a_recording_that_cannot_be_written_stays_on_the_server() {
    let server = TestServer::new();
    let dir = server.file("dir");
    std::fs::create_dir(&dir).unwrap();
    let file = dir.join("x.cast");
    let command = format!("rmdir {}; echo recorded", dir.display());
    let finished = pty(&server, &["record", "--id", "t", "-o", file.to_str().unwrap(), &command]).finish();
    let finished = finished.with_code(125);
    let hint = "the server still has it: `sandcrab record --output FILE t` writes it";
    assert!(finished.text().contains(hint), "{finished:?}");
    assert!(server.run(&["record", "-o", "-", "t"]).with_code(0).text().contains("recorded"));
}

#[test]
fn a_stopped_viewer_gives_the_terminal_back_and_repaints() {
    let server = TestServer::new();
    let mut pty = shell(&server, "t");
    pty.press("echo be''fore\r");
    pty.wait_for("before\r\n");
    pty.signal(Signal::TSTP);
    eventually("it is stopped", || matches!(crate::support::stat(pty.pid())?, ('T', _)).then_some(()));
    assert!(pty.is_restored());
    let from = pty.mark();
    pty.signal(Signal::CONT);
    pty.wait_after(from, "before");
    assert!(!pty.is_restored());
    pty.press("exit\r");
    pty.finish().with_code(0);
}

#[test]
fn a_killed_server_is_reconnected() {
    let mut server = TestServer::new();
    let mut pty = shell(&server, "t");
    pty.press("X=kept; echo be''fore\r");
    pty.wait_for("before\r\n");
    server.kill();
    server.start();
    eventually("it has reconnected", || {
        let list = server.run(&["terminal", "list", "--json"]).with_code(0).json();
        (list["terminals"][0]["viewers"] == 1).then_some(())
    });
    pty.press("echo al''so $X\r");
    pty.wait_for("also kept");
    let shown = pty.so_far();
    assert_eq!(shown.matches("before\r\n").count(), 1, "nothing is shown twice: {shown:?}");
    pty.press("exit 3\r");
    pty.finish().with_code(3);
}

#[test]
fn without_i_the_output_is_only_shown() {
    let server = TestServer::new();
    // It asks the terminal a question, and waits for the answer: the server answers.
    let ask = r"stty raw -echo; printf '\e[6n'; IFS= read -rd R -t 30 answer; stty sane; echo got ${#answer} of ${answer:1}";
    let mut pty = pty(&server, &["exec", "-t", "--", "bash", "-c", ask]);
    pty.press("this is not passed on");
    let finished = pty.finish().with_code(0);
    assert!(finished.text().contains("got 5 of [1;1"), "{finished:?}");
    // Ctrl-C still ends it.
    let mut pty = pty_attached(&server, &["exec", "-t", "echo begun; sleep 1000"]);
    pty.wait_for("begun");
    pty.press("\x03");
    pty.finish().with_code(130);
    eventually("it has ended", || {
        let list = server.run(&["terminal", "list"]).with_code(0);
        (!list.text().contains("running")).then_some(())
    });
}

#[test]
fn several_viewers_see_the_same() {
    let server = TestServer::new();
    let mut first = shell(&server, "t");
    let second = pty_attached(&server, &["attach", "t"]);
    let watcher = pty_attached(&server, &["attach", "--read-only", "t"]);
    second.wait_for("ready> ");
    watcher.wait_for("ready> ");
    first.press("echo to''all\r");
    for viewer in [&first, &second, &watcher] {
        viewer.wait_for("toall");
    }
    first.press("exit 5\r");
    for viewer in [first, second, watcher] {
        viewer.finish().with_code(5);
    }
}

#[test]
fn run_t_works_without_a_server() {
    let home = tempfile::tempdir().unwrap();
    let mut command = crate::support::sandcrab(home.path());
    command.args([
        "run",
        "--standalone",
        "-it",
        "--",
        "bash",
        "--norc",
        "-c",
        "read line; echo got $line; tty; exit 6",
    ]);
    let mut pty = Pty::start(&command);
    pty.press("typed\r");
    let finished = pty.finish().with_code(6);
    assert!(finished.text().contains("got typed\r\n/dev/pts/"), "{finished:?}");
}

#[test]
fn json_is_printed_at_the_end() {
    let server = TestServer::new();
    let file = server.file("out.json");
    let stdout = std::fs::File::create(&file).unwrap();
    let pty = Pty::with_stdout(
        &server.sandcrab(&["shell", "--json", "--id", "t", "echo shown; exit 3"]),
        Some(stdout),
    );
    let finished = pty.finish().with_code(3);
    assert!(finished.text().contains("shown\r\n"), "{finished:?}");
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(
        (&document["id"], &document["exitCode"], &document["end"]["reason"]),
        (&"t".into(), &3.into(), &"exited".into())
    );
}

#[test]
fn a_session_lends_its_state() {
    let server = TestServer::new();
    // Without the ~/.bashrc of this machine.
    let home = format!("HOME={}", server.dir().display());
    server.run(&["session", "create", "s", "--cwd", "/usr", "-e", &home]).with_code(0);
    server.run(&["exec", "-s", "s", "greet() { echo hello from $PWD; }; NAME=kept"]).with_code(0);
    let mut pty = pty(&server, &["shell", "--session", "s"]);
    pty.press("greet; echo name=$NAME; exit\r");
    let finished = pty.finish().with_code(0);
    assert!(
        finished.text().contains("hello from /usr") && finished.text().contains("name=kept"),
        "{finished:?}"
    );
}

#[test]
fn a_recording_is_written_and_played() {
    let server = TestServer::new();
    let file = server.file("demo.cast");
    let path = file.to_str().unwrap();
    let finished =
        pty(&server, &["record", "-o", path, "printf 'one\\n'; sleep 0.5; printf 'two\\n'; exit 2"]).finish();
    assert!(finished.text().contains("demo.cast"), "{finished:?}");
    assert_eq!(finished.code, Some(2));
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let header = lines.next().unwrap();
    assert_eq!(
        (&header["version"], &header["width"], &header["height"]),
        (&2.into(), &80.into(), &24.into())
    );
    let at = |word: &str| {
        let found = text.lines().skip(1).find(|line| line.contains(word)).unwrap();
        serde_json::from_str::<serde_json::Value>(found).unwrap()[0].as_f64().unwrap()
    };
    assert!(at("two") - at("one") >= 0.4, "{text}");
    let played = server.run(&["play", path]).with_code(0);
    assert_eq!(played.text(), "one\r\ntwo\r\n");
    // Of a terminal that is running, and of a process.
    server.run(&["terminal", "create", "--id", "t", "echo in a terminal; sleep 1000"]).with_code(0);
    server.run(&["terminal", "wait", "t", "--text", "in a terminal"]).with_code(0);
    assert!(server.run(&["record", "-o", "-", "t"]).with_code(0).text().contains("in a terminal"));
    server.run(&["exec", "--id", "p", "echo of a process"]).with_code(0);
    let mut command = server.sandcrab(&["record", "--json", "p"]);
    let saved = Program::start(command.current_dir(server.dir())).finish().with_code(0).json();
    assert_eq!(saved["file"], "p.cast");
    assert!(std::fs::read_to_string(server.file("p.cast")).unwrap().contains("of a process"));
    // Devices and links stay as they are.
    std::os::unix::fs::symlink(&file, server.file("link")).unwrap();
    for refused in ["/dev/null", server.file("link").to_str().unwrap(), "/nowhere/x.cast"] {
        let finished = server.run(&["record", "-o", refused, "p"]).with_code(125);
        assert!(finished.stderr.contains(&format!("failed to write {refused}")), "{finished:?}");
    }
}

/// More than the terminal queues, into a program that begins to read late.
#[test]
fn a_paste_arrives_complete() {
    let server = TestServer::new();
    let copy = server.file("copy");
    let program = format!("stty raw -echo; echo begun; sleep 0.5; head -c 400000 >{}", copy.display());
    let pty = pty(&server, &["shell", "--", "bash", "-c", &program]);
    pty.wait_for("begun");
    let text: String = (0..50_000).map(|i| format!("{i:07} ")).collect();
    let pasted = pty.paste(text.clone());
    pty.finish().with_code(0);
    pasted.join().unwrap();
    assert!(std::fs::read_to_string(&copy).unwrap() == text);
}

#[test]
fn ctrl_c_does_not_wait_behind_a_paste() {
    let server = TestServer::new();
    let mut pty = pty(
        &server,
        &["shell", "--", "bash", "-c", "trap 'exit 9' INT; echo begun; while :; do sleep 0.1; done"],
    );
    pty.wait_for("begun");
    let pasted = pty.paste("x".repeat(200_000));
    // The program reads nothing, so most of it waits here.
    pasted.join().unwrap();
    pty.press("\x03");
    pty.finish().with_code(9);
}
