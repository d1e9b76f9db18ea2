//! Notes on standard error about how a command ended.

use rustix::process::Signal;

use crate::support::{TestServer, is_alive};

/// Runs a command that ends with this code. Returns standard error.
#[track_caller]
fn note(server: &TestServer, code: i32, args: &[&str]) -> String {
    server.run(args).with_code(code).stderr
}

#[test]
fn timeouts_and_limits() {
    let server = TestServer::new();
    let said = note(&server, 124, &["exec", "--timeout", "100ms", "sleep 600"]);
    assert_eq!(said, "note: the command exceeded its timeout and was ended (limit: 100ms)\n");
    let said = note(&server, 124, &["exec", "--idle-timeout", "100ms", "sleep 600"]);
    assert!(
        said.contains("wrote nothing for longer than its idle timeout") && said.contains("100ms"),
        "{said}"
    );
    let said = note(&server, 137, &["exec", "--limit", "output=1k", "yes"]);
    assert_eq!(said, "note: the command exceeded its output limit and was ended (limit: 1 KiB)\n");
    // The JSON result contains the same.
    assert_eq!(note(&server, 124, &["exec", "--json", "--timeout", "100ms", "sleep 600"]), "");
}

#[test]
fn a_timeout_of_the_session_is_reported() {
    let server = TestServer::new();
    server.run(&["session", "create", "s", "--timeout", "100ms"]).with_code(0);
    let said = note(&server, 124, &["session", "exec", "s", "sleep 600"]);
    // The shell may report the end of its child first.
    assert!(said.ends_with("note: the command exceeded its timeout and was ended\n"), "{said}");
}

/// With a cgroup the kernel ends the command; without one the allocation fails.
#[test]
fn memory_limits() {
    let server = TestServer::new();
    let python = ["exec", "--limit", "memory=64m,pids=50", "--", "python3", "-c", "bytearray(512 << 20)"];
    let finished = server.run(&python);
    let explained = match finished.code {
        Some(137) => "note: the command ran out of memory and was killed by the kernel (limit: 64 MiB)\n",
        _ => "MemoryError",
    };
    assert!(finished.code != Some(0) && finished.stderr.contains(explained), "{finished:?}");
}

#[test]
fn signals_and_kills() {
    let server = TestServer::new();
    assert_eq!(note(&server, 139, &["exec", "kill -SEGV $$"]), "note: the command was ended by SIGSEGV\n");
    assert_eq!(note(&server, 130, &["exec", "kill -INT $$"]), "");
    let running = server.spawn(&["exec", "--id", "k", "echo begun; exec sleep 600"]);
    running.wait_for("begun");
    server.run(&["kill", "k"]).with_code(0);
    assert_eq!(
        running.finish().with_code(143).stderr,
        "note: the command was killed by a request to the server\n"
    );
}

#[test]
fn leftovers_with_the_command_that_ends_them() {
    let server = TestServer::new();
    let args = ["exec", "--id", "left", "setsid sleep 600 >/dev/null 2>&1 & echo $!"];
    let finished = server.run(&args).with_code(0);
    let pid = finished.text().trim();
    assert!(finished.stderr.starts_with("note: the command left 1 process: "), "{finished:?}");
    assert!(
        finished.stderr.contains(&format!("(PID {pid}); end it with `sandcrab kill left`\n")),
        "{finished:?}"
    );
    let listed = server.run(&["ps"]).with_code(0);
    assert!(listed.text().contains(&format!(" 1 ({pid}) ")), "{listed:?}");
    server.run(&["kill", "left"]).with_code(0);
    assert!(!is_alive(pid));
    assert!(!server.run(&["ps"]).with_code(0).text().contains("left"));

    let kill = ["exec", "--leftovers", "kill", "setsid sleep 600 >/dev/null 2>&1 & echo $!"];
    let finished = server.run(&kill).with_code(0);
    assert!(
        finished.stderr.starts_with("note: killed at the end of the command: 1 process: "),
        "{finished:?}"
    );
    assert!(!is_alive(finished.text()));
}

#[test]
fn ctrl_c_says_how_long_it_waits() {
    let server = TestServer::new();
    let program = server.spawn(&["exec", "trap '' INT; echo ready; while :; do sleep 0.05; done"]);
    program.wait_for("ready");
    program.signal(Signal::INT);
    program.wait_for_error(
        "SIGINT was sent to the command; it has 10s to end before SIGKILL. Ctrl-C again kills it now\n",
    );
    program.signal(Signal::INT);
    let finished = program.finish().with_code(130);
    assert!(finished.stderr.ends_with("note: killing the command\n"), "{finished:?}");
}

#[test]
fn ps_shows_how_processes_ended() {
    let server = TestServer::new();
    server.run(&["exec", "--id", "slow", "--timeout", "50ms", "sleep 600"]).with_code(124);
    server.run(&["exec", "--id", "crashed", "kill -SEGV $$"]).with_code(139);
    server.run(&["exec", "--id", "loud", "--limit", "output=100", "yes"]).with_code(137);
    server.run(&["exec", "--id", "fine", "true"]).with_code(0);
    let listed = server.run(&["ps", "--all"]).with_code(0);
    let row = |id: &str| {
        let line = listed.text().lines().find(|line| line.starts_with(id)).unwrap();
        // Columns are two spaces apart.
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("slow")[2..5], ["killed", "124", "timeout"]);
    assert_eq!(row("crashed")[2..5], ["failed", "139", "SIGSEGV"]);
    assert_eq!(row("loud")[2..5], ["killed", "137", "output limit"]);
    assert_eq!(row("fine")[2..5], ["completed", "0", "exited"]);
}
