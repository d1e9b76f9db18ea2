//! `sandcrab mcp`, `/mcp` of a server, and `sandcrab tools`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Mcp, Program, TEST_TIMEOUT, TestServer, eventually, is_alive, sandcrab};

#[test]
fn tools_are_listed_and_printed() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    let listed = mcp.result("tools/list", json!({}))["tools"].clone();
    let names: Vec<_> =
        listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for name in
        ["exec", "session_create", "process_output", "file_read", "search", "terminal_screen", "port_expose"]
    {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let tool = |name: &str| listed.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
    assert_eq!(tool("exec")["inputSchema"]["required"], json!(["command"]));
    assert_eq!(tool("exec")["annotations"]["destructiveHint"], true);
    assert_eq!(tool("file_read")["annotations"]["readOnlyHint"], true);
    let printed = server.run(&["tools", "--url", "http://localhost"]).with_code(2);
    assert!(printed.stderr.contains("--url"), "{printed:?}");
    let print = |format: &str| {
        let mut command = sandcrab(server.dir());
        Program::start(command.args(["tools", "--format", format])).finish().with_code(0).json()
    };
    assert_eq!(print("json"), listed);
    assert_eq!(print("openai")[0]["function"]["parameters"], tool("exec")["inputSchema"]);
    assert_eq!(print("anthropic")[0]["input_schema"], tool("exec")["inputSchema"]);
}

#[test]
fn exec_returns_output_and_exit_code() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    let result = mcp.call("exec", json!({"command": "echo out; echo err >&2; exit 3"}));
    let fields = &result["structuredContent"];
    assert_eq!(
        (&fields["stdout"], &fields["stderr"], &fields["exitCode"]),
        (&json!("out\n"), &json!("err\n"), &json!(3))
    );
    assert_eq!(result["isError"], false);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("out\nerr\n[exit code 3, ")
            && text.contains(fields["executionId"].as_str().unwrap()),
        "{text}"
    );
    let argv =
        mcp.call("exec", json!({"command": "printf", "args": ["%s", "a  b"], "env": {"X": "1"}, "cwd": "/"}));
    assert_eq!(argv["structuredContent"]["stdout"], "a  b");
    let timeout = mcp.call("exec", json!({"command": "sleep 300", "timeoutMs": 50}));
    assert_eq!(timeout["structuredContent"]["exitCode"], 124);
    let input = mcp.call("exec", json!({"command": "cat", "stdin": "given"}));
    assert_eq!(input["structuredContent"]["stdout"], "given");
}

#[test]
fn errors_say_what_to_do() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    for (tool, arguments, code, hint) in [
        ("exec", json!({"comand": "x"}), "VALIDATION_FAILED", "correct the arguments"),
        ("exec", json!({"command": 7}), "VALIDATION_FAILED", "correct the arguments"),
        ("exec", json!({"command": "x", "sessionId": "none"}), "SESSION_NOT_FOUND", "session_create"),
        ("process_output", json!({"id": "none"}), "PROCESS_NOT_FOUND", "process_list"),
        (
            "process_output",
            json!({"id": "none", "cursor": "x"}),
            "VALIDATION_FAILED",
            "correct the arguments",
        ),
        ("terminal_screen", json!({"id": "none"}), "TERMINAL_NOT_FOUND", "terminal_open"),
        ("port_unexpose", json!({"port": 9}), "PORT_NOT_EXPOSED", "port_list"),
        (
            "file_edit",
            json!({"path": "/etc/passwd", "oldText": "\u{1}", "newText": ""}),
            "TEXT_NOT_FOUND",
            "file_read",
        ),
    ] {
        let error = mcp.call(tool, arguments.clone());
        assert_eq!(error["isError"], true, "{tool} {arguments}");
        assert_eq!(error["structuredContent"]["error"]["code"], code, "{tool} {arguments}");
        let text = error["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(code) && text.contains("What to do: ") && text.contains(hint), "{text}");
        assert!(!text.contains("/api/"), "a model has no requests: {text}");
    }
    // Errors of the protocol.
    let unknown = mcp.request("tools/call", json!({"name": "none", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let unknown = mcp.request("none/none", json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    let missing = mcp.request("resources/read", json!({"uri": "sandcrab://file/none"}));
    assert_eq!(missing["error"]["data"]["code"], "FILE_NOT_FOUND", "{missing}");
}

#[test]
fn cut_output_continues_at_its_cursor() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    let script = "for i in $(seq 1 3000); do echo \"$i añb€c𝄞\"; done";
    let whole: String = (1..=3000).map(|i| format!("{i} añb€c𝄞\n")).collect();
    let cut = mcp.call("exec", json!({"command": script, "maxOutputBytes": 1000}));
    let text = cut["content"][0]["text"].as_str().unwrap();
    let fields = &cut["structuredContent"];
    assert!(
        text.len() < 1_300 && text.starts_with("1 añb€c𝄞\n") && text.contains("\n3000 añb€c𝄞\n[exit code 0"),
        "{text}"
    );
    assert!(
        fields["stdout"].as_str().unwrap().contains(" bytes omitted; continue with process_output"),
        "{fields}"
    );
    let cursor = fields["omitted"]["cursor"].as_str().unwrap();
    assert!(text.contains(&format!("cursor \"{cursor}\"")), "{text}");
    let at: usize = cursor.parse().unwrap();
    let mut seen = whole[..at].to_owned();
    let mut cursor = cursor.to_owned();
    loop {
        let arguments = json!({"id": fields["executionId"], "cursor": cursor, "maxOutputBytes": 9_999});
        let part = mcp.call("process_output", arguments)["structuredContent"].clone();
        seen.push_str(part["stdout"].as_str().unwrap());
        if part["more"] != true {
            assert_eq!(part["exitCode"], 0, "{part}");
            break;
        }
        cursor = part["cursor"].as_str().unwrap().to_owned();
    }
    assert_eq!(seen, whole);
}

#[test]
fn cancellation_ends_the_command() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    let pids = server.file("pids");
    let command =
        format!("trap '' TERM; sleep 300 & echo $$ $! > {}.tmp; mv {0}.tmp {0}; wait; wait", pids.display());
    let id = mcp.send_call("exec", json!({"command": command}), Some(json!("token")));
    let pids = eventually("it runs", || std::fs::read_to_string(&pids).ok());
    let started = mcp.notification("notifications/progress");
    assert_eq!(started["params"]["progressToken"], "token");
    assert!(started["params"]["message"].as_str().unwrap().starts_with("started execution x-"), "{started}");
    // Every second until the end.
    let later = mcp.notification("notifications/progress");
    assert!(later["params"]["progress"].as_f64() > started["params"]["progress"].as_f64(), "{later}");
    mcp.notify("notifications/cancelled", json!({"requestId": id, "reason": "test"}));
    for pid in pids.split_whitespace() {
        eventually("it is killed", || (!is_alive(pid)).then_some(()));
    }
    // The connection is still usable, and the cancelled call gets no response.
    assert_eq!(mcp.call("exec", json!({"command": "echo next"}))["structuredContent"]["stdout"], "next\n");
    assert!(mcp.responses().iter().all(|response| *response != id));
}

#[test]
fn concurrent_calls_are_limited() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    mcp.call("process_start", json!({"id": "p", "command": "sleep 300"}));
    let wait = json!({"id": "p", "waitMs": 600_000});
    let waits: Vec<_> =
        (0..sandcrab_mcp::MAX_CALLS).map(|_| mcp.send_call("process_output", wait.clone(), None)).collect();
    let refused = mcp.call("session_list", json!({}));
    assert_eq!(refused["structuredContent"]["error"]["code"], "LIMIT_EXCEEDED", "{refused}");
    mcp.notify("notifications/cancelled", json!({"requestId": waits[0]}));
    eventually("a call has ended", || {
        (mcp.call("process_kill", json!({"id": "p"}))["isError"] == false).then_some(())
    });
    for wait in &waits[1..] {
        assert_eq!(mcp.response(*wait)["result"]["structuredContent"]["exitCode"], 143);
    }
}

/// Each call has a connection of its own, so that the waits of some clients do not delay others.
#[test]
fn waits_do_not_delay_other_calls() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    mcp.call("process_start", json!({"id": "p", "command": "sleep 300"}));
    let wait = json!({"id": "p", "waitMs": 600_000});
    let waits: Vec<_> = (0..2 * sandcrab_client::MAX_CONNECTIONS)
        .map(|_| mcp.send_call("process_output", wait.clone(), None))
        .collect();
    assert_eq!(mcp.call("process_list", json!({}))["structuredContent"]["count"], 1);
    let output = mcp.call("process_output", json!({"id": "p", "waitMs": 10}));
    assert_eq!(output["structuredContent"]["running"], true, "{output}");
    mcp.call("process_kill", json!({"id": "p"}));
    for wait in waits {
        assert_eq!(mcp.response(wait)["result"]["structuredContent"]["exitCode"], 143);
    }
}

#[test]
fn a_killed_client_leaves_no_command() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    let pid = server.file("pid");
    let command = format!("echo $$ > {}.tmp; mv {0}.tmp {0}; sleep 300; echo", pid.display());
    mcp.send_call("exec", json!({"command": command}), None);
    let pid = eventually("it runs", || std::fs::read_to_string(&pid).ok());
    mcp.call("process_start", json!({"id": "stays", "command": "sleep 300"}));
    mcp.kill();
    eventually("it is killed", || (!is_alive(pid.trim())).then_some(()));
    let listed = server.run(&["ps", "--json"]).with_code(0).json();
    let stays =
        listed["processes"].as_array().unwrap().iter().find(|process| process["id"] == "stays").unwrap();
    assert_eq!(stays["status"], "running");
}

#[test]
fn exec_continues_after_a_server_kill_and_fails_without_a_server() {
    let mut server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    let (started, go) = (server.file("started"), server.file("go"));
    let command = format!(
        "echo before; touch {}; until [ -e {} ]; do sleep 0.01; done; echo after",
        started.display(),
        go.display()
    );
    let id = mcp.send_call("exec", json!({"command": command}), None);
    eventually("it runs", || started.exists().then_some(()));
    server.kill();
    server.start();
    std::fs::write(&go, "").unwrap();
    let result = mcp.response(id)["result"].clone();
    assert_eq!(result["structuredContent"]["stdout"], "before\nafter\n", "{result}");
    server.kill();
    let error = mcp.call("session_list", json!({}));
    assert_eq!(error["isError"], true);
    let code = error["structuredContent"]["error"]["code"].as_str().unwrap();
    assert!(matches!(code, "UNREACHABLE" | "CONNECTION_LOST"), "{error}");
    server.start();
    assert_eq!(mcp.call("session_list", json!({}))["isError"], false);
}

#[test]
fn sessions_keep_their_state() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    let created = mcp.call("session_create", json!({"id": "s", "env": {"A": "1"}}));
    assert_eq!(created["structuredContent"]["sessionId"], "s", "{created}");
    mcp.call("exec", json!({"command": "cd /; B=2; f() { echo $A$B $PWD; }", "sessionId": "s"}));
    assert_eq!(
        mcp.call("exec", json!({"command": "exit 4", "sessionId": "s"}))["structuredContent"]["exitCode"],
        4
    );
    let kept = mcp.call("exec", json!({"command": "f", "sessionId": "s"}));
    assert_eq!(kept["structuredContent"]["stdout"], "12 /\n", "{kept}");
    assert_eq!(mcp.call("session_list", json!({}))["structuredContent"]["sessions"][0]["cwd"], "/");
    let running = mcp.send_call("exec", json!({"command": "sleep 300", "sessionId": "s"}), None);
    eventually("it runs", || {
        let listed = mcp.call("session_list", json!({}));
        (listed["structuredContent"]["sessions"][0]["busy"] == true).then_some(())
    });
    mcp.call("session_control", json!({"id": "s", "action": "interrupt"}));
    assert_eq!(mcp.response(running)["result"]["structuredContent"]["end"]["reason"], "killed");
    mcp.call("session_control", json!({"id": "s", "action": "reset"}));
    assert_eq!(
        mcp.call("exec", json!({"command": "echo $B", "sessionId": "s"}))["structuredContent"]["stdout"],
        "\n"
    );
    mcp.call("session_control", json!({"id": "s", "action": "delete"}));
    assert_eq!(mcp.call("session_list", json!({}))["structuredContent"]["count"], 0);
}

#[test]
fn processes_are_awaited_fed_and_ended() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    mcp.call("process_start", json!({"id": "p", "command": "echo ready; cat", "keepStdinOpen": true}));
    let ready = mcp.call("process_output", json!({"id": "p", "waitMs": 60_000, "until": "ready"}));
    assert_eq!(ready["structuredContent"]["matched"], true, "{ready}");
    mcp.call("process_input", json!({"id": "p", "text": "typed\n", "close": true}));
    let cursor = &ready["structuredContent"]["cursor"];
    let ended = mcp.call("process_output", json!({"id": "p", "waitMs": 60_000, "cursor": cursor}));
    let fields = &ended["structuredContent"];
    assert_eq!((&fields["stdout"], &fields["exitCode"]), (&json!("typed\n"), &json!(0)), "{ended}");
    mcp.call("process_start", json!({"id": "q", "command": "trap 'echo got it; exit 9' USR1; echo up; while :; do sleep 0.01; done"}));
    mcp.call("process_output", json!({"id": "q", "waitMs": 60_000, "until": "up"}));
    mcp.call("process_signal", json!({"id": "q", "signal": "USR1"}));
    let ended = mcp.call("process_output", json!({"id": "q", "waitMs": 60_000}));
    assert_eq!(ended["structuredContent"]["exitCode"], 9, "{ended}");
    mcp.call("process_start", json!({"id": "r", "command": "sleep 300"}));
    assert_eq!(mcp.call("process_kill", json!({"id": "r"}))["structuredContent"]["survivors"], json!([]));
    let listed = mcp.call("process_list", json!({}));
    assert!(
        listed["content"][0]["text"].as_str().unwrap().contains("r  killed (143)  sleep 300"),
        "{listed}"
    );
    let resources = mcp.result("resources/list", json!({}));
    assert!(resources["resources"].as_array().unwrap().iter().any(|one| one["uri"] == "sandcrab://output/p"));
    let read = mcp.result("resources/read", json!({"uri": "sandcrab://output/p"}));
    assert_eq!(read["contents"][0]["text"], "ready\ntyped\n");
}

#[test]
fn files_are_written_read_edited_and_found() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    let content: String = (1..=500).map(|i| format!("line {i} é\n")).collect();
    mcp.call("file_write", json!({"path": "dir/a b.txt", "content": content}));
    let lines = mcp.call("file_read", json!({"path": "dir/a b.txt", "startLine": 2, "endLine": 3}));
    assert_eq!(lines["structuredContent"]["content"], "line 2 é\nline 3 é\n");
    let (mut seen, mut cursor) = (String::new(), Value::Null);
    loop {
        let arguments = json!({"path": "dir/a b.txt", "cursor": cursor, "maxOutputBytes": 777});
        let part = mcp.call("file_read", arguments)["structuredContent"].clone();
        seen.push_str(part["content"].as_str().unwrap());
        cursor = part["cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, content);
    mcp.call("file_edit", json!({"path": "dir/a b.txt", "oldText": "line 7 é\n", "newText": "seven\n"}));
    let found = mcp.call("search", json!({"pattern": "seven"}));
    assert_eq!(found["structuredContent"]["matches"][0]["line"], 7, "{found}");
    let page = mcp.call("search", json!({"pattern": "line", "limit": 3, "offset": 3}));
    assert_eq!(page["structuredContent"]["matches"][0]["text"], "line 4 é");
    assert_eq!(page["structuredContent"]["nextOffset"], 6);
    assert_eq!(
        mcp.call("find", json!({"glob": ["*.txt"]}))["structuredContent"]["paths"].as_array().unwrap().len(),
        1
    );
    let stat = mcp.call("file_stat", json!({"path": "dir/a b.txt"}));
    assert_eq!(stat["structuredContent"]["type"], "file");
    let path = server.file("dir/a b.txt");
    let uri = format!("sandcrab://file{}", path.display()).replace(' ', "%20");
    let read = mcp.result("resources/read", json!({"uri": uri}));
    assert_eq!(read["contents"][0]["text"].as_str(), Some(std::fs::read_to_string(&path).unwrap().as_str()));
    std::fs::write(&path, vec![b'x'; (1 << 20) + 1]).unwrap();
    let large = mcp.request("resources/read", json!({"uri": uri}));
    assert_eq!(large["error"]["data"]["code"], "FILE_TOO_LARGE", "{}", large["error"]);
    assert_eq!(
        mcp.call("file_list", json!({"path": "dir"}))["structuredContent"]["entries"][0]["path"],
        "a b.txt"
    );
    assert_eq!(
        mcp.call("file_delete", json!({"path": "dir"}))["structuredContent"]["error"]["code"],
        "IS_DIRECTORY"
    );
    mcp.call("file_delete", json!({"path": "dir", "recursive": true}));
    assert!(!path.exists());
}

#[test]
fn a_terminal_drives_a_program() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    let script = "printf '\\e[2J\\e[Hname? '; read name; echo \"hello $name\"; read -n1 key; echo \"key $key\"; read x";
    mcp.call("terminal_open", json!({"id": "t", "command": script, "cols": 40, "rows": 5}));
    mcp.call("terminal_wait", json!({"id": "t", "text": "name?", "timeoutMs": 60_000}));
    mcp.call("terminal_send", json!({"id": "t", "text": "crab", "keys": ["enter"]}));
    let greeted = mcp.call("terminal_wait", json!({"id": "t", "regex": "^hello crab$", "timeoutMs": 60_000}));
    assert_eq!(greeted["structuredContent"]["text"], "name? crab\nhello crab", "{greeted}");
    let late = mcp.call("terminal_wait", json!({"id": "t", "text": "never", "timeoutMs": 1}));
    assert!(late["content"][0]["text"].as_str().unwrap().contains("hello crab"), "{late}");
    mcp.call("terminal_send", json!({"id": "t", "keys": ["k"]}));
    mcp.call("terminal_wait", json!({"id": "t", "text": "key k", "timeoutMs": 60_000}));
    assert_eq!(mcp.call("terminal_screen", json!({"id": "t"}))["structuredContent"]["running"], true);
    mcp.call("terminal_close", json!({"id": "t"}));
    assert_eq!(mcp.call("terminal_screen", json!({"id": "t"}))["structuredContent"]["running"], false);
}

#[test]
fn ports_are_listed_exposed_and_unexposed() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    let port = server.address().port();
    let listed = mcp.call("port_list", json!({}));
    assert!(
        listed["content"][0]["text"].as_str().unwrap().contains(&format!("127.0.0.1:{port}")),
        "{listed}"
    );
    let exposed = mcp.call("port_expose", json!({"port": 8080, "name": "web"}));
    assert!(exposed["structuredContent"]["url"].as_str().unwrap().starts_with("http://8080-"), "{exposed}");
    let listed = mcp.call("port_list", json!({}));
    assert_eq!(listed["structuredContent"]["exposed"][0]["port"], 8080);
    mcp.call("port_unexpose", json!({"port": 8080}));
    assert_eq!(mcp.call("port_list", json!({}))["structuredContent"]["exposed"], json!([]));
}

#[test]
fn a_request_before_initialize_is_refused() {
    let server = TestServer::new();
    let request = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n";
    let refused = Program::fed(&mut server.sandcrab(&["mcp"]), request).finish().with_code(0);
    assert_eq!(refused.json()["error"]["code"], -32602, "{refused:?}");
    // A client may leave at once.
    assert_eq!(Program::fed(&mut server.sandcrab(&["mcp"]), b"").finish().with_code(0).text(), "");
}

/// Sends a message to `/mcp`; returns the whole response.
fn post(server: &TestServer, headers: &str, message: &Value) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let body = message.to_string();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_tools_are_served_over_http() {
    let server = TestServer::new();
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let refused = post(&server, "", &initialize);
    assert!(refused.starts_with("HTTP/1.1 401 ") && refused.contains("UNAUTHORIZED"), "{refused}");
    let token = format!("authorization: Bearer {}\r\n", server.token());
    let foreign = post(&server, &format!("{token}origin: http://evil.example\r\n"), &initialize);
    assert!(foreign.starts_with("HTTP/1.1 403 "), "{foreign}");
    let initialized = post(&server, &token, &initialize);
    assert!(
        initialized.starts_with("HTTP/1.1 200 ") && initialized.contains("\"serverInfo\""),
        "{initialized}"
    );
    let session = initialized.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let headers = format!("{token}mcp-session-id: {session}\r\nmcp-protocol-version: 2025-06-18\r\n");
    post(&server, &headers, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let call = |id: u32, command: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "exec", "arguments": {"command": command}}})
    };
    let answer = post(&server, &headers, &call(2, "echo over http"));
    assert!(answer.contains("\"stdout\":\"over http\\n\""), "{answer}");
    // A cancelled call ends its command.
    let pid = server.file("pid");
    let command = format!("echo $$ > {}.tmp; mv {0}.tmp {0}; sleep 300; echo", pid.display());
    std::thread::scope(|scope| {
        let (call, headers, server) = (&call, &headers, &server);
        let cancelled = scope.spawn(move || post(server, headers, &call(3, &command)));
        let pid = eventually("it runs", || std::fs::read_to_string(&pid).ok());
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
        post(server, headers, &cancel);
        eventually("it is killed", || (!is_alive(pid.trim())).then_some(()));
        // Ends the streams of the session.
        delete(server, headers);
        assert!(!cancelled.join().unwrap().contains("\"result\""));
    });
    let unknown = post(&server, &headers, &call(4, "true"));
    assert!(unknown.starts_with("HTTP/1.1 404 "), "{unknown}");
}

/// Sends a call to `/mcp`, and returns the connection and the id of the first event: the call reports its start.
fn begin(server: &TestServer, headers: &str, id: u32, command: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "exec", "arguments": {"command": command}, "_meta": {"progressToken": id}}})
    .to_string();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    let mut event = None;
    loop {
        let line = lines.next().unwrap();
        if let Some(id) = line.strip_prefix("id:") {
            event = Some(id.trim().to_owned());
        }
        if line.contains("started execution") {
            break;
        }
    }
    // The id may follow the data.
    let event = event.filter(|id| id.contains('/'));
    let event =
        event.or_else(|| lines.find_map(|line| line.strip_prefix("id:").map(|id| id.trim().to_owned())));
    (stream, event.unwrap())
}

/// The terminal runs, and the call waits for its screen, which changes all the time.
#[test]
fn a_cancelled_open_leaves_no_terminal() {
    let server = TestServer::new();
    let mut mcp = Mcp::start(&server);
    // The call waits for a quiet screen for up to a second. On a busy machine that may be over before the cancellation.
    for attempt in 0..50 {
        let pid = server.file(&format!("pid-{attempt}"));
        let command = format!(
            "echo $$ > {}.tmp; mv {0}.tmp {0}; while :; do echo $((n++)); sleep 0.01; done",
            pid.display()
        );
        let begun = Instant::now();
        let call = mcp.send_call("terminal_open", json!({"command": command}), None);
        let pid = eventually("it runs", || std::fs::read_to_string(&pid).ok());
        mcp.notify("notifications/cancelled", json!({"requestId": call}));
        if begun.elapsed() < Duration::from_millis(500) {
            eventually("it is closed", || (!is_alive(pid.trim())).then_some(()));
            return;
        }
    }
    panic!("no terminal was cancelled in time");
}

/// Begins a session of `/mcp`; returns the headers of its requests.
fn session(server: &TestServer) -> String {
    let token = format!("authorization: Bearer {}\r\n", server.token());
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let initialized = post(server, &token, &initialize);
    let session = initialized.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let headers = format!("{token}mcp-session-id: {session}\r\nmcp-protocol-version: 2025-06-18\r\n");
    post(server, &headers, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    headers
}

/// Resumes the stream of a call after an event.
fn resume(server: &TestServer, headers: &str, event: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    write!(
        stream,
        "GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n{headers}last-event-id: {event}\r\n\r\n"
    )
    .unwrap();
    stream
}

/// The network of a client fails without a word, it resumes on a new connection, and vanishes.
#[test]
fn a_vanished_client_that_has_resumed_ends_its_command() {
    let server = TestServer::new();
    let headers = session(&server);
    let pid = server.file("pid");
    let command = format!("echo $$ > {}.tmp; mv {0}.tmp {0}; sleep 300; echo", pid.display());
    let (half_open, event) = begin(&server, &headers, 2, &command);
    let pid = eventually("it runs", || std::fs::read_to_string(&pid).ok());
    let mut resumed = resume(&server, &headers, &event);
    let mut beginning = [0; 12];
    resumed.read_exact(&mut beginning).unwrap();
    assert_eq!(&beginning, b"HTTP/1.1 200");
    drop(resumed);
    eventually("it is killed", || (!is_alive(pid.trim())).then_some(()));
    drop(half_open);
}

/// A client with a session that vanishes ends its command, as one without a session does. One that resumes does not.
#[test]
fn a_vanished_client_of_a_session_ends_its_command() {
    let server = TestServer::new();
    let headers = session(&server);
    let (gate, pid) = (server.file("gate"), server.file("pid"));
    let waits = format!("until [ -e {} ]; do sleep 0.01; done; echo resumed", gate.display());
    let (resumed, event) = begin(&server, &headers, 2, &waits);
    drop(resumed);
    let resumed = resume(&server, &headers, &event);
    let command = format!("echo $$ > {}.tmp; mv {0}.tmp {0}; sleep 300; echo", pid.display());
    let (vanishes, _) = begin(&server, &headers, 3, &command);
    let pid = eventually("it runs", || std::fs::read_to_string(&pid).ok());
    drop(vanishes);
    eventually("it is killed", || (!is_alive(pid.trim())).then_some(()));
    // The other call lost its first connection earlier, and still runs.
    std::fs::write(gate, "").unwrap();
    let result = BufReader::new(resumed).lines().map(Result::unwrap).find(|line| line.contains("\"result\""));
    assert!(result.as_ref().is_some_and(|result| result.contains("\"stdout\":\"resumed\\n\"")), "{result:?}");
}

/// Ends a session of `/mcp`.
fn delete(server: &TestServer, headers: &str) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "DELETE /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
}

#[test]
fn an_open_stream_does_not_delay_the_stop_of_a_server() {
    let server = TestServer::with_options(&["--drain-window", "300s"]);
    let token = format!("authorization: Bearer {}\r\n", server.token());
    let initialized = post(
        &server,
        &token,
        &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}),
    );
    let session = initialized.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(
        stream,
        "GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n{token}mcp-session-id: {session}\r\n\r\n"
    )
    .unwrap();
    let mut beginning = [0; 12];
    stream.read_exact(&mut beginning).unwrap();
    assert_eq!(&beginning, b"HTTP/1.1 200");
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed().as_secs() < 200, "{:?}", begun.elapsed());
}
