//! `sandcrab exec` on a server.

use crate::support::{Program, TestServer};

#[test]
fn output_and_exit_code_pass_through() {
    let server = TestServer::new();
    let finished = server.run(&["exec", r"printf '\0\377'; echo err >&2; exit 7"]).with_code(7);
    assert_eq!((finished.stdout.as_slice(), finished.stderr.as_str()), (&b"\0\xff"[..], "err\n"));
    assert_eq!(server.run(&["exec", "kill -9 $$"]).code, Some(137));
    assert_eq!(server.run(&["exec", "--timeout", "100ms", "sleep 600"]).code, Some(124));
    assert_eq!(server.run(&["exec", "--", "printf", "%s.", "a b", "-c"]).with_code(0).text(), "a b.-c.");
}

#[test]
fn standard_input_passes_through() {
    let server = TestServer::new();
    let input = b"\0binary\xff\n".repeat(100_000);
    let finished = Program::fed(&mut server.sandcrab(&["exec", "cat"]), &input).finish().with_code(0);
    assert!(finished.stdout == input);
    server.run(&["session", "create", "s"]).with_code(0);
    let finished =
        Program::fed(&mut server.sandcrab(&["exec", "-s", "s", "read line; echo got $line"]), b"it\n");
    assert_eq!(finished.finish().with_code(0).text(), "got it\n");
    assert_eq!(server.run(&["exec", "-s", "s", "echo $line"]).with_code(0).text(), "it\n");
}

#[test]
fn json_has_every_field() {
    let server = TestServer::new();
    let result = server.run(&["exec", "--json", r"printf 'a\377'; exit 2"]).with_code(2).json();
    assert_eq!(result["stdout"], "a\u{fffd}");
    assert_eq!(result["invalidUtf8"], true);
    assert_eq!(result["success"], false);
    assert_eq!(result["cursor"], 2);
    for field in ["stderr", "command", "duration", "timestamp", "executionId", "usage"] {
        assert!(!result[field].is_null(), "{field}: {result}");
    }
    // Global options are accepted before and after the subcommand.
    assert_eq!(server.run(&["--json", "exec", "true"]).with_code(0).json()["exitCode"], 0);
}

/// The id of a finished command can be reused, also by the same command.
#[test]
fn id_is_reused() {
    let server = TestServer::new();
    let run = || server.run(&["exec", "--id", "again", "date +%N"]).with_code(0).text().to_owned();
    assert_ne!(run(), run());
    let running = server.spawn(&["exec", "--id", "busy", "echo begun; exec sleep 600"]);
    running.wait_for("begun");
    let refused = server.run(&["exec", "--id", "busy", "echo begun; exec sleep 600"]).with_code(125);
    assert!(refused.stderr.starts_with("error: ") && refused.stdout.is_empty(), "{refused:?}");
    server.run(&["kill", "busy"]).with_code(0);
}

#[test]
fn large_output_arrives() {
    let server = TestServer::new();
    let finished = server.run(&["exec", "seq 1 500000; seq 1 1000 >&2"]).with_code(0);
    let numbers = |to: u32| (1..=to).map(|n| format!("{n}\n")).collect::<String>();
    assert!(finished.text() == numbers(500_000));
    assert!(finished.stderr == numbers(1_000));
}

/// If the server dropped output, the printed output is incomplete, so the exit code is not 0.
#[test]
fn missing_output_is_a_failure() {
    use std::io::{BufRead, BufReader, Write};
    let server = TestServer::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let fake = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = BufReader::new(stream.try_clone().unwrap()).lines();
        while request.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let time = r#""timestamp":"2026-01-01T00:00:00.000Z""#;
        let start = format!(r#"{{"type":"start","command":"x","executionId":"x",{time}}}"#);
        let gap = format!(r#"{{"type":"gap","from":100,"to":12445,{time}}}"#);
        let usage = r#""usage":{"userMs":0,"systemMs":0,"wallMs":0,"maxRssBytes":0}"#;
        let result = format!(
            r#""result":{{"success":true,"exitCode":0,"command":"x","duration":1,"executionId":"x",{time}}}"#
        );
        let complete = format!(
            r#"{{"type":"complete","exitCode":0,"end":{{"reason":"exited"}},{usage},{result},{time}}}"#
        );
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        for event in [start, gap, complete] {
            stream.write_all(format!("id: 0\ndata: {event}\n\n").as_bytes()).unwrap();
        }
    });
    let finished = server.run(&["--url", &url, "exec", "x"]).with_code(74);
    assert!(finished.stderr.contains("12345 bytes"), "{}", finished.stderr);
    fake.join().unwrap();
}
