//! Calls of tools: results, errors, and output that is cut.

use serde_json::json;

use crate::support::{Mcp, Program, TestServer, sandcrab};

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
