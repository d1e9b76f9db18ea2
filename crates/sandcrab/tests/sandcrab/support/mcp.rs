//! [`Mcp`]: a client of `sandcrab mcp`.
#![expect(clippy::needless_pass_by_value, reason = "callers write json!(…) in place")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use super::{TEST_TIMEOUT, TestServer};

/// A client of `sandcrab mcp`, which it has started. Dropping it ends the program.
#[derive(Debug)]
pub(crate) struct Mcp {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// Messages that were not asked for yet.
    seen: Vec<Value>,
    last_id: u64,
    answered: Vec<u64>,
}

impl Mcp {
    /// Starts it and initializes.
    pub(crate) fn start(server: &TestServer) -> Self {
        let mut command = server.sandcrab(&["mcp"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let (seen, answered) = (Vec::new(), Vec::new());
        let mut mcp = Self { stdin: child.stdin.take(), child, messages, seen, last_id: 0, answered };
        let info = mcp.result(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
        );
        assert_eq!(info["serverInfo"]["name"], "sandcrab", "{info}");
        mcp.notify("notifications/initialized", json!({}));
        mcp
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request and returns its id.
    pub(crate) fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Calls a tool without waiting for its result.
    pub(crate) fn send_call(&mut self, tool: &str, arguments: Value, token: Option<Value>) -> u64 {
        let mut params = json!({"name": tool, "arguments": arguments});
        if let Some(token) = token {
            params["_meta"] = json!({"progressToken": token});
        }
        self.send_request("tools/call", params)
    }

    #[track_caller]
    fn next(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.seen.iter().position(&is_wanted) {
            return self.seen.remove(at);
        }
        loop {
            let message =
                self.messages.recv_timeout(TEST_TIMEOUT).unwrap_or_else(|e| panic!("{e}: {self:?}"));
            if let (Some(id), None) = (message["id"].as_u64(), message.get("method")) {
                self.answered.push(id);
            }
            if is_wanted(&message) {
                return message;
            }
            self.seen.push(message);
        }
    }

    /// Waits for the response to a request.
    #[track_caller]
    pub(crate) fn response(&mut self, id: u64) -> Value {
        self.next(|message| message["id"] == id)
    }

    /// Waits for a notification.
    #[track_caller]
    pub(crate) fn notification(&mut self, method: &str) -> Value {
        self.next(|message| message["method"] == method)
    }

    /// The ids of all responses so far.
    pub(crate) fn responses(&self) -> &[u64] {
        &self.answered
    }

    /// Sends a request and waits for its response.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        self.response(id)
    }

    /// The same, for a request that succeeds.
    #[track_caller]
    pub(crate) fn result(&mut self, method: &str, params: Value) -> Value {
        let response = self.request(method, params);
        response.get("result").unwrap_or_else(|| panic!("{response}")).clone()
    }

    /// Calls a tool and returns its result, which may be an error of the tool.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Kills the program.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
