//! Error messages and exit codes.

use std::io::Read;
use std::process::Stdio;

use crate::support::{Program, TestServer};

#[test]
fn missing_server() {
    let home = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", home.path().join("none").display());
    for args in [["ps"].as_slice(), &["run", "true"], &["exec", "true"], &["health"]] {
        let mut command = crate::support::sandcrab(home.path());
        let finished =
            Program::start(command.env("SANDCRAB_URL", &socket).args(args)).finish().with_code(125);
        assert!(finished.stderr.starts_with("error: failed to reach the server at unix:"), "{finished:?}");
        assert!(finished.stderr.contains("\nhint: start a server with `sandcrab serve`"), "{finished:?}");
        assert!(finished.stdout.is_empty());
    }
}

/// As if they were not set.
#[test]
fn empty_variables() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("address"), "unix:/nonexistent").unwrap();
    let mut command = crate::support::sandcrab(home.path());
    command.env("SANDCRAB_STATE_DIR", home.path()).env("SANDCRAB_URL", "").env("SANDCRAB_TOKEN_FILE", "");
    let finished = Program::start(command.arg("ps")).finish().with_code(125);
    let expected = "error: failed to reach the server at unix:/nonexistent: the socket does not exist\n";
    assert!(finished.stderr.starts_with(expected), "{finished:?}");
    let refused = Program::start(crate::support::sandcrab(home.path()).args(["--url", "", "ps"])).finish();
    refused.with_code(2);
}

#[test]
fn not_a_sandcrab_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let length = stream.read(&mut request).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let home = tempfile::tempdir().unwrap();
    let mut command = crate::support::sandcrab(home.path());
    let finished = Program::start(command.args(["--url", &address, "ps"])).finish().with_code(125);
    assert!(finished.stderr.contains("invalid response from "), "{finished:?}");
    answering.join().unwrap();
}

#[test]
fn missing_or_wrong_token() {
    let server = TestServer::new();
    for (name, value) in [("SANDCRAB_TOKEN", ""), ("SANDCRAB_TOKEN", "wrong")] {
        let finished = Program::start(server.sandcrab(&["ps"]).env(name, value)).finish().with_code(125);
        assert!(
            finished.stderr.contains("hint: ") && finished.stderr.contains("--token-file"),
            "{finished:?}"
        );
    }
    let file = server.file("token");
    std::fs::write(&file, format!("{}\n", server.token())).unwrap();
    let args = ["ps", "--token-file", file.to_str().unwrap()];
    Program::start(server.sandcrab(&args).env("SANDCRAB_TOKEN", "wrong")).finish().with_code(0);
    let missing = server.run(&["ps", "--token-file", "/nonexistent"]).with_code(125);
    assert!(missing.stderr.contains("/nonexistent"), "{missing:?}");
}

#[test]
fn missing_ids() {
    let server = TestServer::new();
    for args in [["logs", "nope"], ["wait", "nope"], ["kill", "nope"]] {
        let finished = server.run(&args).with_code(125);
        assert!(finished.stderr.contains("hint: `sandcrab ps --all`"), "{finished:?}");
    }
    // These must not call the routes with these names.
    for id in ["kill-all", "list", "cleanup", "..", ""] {
        let finished = server.run(&["kill", id]).with_code(2);
        assert!(finished.stderr.starts_with("error: "), "{finished:?}");
    }
}

/// The exit code does not depend on whether this program or the server finds the mistake.
#[test]
fn invalid_values_are_invalid_usage() {
    let server = TestServer::new();
    server.run(&["start", "--id", "nap", "sleep 100"]).with_code(0);
    for args in [
        &["kill", "nap", "--signal", "NONE"][..],
        &["signal", "NONE", "nap"],
        &["exec", "--cwd", "/nonexistent", "true"],
        &["exec", "--", ""],
        &["session", "create", "a b"],
        &["expose", "0"],
    ] {
        let refused = server.run(args).with_code(2);
        // The user has not given a field of a request.
        let field = refused.stderr.strip_prefix("error: ").and_then(|message| message.split(' ').next());
        assert!(field.is_some_and(|word| !word.ends_with(':')), "{args:?}: {refused:?}");
    }
    server.run(&["kill", "nap"]).with_code(0);
}

/// Help is output too: its loss is not a success.
#[test]
fn help_that_cannot_be_written() {
    let home = tempfile::tempdir().unwrap();
    for args in
        [&["--help"][..], &["exec", "-h"], &["help", "exec"], &["--version"], &["completions", "bash"]]
    {
        let run = |stdout: Stdio| {
            let mut command = crate::support::sandcrab(home.path());
            let mut child = command.args(args).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
            let mut message = String::new();
            child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
            (child.wait().unwrap().code(), message)
        };
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let (code, message) = run(full.into());
        assert_eq!(code, Some(74), "{args:?}: {message}");
        assert!(
            message.starts_with("error: failed to write the output: No space left"),
            "{args:?}: {message}"
        );
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(run(closed.into()), (Some(141), String::new()), "{args:?}");
    }
}

/// The suggestions of the API name routes. Those of this program name commands.
#[test]
fn hints_are_about_commands() {
    let server = TestServer::new();
    server.run(&["service", "start", "--id", "nap", "sleep 100"]).with_code(0);
    server.run(&["expose", "8080"]).with_code(0);
    let repository = server.file("repository");
    let path = repository.to_str().unwrap();
    for args in [&["init", "-q", path][..], &["-C", path, "commit", "-q", "--allow-empty", "-m", "x"]] {
        let identity = ["-c", "user.name=x", "-c", "user.email=x@example.com"];
        assert!(std::process::Command::new("git").args(identity).args(args).status().unwrap().success());
    }
    for (args, hint) in [
        (&["inspect", "none"][..], "`sandcrab ps --all`"),
        (&["exec", "-s", "none", "true"], "`sandcrab session list`"),
        (&["terminal", "screen", "none"], "`sandcrab terminal list`"),
        (&["service", "status", "none"], "`sandcrab service list`"),
        (&["service", "start", "--id", "nap", "sleep 100"], "`sandcrab service stop`"),
        (&["backup", "delete", "11111111-1111-4111-8111-111111111111"], "`sandcrab backup list`"),
        (&["expose", "8080"], "`sandcrab expose remove`"),
        (&["expose", "remove", "8081"], "`sandcrab expose list`"),
        (&["git", "diff", "-C", path, "--branch", "none"], "`sandcrab git branches`"),
        (&["rm", path], "-r deletes a directory"),
        (&["rm", path, path], "-r deletes a directory"),
        (&["cp", ":/nonexistent", "here"], "`sandcrab ls`"),
        (
            &["service", "start", "--id", "broken", "--wait", "--tcp", "1", "false"],
            "`sandcrab service logs broken`",
        ),
    ] {
        let refused = server.run(args).with_code(125);
        assert!(
            refused.stderr.contains("\nhint: ") && refused.stderr.contains(hint),
            "{args:?}: {refused:?}"
        );
        assert!(!refused.stderr.contains("/api/"), "{args:?}: {refused:?}");
    }
    server.run(&["service", "delete", "nap"]).with_code(0);
}

#[test]
fn errors_are_json_with_json() {
    let server = TestServer::new();
    let finished = server.run(&["wait", "nope", "--json"]).with_code(125);
    let error: serde_json::Value = serde_json::from_str(&finished.stderr).unwrap();
    assert_eq!(error["error"]["code"], "PROCESS_NOT_FOUND");
    assert_eq!(error["error"]["exitCode"], 125);
    assert!(error["error"]["message"].is_string() && error["error"]["hint"].is_string());
    assert!(finished.stdout.is_empty());
}

#[test]
fn invalid_usage() {
    let home = tempfile::tempdir().unwrap();
    for args in [
        ["run"].as_slice(),
        &["nope"],
        &["exec", "--timeout", "5", "true"],
        &["exec", "--env", "=A", "true"],
        &["exec", "-t", "true"],
        &["wait"],
        &["kill"],
        &["kill", "x", "--all"],
        &["kill", "x", "--session", "s"],
        &["start", "--on-session-end", "keep", "true"],
        &["env"],
        &["logs", "x", "--stdout", "--stderr"],
        &["completions", "nope"],
    ] {
        let finished = Program::start(crate::support::sandcrab(home.path()).args(args)).finish();
        assert!(finished.code == Some(2) && finished.stderr.starts_with("error: "), "{args:?}: {finished:?}");
    }
    let finished =
        Program::start(crate::support::sandcrab(home.path()).args(["--url", "ftp://x", "ps"])).finish();
    assert!(finished.with_code(2).stderr.contains("use http://HOST:PORT or unix:PATH"));
}

#[test]
fn local_token_is_not_sent_elsewhere() {
    // Another host gets no token, whether or not a server answers there.
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("token"), "secret").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = |host: &str| {
        let mut command = crate::support::sandcrab(home.path());
        command.env("SANDCRAB_STATE_DIR", home.path()).env("SANDCRAB_URL", format!("http://{host}:{port}"));
        let program = Program::start(command.arg("ps"));
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let length = std::io::Read::read(&mut stream, &mut request).unwrap();
        drop(stream);
        drop(program.finish());
        String::from_utf8_lossy(&request[..length]).to_ascii_lowercase()
    };
    assert!(heard("127.0.0.1").contains("authorization: bearer secret"));
    // The same machine, by an address that could belong to another one.
    assert!(!heard("0.0.0.0").contains("authorization"));
}

/// An unknown option is not taken as a command.
#[test]
fn mistyped_option_is_not_run() {
    let home = tempfile::tempdir().unwrap();
    for name in ["exec", "run"] {
        let mut command = crate::support::sandcrab(home.path());
        let finished = Program::start(command.args([name, "--tiemout", "5s", "true"])).finish().with_code(2);
        assert!(finished.stderr.contains("--tiemout"), "{finished:?}");
    }
}

/// Without a free process, the program fails before it has done anything.
#[test]
fn lack_of_processes_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    // The limit does not apply to root. The other user may not be able to reach the program by its path.
    let text = "exec 9<$0; [ $UID != 0 ] || user='setpriv --reuid 54399 --clear-groups'
        exec ${user-} bash -c 'ulimit -u 1; exec /proc/self/fd/9 \"$@\"' bash \"$@\"";
    for args in [["ps"].as_slice(), &["run", "true"], &["exec", "true"]] {
        let mut command = std::process::Command::new("bash");
        command.args(["-c", text, crate::support::PROGRAM]).args(args).env("HOME", home.path());
        let finished = Program::start(&mut command).finish().with_code(125);
        assert!(
            finished.stderr.starts_with("error: failed to start a thread: too many processes"),
            "{finished:?}"
        );
        assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    }
}
