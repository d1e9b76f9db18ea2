//! Processes, and every other execution, by id.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::RANGE;
use sandcrab_api::IDEMPOTENCY_HEADER;
use sandcrab_api::event::ProcessEvent;
use sandcrab_api::execute::{CommandRequest, Encoding};
use sandcrab_api::process::{
    CleanupResponse, KillResponse, Process, ProcessList, ProcessLogs, ProcessResponse, ProcessStarted,
    ProcessStatus, SignalRequest, StdinResponse, SuccessResponse,
};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connections::ResponseGuard;
use crate::key::new_key;
use crate::{Client, ClientError, Events};

/// Names of routes, which are not ids: `kill kill-all` would call another route.
const RESERVED: [&str; 3] = ["list", "kill-all", "cleanup"];

/// Which processes to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessFilter {
    /// Every execution, not only started processes.
    pub all: bool,
    /// Only those with this status.
    pub status: Option<ProcessStatus>,
    /// Only those of this session.
    pub session_id: Option<String>,
}

/// How to end a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KillOptions {
    /// The first signal, by name or number. Default: `SIGTERM`.
    pub signal: Option<String>,
    /// Grace period before SIGKILL.
    pub grace: Option<Duration>,
}

/// Which output of a process to return.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Encoding of the output.
    pub encoding: Option<Encoding>,
    /// Only the last lines of each stream.
    pub tail: Option<u64>,
    /// Only output after this cursor.
    pub since: Option<String>,
}

/// How to follow a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FollowOptions {
    /// Encoding of the output.
    pub encoding: Option<Encoding>,
    /// Only output after this cursor.
    pub since: Option<String>,
    /// Stop at the end of the available output, instead of waiting for more.
    pub stop_when_caught_up: bool,
}

/// One of the two streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The exact bytes of one stream.
#[derive(Debug)]
pub struct RawOutput {
    client: Client,
    response: ResponseGuard,
}

impl RawOutput {
    pub(crate) fn new(client: Client, response: ResponseGuard) -> Self {
        Self { client, response }
    }

    /// The entity tag, if the server sent one: of a file.
    pub fn etag(&self) -> Option<String> {
        let tag = self.response.headers().get(reqwest::header::ETAG)?;
        tag.to_str().ok().map(ToOwned::to_owned)
    }

    /// The next bytes; `None` after the last.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        self.response.chunk().await.map_err(|e| self.client.failed(&e))
    }
}

pub(crate) fn checked(id: &str) -> Result<&str, ClientError> {
    if RESERVED.contains(&id) { Err(ClientError::Id(id.to_owned())) } else { Ok(id) }
}

pub(crate) fn milliseconds(duration: Duration) -> String {
    // The server reads 64 bits.
    duration.as_millis().min(u64::MAX.into()).to_string()
}

/// An enum value as in JSON.
pub(crate) fn word<T: serde::Serialize>(value: T) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}

impl Client {
    /// Starts a process in the background; returns when its program runs. The process is started once, also if the
    /// connection is lost and the request is repeated.
    pub async fn start_process(&self, request: &CommandRequest) -> Result<ProcessStarted, ClientError> {
        self.start_once(&["api", "process", "start"], request).await
    }

    /// Sends a request with an idempotency key until the server has answered.
    pub(crate) async fn start_once<T: DeserializeOwned>(
        &self,
        path: &[&str],
        request: &impl Serialize,
    ) -> Result<T, ClientError> {
        let start = self.request(Method::POST, path)?.header(IDEMPOTENCY_HEADER, new_key());
        self.call_until_answered(start.json(request)).await
    }

    /// Lists processes, the oldest first.
    pub async fn processes(&self, filter: &ProcessFilter) -> Result<ProcessList, ClientError> {
        let query = [
            ("all", filter.all.then(|| "true".to_owned())),
            ("status", filter.status.and_then(word)),
            ("sessionId", filter.session_id.clone()),
        ];
        self.call_read(self.query(Method::GET, &["api", "process", "list"], &query)?).await
    }

    /// One process.
    pub async fn process(&self, id: &str) -> Result<Process, ClientError> {
        let answer: ProcessResponse = self.get(&["api", "process", checked(id)?]).await?;
        Ok(answer.process)
    }

    /// One process, with the resource usage of all its live processes.
    pub async fn process_with_metrics(&self, id: &str) -> Result<Process, ClientError> {
        let query = [("metrics", Some("true".to_owned()))];
        let request = self.query(Method::GET, &["api", "process", checked(id)?], &query)?;
        Ok(self.call_read::<ProcessResponse>(request).await?.process)
    }

    /// Ends a process and everything it started; returns the processes that were ended.
    pub async fn kill(&self, id: &str, options: &KillOptions) -> Result<KillResponse, ClientError> {
        let query = [("signal", options.signal.clone()), ("graceMs", options.grace.map(milliseconds))];
        self.call_urgent(self.query(Method::DELETE, &["api", "process", checked(id)?], &query)?).await
    }

    /// Ends every process, or those of a session.
    pub async fn kill_all(&self, session_id: Option<&str>) -> Result<CleanupResponse, ClientError> {
        let query = [("sessionId", session_id.map(str::to_owned))];
        self.call_urgent(self.query(Method::DELETE, &["api", "process", "kill-all"], &query)?).await
    }

    /// Removes the records of finished processes.
    pub async fn clean_up(&self) -> Result<CleanupResponse, ClientError> {
        self.call(self.request(Method::POST, &["api", "process", "cleanup"])?).await
    }

    /// Sends a signal, by name or number.
    pub async fn signal(&self, id: &str, signal: &str) -> Result<SuccessResponse, ClientError> {
        let body = SignalRequest { signal: signal.into() };
        self.post_urgent(&["api", "process", checked(id)?, "signal"], &body).await
    }

    /// Writes to standard input, and closes it afterwards if asked to. Returns when the process can read the bytes.
    pub async fn write_stdin(
        &self,
        id: &str,
        bytes: impl Into<Bytes>,
        close: bool,
    ) -> Result<StdinResponse, ClientError> {
        let query = [("close", close.then(|| "true".to_owned()))];
        let request = self.body_query(Method::POST, &["api", "process", checked(id)?, "stdin"], &query)?;
        self.call_input(request.body(bytes.into())).await
    }

    /// Waits for a process to end, also across a restart of the server. After `timeout` the error
    /// is [`sandcrab_api::ErrorCode::WaitTimeout`].
    pub async fn wait(&self, id: &str, timeout: Option<Duration>) -> Result<Process, ClientError> {
        let answer: ProcessResponse = self
            .wait_until("the end of the process", timeout, |left| {
                let query = [("timeoutMs", left.map(milliseconds))];
                self.query(Method::GET, &["api", "process", checked(id)?, "wait"], &query)
            })
            .await?;
        Ok(answer.process)
    }

    /// The output of a process so far.
    pub async fn logs(&self, id: &str, options: &LogOptions) -> Result<ProcessLogs, ClientError> {
        let query = [
            ("encoding", options.encoding.and_then(word)),
            ("tail", options.tail.map(|tail| tail.to_string())),
            ("since", options.since.clone()),
        ];
        self.call_read(self.query(Method::GET, &["api", "process", checked(id)?, "logs"], &query)?).await
    }

    /// The exact bytes of one stream, from an offset of that stream on.
    pub async fn output(&self, id: &str, stream: OutputStream, from: u64) -> Result<RawOutput, ClientError> {
        let stream = match stream {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        };
        let query = [("stream", Some(stream.to_owned()))];
        let mut request = self.query(Method::GET, &["api", "process", checked(id)?, "output"], &query)?;
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        Ok(RawOutput::new(self.clone(), self.send(request).await?))
    }

    /// Follows the output of a process until it ends.
    pub async fn follow(
        &self,
        id: &str,
        options: &FollowOptions,
    ) -> Result<Events<ProcessEvent>, ClientError> {
        let query = [
            ("encoding", options.encoding.and_then(word)),
            ("follow", options.stop_when_caught_up.then(|| "false".to_owned())),
        ];
        let request = self.query(Method::GET, &["api", "process", checked(id)?, "stream"], &query)?;
        Events::open(self.clone(), request, options.since.clone()).await
    }
}
