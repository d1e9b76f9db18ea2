//! `sandcrab run` without a server: a temporary one is started and removed.

use std::process::Command;

use rustix::process::Signal;

use crate::support::{Finished, Program, TestServer, eventually, is_alive};

/// A home directory without a server, and a directory for temporary files.
struct Alone {
    dir: tempfile::TempDir,
}

impl Alone {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("tmp")).unwrap();
        Self { dir }
    }

    fn sandcrab(&self, args: &[&str]) -> Command {
        let mut command = crate::support::sandcrab(self.dir.path());
        // An address without a listener, because another server may use the default one.
        std::fs::create_dir_all(self.dir.path().join("state")).unwrap();
        std::fs::write(self.dir.path().join("state/address"), "unix:/nonexistent\n").unwrap();
        command.env("SANDCRAB_STATE_DIR", self.dir.path().join("state"));
        command.env("TMPDIR", self.dir.path().join("tmp")).current_dir(self.dir.path()).args(args);
        command
    }

    #[track_caller]
    fn run(&self, args: &[&str]) -> Finished {
        let finished = Program::start(&mut self.sandcrab(args)).finish();
        self.is_clean();
        finished
    }

    #[track_caller]
    fn is_clean(&self) {
        let left: Vec<_> = std::fs::read_dir(self.dir.path().join("tmp")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn output_and_exit_code_pass_through() {
    let finished = Alone::new().run(&["run", "echo out; echo err >&2; exit 3"]).with_code(3);
    assert_eq!((finished.text(), finished.stderr.as_str()), ("out\n", "err\n"));
}

#[test]
fn words_are_joined_for_a_shell_and_kept_apart_without() {
    let alone = Alone::new();
    assert_eq!(alone.run(&["run", "echo", "-n", "$((1+1))", "--json"]).with_code(0).text(), "2 --json");
    let words = ["run", "--", "printf", "%s|", "a b", "$HOME", "", "--", "--json"];
    assert_eq!(alone.run(&words).with_code(0).text(), "a b|$HOME||--|--json|");
}

#[test]
fn bytes_are_exact() {
    let alone = Alone::new();
    let written = alone.run(&["run", r"printf '\0a\377\r\n\0'; printf 'b\200\0' >&2"]).with_code(0);
    assert_eq!(written.stdout, b"\0a\xff\r\n\0");
    let text = "head -c 5000000 /dev/urandom | tee copy";
    let written = alone.run(&["run", text]).with_code(0);
    assert!(written.stdout == std::fs::read(alone.dir.path().join("copy")).unwrap());
}

#[test]
fn standard_input_passes_through() {
    let alone = Alone::new();
    let input: Vec<u8> = (0..600_000_u32).flat_map(u32::to_le_bytes).collect();
    let finished = Program::fed(&mut alone.sandcrab(&["run", "cat"]), &input).finish().with_code(0);
    assert!(finished.stdout == input);
    // A command that does not read its input is not an error.
    let finished =
        Program::fed(&mut alone.sandcrab(&["run", "head -c 1 >/dev/null; echo done"]), &input).finish();
    assert_eq!(finished.with_code(0).text(), "done\n");
    alone.is_clean();
}

#[test]
fn open_standard_input_does_not_delay() {
    let alone = Alone::new();
    let mut program =
        Program::start(alone.sandcrab(&["run", "echo done"]).stdin(std::process::Stdio::piped()));
    let stdin = program.take_stdin();
    assert_eq!(program.finish().with_code(0).text(), "done\n");
    drop(stdin);
}

#[test]
fn working_directory_and_environment_of_the_caller() {
    let alone = Alone::new();
    let here = alone.dir.path().canonicalize().unwrap();
    let finished = Program::start(alone.sandcrab(&["run", "pwd; echo $OURS"]).env("OURS", "yes")).finish();
    assert_eq!(finished.with_code(0).text(), format!("{}\nyes\n", here.display()));
    let options =
        ["run", "-e", "A=1=2", "--env", "B=", "--unset-env", "HOME", "--cwd", "/", "--timeout", "20s"];
    let command = ["echo $A,${B-unset},${HOME-unset},$PWD"];
    assert_eq!(alone.run(&[&options[..], &command].concat()).with_code(0).text(), "1=2,,unset,/\n");
}

#[test]
fn timeout_ends_the_command() {
    let finished = Alone::new().run(&["run", "--timeout", "2s", "echo begun; sleep 600"]).with_code(124);
    assert_eq!(finished.text(), "begun\n");
}

#[test]
fn leftovers_are_ended() {
    let alone = Alone::new();
    let finished = alone.run(&["run", "setsid sleep 600 >/dev/null 2>&1 & echo $!"]).with_code(0);
    assert!(!is_alive(finished.text()));
}

#[test]
fn missing_program_is_an_error() {
    let finished = Alone::new().run(&["run", "--", "no-such-program-at-all"]).with_code(127);
    assert!(finished.stderr.starts_with("error: "), "{finished:?}");
    // In a shell, this is a failing command.
    assert_eq!(Alone::new().run(&["run", "no-such-program-at-all"]).code, Some(127));
}

#[test]
fn json_is_one_document() {
    let result = Alone::new().run(&["run", "--json", "echo out; echo err >&2; exit 3"]).with_code(3).json();
    assert_eq!(result["stdout"], "out\n");
    assert_eq!(result["stderr"], "err\n");
    assert_eq!(result["exitCode"], 3);
    assert_eq!(result["end"]["reason"], "exited");
}

#[test]
fn running_server_is_used() {
    let server = TestServer::new();
    let state = server.file("default");
    std::fs::create_dir(&state).unwrap();
    std::fs::write(state.join("address"), format!("http://{}\n", server.address())).unwrap();
    std::fs::write(state.join("token"), format!("{}\n", server.token())).unwrap();
    let mut command = crate::support::sandcrab(server.dir());
    command.env("SANDCRAB_STATE_DIR", state).args(["run", "echo on the server"]);
    let finished = Program::start(&mut command).finish().with_code(0);
    assert_eq!(finished.text(), "on the server\n");
    let note = format!("note: using the server at http://{}; --standalone ", server.address());
    assert!(finished.stderr.starts_with(&note), "{finished:?}");
    let finished = server.run(&["run", "--json", "true"]).with_code(0);
    let note: serde_json::Value = serde_json::from_str(&finished.stderr).unwrap();
    assert!(note["note"].as_str().unwrap().starts_with("using the server at "), "{finished:?}");
    assert!(server.run(&["ps", "--all"]).with_code(0).text().contains("echo on the server"));
}

#[test]
fn a_killed_run_leaves_nothing() {
    let alone = Alone::new();
    let text = "trap '' TERM HUP; setsid sleep 1000 & echo $! $$; wait";
    let program = Program::start(&mut alone.sandcrab(&["run", text]));
    let pids = eventually("the process ids", || {
        let output = String::from_utf8(program.so_far()).unwrap();
        let pids: Vec<u32> = output.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        (output.ends_with('\n')).then_some(pids)
    });
    assert_eq!(pids.len(), 2);
    program.signal(Signal::KILL);
    eventually("the end of the command", || pids.iter().all(|pid| !is_alive(*pid)).then_some(()));
    let tmp = alone.dir.path().join("tmp");
    eventually("an empty temporary directory", || {
        std::fs::read_dir(&tmp).unwrap().next().is_none().then_some(())
    });
    drop(program.finish());
}
