//! What the tools do in the sandbox.

use serde_json::{Value, json};

use crate::support::{Mcp, TestServer, eventually};

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
