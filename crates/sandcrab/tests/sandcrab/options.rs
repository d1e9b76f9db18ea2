//! Options of commands: working directory, environment, limits, terminals; and options that would have no effect.

use std::process::Command;

use crate::support::{Finished, PROGRAM, Program, TestServer, sandcrab};

#[test]
fn relative_working_directory() {
    let server = TestServer::new();
    let sub = server.file("sub");
    std::fs::create_dir(&sub).unwrap();
    let parent = sub.parent().unwrap().to_owned();
    let run = |args: &[&str]| Program::start(server.sandcrab(args).current_dir(&parent)).finish();
    for option in ["-C", "-w", "--cwd", "--workdir"] {
        let expected = format!("{}\n", sub.display());
        assert_eq!(run(&["exec", option, "sub", "pwd -P"]).with_code(0).text(), expected);
        assert_eq!(run(&["run", option, "sub", "pwd -P"]).with_code(0).text(), expected);
        assert_eq!(run(&["run", "--standalone", option, "sub", "pwd -P"]).with_code(0).text(), expected);
    }
    run(&["session", "create", "s", "-C", "sub"]).with_code(0);
    assert_eq!(run(&["exec", "-s", "s", "pwd -P"]).with_code(0).text(), format!("{}\n", sub.display()));
    assert_eq!(
        run(&["exec", "-s", "s", "-C", ".", "pwd -P"]).with_code(0).text(),
        format!("{}\n", parent.display())
    );
    run(&["start", "--id", "p", "-C", "sub", "pwd -P"]).with_code(0);
    run(&["wait", "p"]).with_code(0);
    assert_eq!(run(&["logs", "p"]).with_code(0).text(), format!("{}\n", sub.display()));
    // Another machine has other directories.
    let refused = run(&["--url", "http://192.0.2.1:7070", "exec", "-C", "sub", "pwd"]).with_code(2);
    assert!(refused.stderr.contains("hint: use an absolute path"), "{refused:?}");
}

#[test]
fn variable_without_a_value() {
    let server = TestServer::new();
    let args = [
        "exec",
        "-e",
        "A",
        "-e",
        "B=2=2",
        "-e",
        "C=",
        "-e",
        "NOT_SET",
        "echo \"$A,$B,${C-unset},${NOT_SET-unset}\"",
    ];
    let finished = Program::start(server.sandcrab(&args).env("A", "from here")).finish().with_code(0);
    assert_eq!(finished.text(), "from here,2=2,,unset\n");
}

#[test]
fn limits_reach_the_command() {
    let server = TestServer::new();
    let shown =
        server.run(&["exec", "--limit", "files=64,file-size=1m", "--limit", "cpu=7", "ulimit -n -f -t"]);
    let shown = shown.with_code(0);
    for (word, value) in [("open files", "64"), ("file size", "1024"), ("cpu time", "7")] {
        let line = shown.text().lines().find(|line| line.starts_with(word)).unwrap_or_default();
        assert!(line.ends_with(value), "{word}: {shown:?}");
    }
    for wrong in ["memory", "memory=x", "disk=1g", "pids=1,pids=2", "cpu=1ms"] {
        server.run(&["exec", "--limit", wrong, "true"]).with_code(2);
    }
}

#[test]
fn programs_that_cannot_be_executed_or_found() {
    let server = TestServer::new();
    let file = server.file("not-executable");
    std::fs::write(&file, "text").unwrap();
    let file = file.to_str().unwrap();
    for command in ["exec", "run", "start"] {
        let missing = server.run(&[command, "--", "no-such-program-at-all"]).with_code(127);
        assert!(missing.stderr.contains("no-such-program-at-all"), "{missing:?}");
        assert!(server.run(&[command, "--", file]).with_code(126).stderr.contains("not-executable"));
        assert!(server.run(&[command, "--", "/"]).with_code(126).stderr.contains("error: "));
    }
    server.run(&["run", "--standalone", "--", file]).with_code(126);
    // With a shell or a session, the shell reports it.
    server.run(&["session", "create", "s"]).with_code(0);
    for session in [&["exec"][..], &["session", "exec", "s"]] {
        server.run(&[session, &["no-such-program-at-all"]].concat()).with_code(127);
        server.run(&[session, &[file]].concat()).with_code(126);
    }
    // Not about the program, but about the working directory.
    server.run(&["exec", "-C", file, "true"]).with_code(2);
}

/// Runs the program on a terminal.
fn on_terminal(server: &TestServer, arguments: &str) -> Finished {
    let mut command = Command::new("script");
    // Without a terminal of its own, `script` ends the input with Ctrl-D.
    command.args(["-qec", &format!("{PROGRAM} {arguments}"), "/dev/null"]).stdin(std::process::Stdio::null());
    command.env("SANDCRAB_URL", format!("http://{}", server.address())).env("SANDCRAB_TOKEN", server.token());
    Program::start(command.env("NO_COLOR", "1")).finish()
}

#[test]
fn interactive_programs_on_a_terminal_are_explained() {
    let server = TestServer::new();
    server.run(&["session", "create", "s"]).with_code(0);
    for arguments in [
        "exec bash",
        "exec python3",
        "exec -- /bin/bash -l",
        "session exec s bash",
        "run --standalone sh",
        "exec vim x.txt",
    ] {
        let shown = on_terminal(&server, arguments).with_code(2);
        assert!(
            shown.text().contains("needs a terminal")
                && shown.text().contains("add -it, or use `sandcrab shell`"),
            "{arguments}: {shown:?}"
        );
    }
    for arguments in ["exec cat", "exec -- sort -u", "session exec s -- head -n 3", "run --standalone wc"] {
        let shown = on_terminal(&server, arguments).with_code(2);
        assert!(
            shown.text().contains("reads standard input") && shown.text().contains("add -i"),
            "{arguments}: {shown:?}"
        );
    }
    for arguments in
        [&["exec", "-t", "bash"][..], &["exec", "-it", "bash"], &["run", "--tty", "true"], &["shell"]]
    {
        let shown = server.run(arguments).with_code(2);
        assert!(
            shown.stderr.contains("needs a terminal, and standard input is not one"),
            "{arguments:?}: {shown:?}"
        );
        let is_option = arguments != ["shell"];
        assert_eq!(shown.stderr.contains("or omit the option"), is_option, "{arguments:?}: {shown:?}");
    }
    let shown = server.run(&["start", "-t", "bash"]).with_code(2);
    assert!(shown.stderr.contains("`sandcrab terminal create`"), "{shown:?}");
    assert_eq!(on_terminal(&server, "exec echo hello").with_code(0).text(), "hello\r\n");
    assert!(on_terminal(&server, "exec bash --version").with_code(0).text().contains("GNU bash"));
}

#[test]
fn standard_input_of_a_terminal_is_passed_with_i() {
    let server = TestServer::new();
    let mut child = Command::new("script");
    child.args(["-qec", &format!("{PROGRAM} exec -i 'read line; echo got $line'"), "/dev/null"]);
    child.env("SANDCRAB_URL", format!("http://{}", server.address())).env("SANDCRAB_TOKEN", server.token());
    let finished = Program::fed(&mut child, b"typed\n").finish().with_code(0);
    assert!(finished.text().contains("got typed\r\n"), "{finished:?}");
}

#[test]
fn options_without_effect_are_rejected() {
    let home = tempfile::tempdir().unwrap();
    for args in [
        &["--url", "http://127.0.0.1:1", "serve"][..],
        &["serve", "--url", "http://127.0.0.1:1"],
        &["serve", "--json"],
        &["--json", "completions", "bash"],
        &["completions", "bash", "--url", "http://127.0.0.1:1"],
        &["completions", "--token-file", "x", "bash"],
        &["man", "--json", "x"],
        &["play", "--json", "x"],
        &["play", "--url", "http://127.0.0.1:1", "x"],
        &["run", "--standalone", "--url", "http://127.0.0.1:1", "true"],
    ] {
        let finished = Program::start(sandcrab(home.path()).args(args)).finish().with_code(2);
        assert!(finished.stderr.contains("has no effect with `sandcrab "), "{args:?}: {finished:?}");
        assert!(finished.stdout.is_empty());
    }
    // A variable may be meant for other commands.
    let mut command = sandcrab(home.path());
    command.env("SANDCRAB_URL", "http://127.0.0.1:1").args(["run", "--standalone", "echo works"]);
    assert_eq!(Program::start(&mut command).finish().with_code(0).text(), "works\n");
}

#[test]
fn usage_errors_are_json_if_asked_for() {
    let home = tempfile::tempdir().unwrap();
    for (args, word) in [
        (&["--json", "nope"][..], "nope"),
        (&["exec", "--json", "--tiemout", "5s", "true"], "--tiemout"),
        (&["exec", "--json"], "<COMMAND>"),
        (&["--json", "exec", "--timeout", "5", "true"], "15m"),
        (&["wait", "--json"], "<IDS>"),
        (&["--json"], "subcommand"),
        (&["--json", "--url", "ftp://x", "ps"], "ftp://x"),
        (&["serve", "--json"], "--json"),
        (&["exec", "--json", "-t", "bash"], "-t needs a terminal"),
    ] {
        let finished = Program::start(sandcrab(home.path()).args(args)).finish().with_code(2);
        let error: serde_json::Value =
            serde_json::from_str(&finished.stderr).unwrap_or_else(|e| panic!("{e}: {finished:?}"));
        assert_eq!(
            (&error["error"]["code"], &error["error"]["exitCode"]),
            (&"INVALID_USAGE".into(), &2.into())
        );
        assert!(error["error"]["message"].as_str().unwrap().contains(word), "{error}");
        assert!(finished.stdout.is_empty());
        if word == "--tiemout" {
            let hint =
                "a similar argument exists: '--timeout'; to pass '--tiemout' as a value, use '-- --tiemout'";
            assert_eq!(error["error"]["hint"], hint);
        }
    }
    // Help is not an error.
    let help = Program::start(sandcrab(home.path()).args(["--json", "--help"])).finish().with_code(0);
    assert!(help.text().contains("Usage: "));
}
