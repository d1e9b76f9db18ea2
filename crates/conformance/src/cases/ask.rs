//! What most cases do: run a command, make a session, start a process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::http::{Request, TEST_TIMEOUT, Target};

/// How long to wait before a condition is looked at again.
const AGAIN: Duration = Duration::from_millis(5);

/// A unique name on this server.
pub fn fresh(what: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("{what}-{now:x}-{count}")
}

/// The bytes of a base64 text.
#[track_caller]
pub fn decode(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().expect("base64 is a string")).expect("not base64")
}

/// Bytes as base64.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A string of an answer.
#[track_caller]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}")).to_owned()
}

impl Target {
    /// Runs a command with these options; its result.
    pub async fn run(&self, body: Value) -> Value {
        self.post("/api/execute", body).await.ok()
    }

    /// Runs shell text without a session; its result.
    pub async fn shell(&self, command: &str) -> Value {
        self.run(json!({"command": command})).await
    }

    /// Makes a session; its id.
    pub async fn new_session(&self) -> String {
        self.make_session(json!({})).await
    }

    /// Makes a session of these options; its id.
    pub async fn make_session(&self, body: Value) -> String {
        text(&self.post("/api/session/create", body).await.ok()["data"]["id"])
    }

    /// Deletes a session.
    pub async fn delete_session(&self, session: &str) -> Value {
        self.post("/api/session/delete", json!({"sessionId": session})).await.ok()
    }

    /// Runs a command in a session; its result.
    pub async fn in_session(&self, session: &str, command: &str) -> Value {
        self.run(json!({"command": command, "sessionId": session})).await
    }

    /// Starts a process; its id.
    pub async fn start(&self, body: Value) -> String {
        text(&self.post("/api/process/start", body).await.ok()["processId"])
    }

    /// A process.
    pub async fn process(&self, id: &str) -> Value {
        self.get(format!("/api/process/{id}")).await.ok()["process"].take()
    }

    /// Waits for the end of a process.
    pub async fn ended(&self, id: &str) -> Value {
        self.get(format!("/api/process/{id}/wait?timeoutMs=25000")).await.ok()["process"].take()
    }

    /// Kills a process at once.
    pub async fn kill(&self, id: &str) -> Value {
        self.delete(format!("/api/process/{id}?signal=KILL")).await.ok()
    }

    /// A folder for a case, on the server; [`remove`](Self::remove) it at the end.
    pub async fn folder(&self) -> String {
        text(&self.shell("mktemp -d").await["stdout"]).trim_end().to_owned()
    }

    /// Removes a folder.
    pub async fn remove(&self, folder: &str) {
        self.run(json!({"command": "rm", "args": ["-rf", folder]})).await;
    }

    /// Whether a process with this id of the machine is there, and no zombie.
    pub async fn is_alive(&self, pid: &Value) -> bool {
        let state = format!("read -r line 2>/dev/null < /proc/{pid}/stat && [[ $line != *') Z '* ]]");
        self.shell(&state).await["exitCode"] == 0
    }

    /// Waits until a request's answer is as wanted; the answer. What is asked for need not exist at first.
    pub async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let answer = self.send(Request::get(path)).await;
            let is_missing = answer.status() == 404;
            let answer = if is_missing { Value::Null } else { answer.ok() };
            if !is_missing && wanted(&answer) {
                return answer;
            }
            assert!(Instant::now() < deadline, "not as wanted within {TEST_TIMEOUT:?}: {path}: {answer}");
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Waits until a process with this id of the machine is gone.
    pub async fn until_gone(&self, pid: &Value) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while self.is_alive(pid).await {
            assert!(Instant::now() < deadline, "{pid} is there after {TEST_TIMEOUT:?}");
            tokio::time::sleep(AGAIN).await;
        }
    }
}
