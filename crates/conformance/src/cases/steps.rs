//! Common steps of the cases: run a command, create a session, start a process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::http::{Request, TEST_TIMEOUT, Target};

/// Interval at which a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns a name that is unique on this server.
pub fn fresh(what: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("{what}-{now:x}-{count}")
}

/// Decodes base64 text.
#[track_caller]
pub fn decode(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().expect("base64 is a string")).expect("not base64")
}

/// Encodes bytes as base64.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Returns the string of a JSON value.
#[track_caller]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}")).to_owned()
}

impl Target {
    /// Runs a command with these options and returns its result.
    pub async fn run(&self, body: Value) -> Value {
        self.post("/api/execute", body).await.ok()
    }

    /// Runs shell text without a session and returns its result.
    pub async fn shell(&self, command: &str) -> Value {
        self.run(json!({"command": command})).await
    }

    /// Creates a session and returns its id.
    pub async fn new_session(&self) -> String {
        self.make_session(json!({})).await
    }

    /// Creates a session with these options and returns its id.
    pub async fn make_session(&self, body: Value) -> String {
        text(&self.post("/api/session/create", body).await.ok()["data"]["id"])
    }

    /// Deletes a session.
    pub async fn delete_session(&self, session: &str) -> Value {
        self.post("/api/session/delete", json!({"sessionId": session})).await.ok()
    }

    /// Runs a command in a session and returns its result.
    pub async fn in_session(&self, session: &str, command: &str) -> Value {
        self.run(json!({"command": command, "sessionId": session})).await
    }

    /// Starts a process and returns its id.
    pub async fn start(&self, body: Value) -> String {
        text(&self.post("/api/process/start", body).await.ok()["processId"])
    }

    /// Returns a process.
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

    /// Creates a directory on the server for a case. [`remove`](Self::remove) it at the end.
    pub async fn folder(&self) -> String {
        text(&self.shell("mktemp -d").await["stdout"]).trim_end().to_owned()
    }

    /// Removes a directory.
    pub async fn remove(&self, folder: &str) {
        self.run(json!({"command": "rm", "args": ["-rf", folder]})).await;
    }

    /// Returns whether an operating system process exists and is not a zombie.
    pub async fn is_alive(&self, pid: &Value) -> bool {
        let state = format!("read -r line 2>/dev/null < /proc/{pid}/stat && [[ $line != *') Z '* ]]");
        self.shell(&state).await["exitCode"] == 0
    }

    /// Repeats a request until the response is as wanted, and returns it. The requested resource need not
    /// exist at first.
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
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until an operating system process has ended.
    pub async fn until_gone(&self, pid: &Value) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while self.is_alive(pid).await {
            assert!(Instant::now() < deadline, "{pid} is there after {TEST_TIMEOUT:?}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
