//! `ps`, `logs`, `kill`, `wait`.

use crate::support::{Pty, TestServer, is_alive};

/// Starts a process in the background.
fn start(server: &TestServer, id: &str, command: &str) {
    assert_eq!(server.run(&["start", "--id", id, command]).with_code(0).text(), format!("{id}\n"));
}

#[test]
fn ps_lists_running_and_ended_processes() {
    let server = TestServer::new();
    start(&server, "long", "sleep 600");
    start(&server, "short", "exit 3");
    server.run(&["wait", "short"]).with_code(3);
    let shown = server.run(&["ps"]).with_code(0);
    let lines: Vec<_> = shown.text().lines().collect();
    assert!(lines[0].starts_with("ID"), "{shown:?}");
    assert!(
        lines.len() == 2 && lines[1].starts_with("long ") && lines[1].ends_with("sleep 600"),
        "{shown:?}"
    );
    assert!(!shown.text().contains('\x1b'));
    let all = server.run(&["ps", "--all", "--json"]).with_code(0).json();
    let ids: Vec<_> =
        all["processes"].as_array().unwrap().iter().map(|p| p["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["long", "short"]);
    assert_eq!(all["processes"][1]["exitCode"], 3);
}

#[test]
fn control_characters_are_not_printed() {
    let server = TestServer::new();
    start(&server, "evil", "sleep 600 # \x1b[2J\n# second line");
    let shown = server.run(&["ps"]).with_code(0);
    assert_eq!(shown.text().lines().count(), 2, "{shown:?}");
    assert!(!shown.text().contains('\x1b'), "{shown:?}");
}

/// Ids are copied from the table.
#[test]
fn ids_are_whole_on_a_narrow_terminal() {
    let server = TestServer::new();
    let id = "a-process-with-a-long-name";
    start(&server, id, "sleep 100 && echo a long command that is longer than what is left of the line");
    let shown = Pty::start(&server.sandcrab(&["ps"])).finish().with_code(0);
    assert!(shown.text().contains(id), "{shown:?}");
    server.run(&["kill", id]).with_code(0);
}

#[test]
fn logs_show_both_streams_exactly() {
    let server = TestServer::new();
    start(&server, "p", r"printf '1\0\377\n'; printf 'e\n' >&2; printf '2\n3\n'");
    server.run(&["wait", "p"]).with_code(0);
    let shown = server.run(&["logs", "p"]).with_code(0);
    assert_eq!((shown.stdout.as_slice(), shown.stderr.as_str()), (&b"1\0\xff\n2\n3\n"[..], "e\n"));
    let only = server.run(&["logs", "p", "--stderr"]).with_code(0);
    assert_eq!((only.text(), only.stderr.as_str()), ("", "e\n"));
    let last = server.run(&["logs", "p", "--tail", "1", "--stdout"]).with_code(0);
    assert_eq!((last.text(), last.stderr.as_str()), ("3\n", ""));
    start(&server, "q", "echo -n 12345678");
    // A cursor is valid once its byte has been written.
    server.run(&["wait", "q"]).with_code(0);
    let rest = server.run(&["logs", "q", "--since", "6", "-f"]).with_code(0);
    assert_eq!(rest.text(), "78");
}

#[test]
fn json_logs_have_cursors() {
    let server = TestServer::new();
    start(&server, "p", "echo one; echo two >&2; exit 4");
    server.run(&["wait", "p"]).with_code(4);
    let shown = server.run(&["logs", "p", "--json"]).with_code(0);
    let lines: Vec<serde_json::Value> =
        shown.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<_> = lines.iter().map(|line| line["event"]["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["process_info", "stdout", "stderr", "exit"]);
    assert_eq!(lines[1]["event"]["data"], "one\n");
    let cursor = lines[1]["cursor"].as_str().unwrap();
    let rest = server.run(&["logs", "p", "--since", cursor]).with_code(0);
    assert_eq!((rest.text(), rest.stderr.as_str()), ("", "two\n"));
}

/// What is printed is not what the process wrote, so this is not a success, whatever the format.
#[test]
fn logs_with_dropped_output_are_a_failure() {
    let server = TestServer::with_options(&["--journal-bytes", "1MiB"]);
    start(&server, "p", "head -c 3000000 /dev/zero");
    server.run(&["wait", "p"]).with_code(0);
    let shown = server.run(&["logs", "p"]).with_code(74);
    let missing = 3_000_000 - shown.stdout.len();
    assert!(shown.stderr.contains(&format!("{missing} bytes of the output of p are missing")), "{shown:?}");
    server.run(&["logs", "p", "--json"]).with_code(74);
    start(&server, "q", "echo all");
    server.run(&["wait", "q"]).with_code(0);
    let both = server.run(&["logs", "p", "q", "--follow"]).with_code(74);
    assert!(both.text().contains("q | all"));
    // Nothing is missing after the gap.
    let last = server.run(&["logs", "p", "--since", "2999990"]).with_code(0);
    assert_eq!(last.stdout, [0; 10]);
}

#[test]
fn last_lines_after_dropped_output() {
    let server = TestServer::with_options(&["--journal-bytes", "256KiB"]);
    // 7 bytes for each line.
    start(&server, "p", "seq -w 100000 199999");
    server.run(&["wait", "p"]).with_code(0);
    let all = server.run(&["logs", "p"]).with_code(74).text().to_owned();
    let kept = all
        .lines()
        .rev()
        .zip((100_000..200_000).rev())
        .take_while(|(line, n)| *line == n.to_string())
        .count();
    assert!((2..100_000).contains(&kept), "{kept}");
    for lines in [1, 2, kept - 1] {
        let shown = server.run(&["logs", "p", "-n", &lines.to_string()]).with_code(0).text().to_owned();
        assert_eq!(shown.lines().count(), lines);
        assert!(shown.starts_with(&(200_000 - lines).to_string()), "{lines}: {}", &shown[..20]);
    }
    // The first of these lines may be a part of one.
    let shown = server.run(&["logs", "p", "-n", &(kept + 2).to_string()]).with_code(74);
    assert!(shown.text().lines().count() <= kept + 1 && shown.text().ends_with("199999\n"));
    assert!(shown.stderr.contains("p has written more lines than these"), "{}", shown.stderr);
}

#[test]
fn logs_follow_until_the_end() {
    let server = TestServer::new();
    let go = server.file("go");
    start(
        &server,
        "p",
        &format!("echo begun; until [ -e {} ]; do sleep 0.02; done; echo over", go.display()),
    );
    crate::support::eventually("its first line", || {
        (server.run(&["logs", "p"]).with_code(0).text() == "begun\n").then_some(())
    });
    let following = server.spawn(&["logs", "-f", "p"]);
    let tailing = server.spawn(&["logs", "-f", "-n", "1", "p"]);
    following.wait_for("begun\n");
    tailing.wait_for("begun\n");
    std::fs::write(go, "").unwrap();
    assert_eq!(following.finish().with_code(0).text(), "begun\nover\n");
    assert_eq!(tailing.finish().with_code(0).text(), "begun\nover\n");
}

/// Returns whether a process and its parent both run this program.
fn are_both(pid: &str, program: &str) -> bool {
    let of = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |status: &str, name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
    };
    let child = of(pid.trim());
    let parent = of(&field(&child, "PPid:").unwrap_or_default());
    [child, parent].iter().all(|status| field(status, "Name:").as_deref() == Some(program))
}

#[test]
fn kill_prints_its_receipt() {
    let server = TestServer::new();
    let pid = server.file("pid");
    start(&server, "tree", &format!("setsid sleep 600 & echo $! > {}; sleep 601", pid.display()));
    crate::support::eventually("both programs", || {
        let pid = std::fs::read_to_string(&pid).ok()?;
        (pid.ends_with('\n') && are_both(&pid, "sleep")).then_some(())
    });
    let receipt = server.run(&["kill", "tree", "--signal", "KILL", "--grace", "0s"]).with_code(0);
    assert!(receipt.text().contains("sleep 600") && receipt.text().contains("sleep 601"), "{receipt:?}");
    assert!(receipt.text().contains("SIGKILL"), "{receipt:?}");
    assert!(!is_alive(&std::fs::read_to_string(&pid).unwrap()));
    assert_eq!(server.run(&["kill", "tree"]).with_code(0).text(), "nothing was running\n");
    assert_eq!(
        server.run(&["kill", "tree", "--json"]).with_code(0).json()["survivors"],
        serde_json::json!([])
    );
    let waited = server.run(&["wait", "tree"]).with_code(137);
    assert!(waited.text().starts_with("tree was killed by a request to the server after "), "{waited:?}");
}

#[test]
fn wait_has_a_timeout() {
    let server = TestServer::new();
    start(&server, "p", "sleep 600");
    let waited = server.run(&["wait", "p", "--timeout", "50ms"]).with_code(75);
    assert!(waited.stderr.contains("hint: "), "{waited:?}");
    server.run(&["kill", "p"]).with_code(0);
    assert_eq!(server.run(&["wait", "p", "--json"]).with_code(143).json()["status"], "killed");
}
