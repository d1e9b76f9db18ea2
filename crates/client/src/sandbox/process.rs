//! [`Process`]: a command in the background.

use std::time::Duration;

use bytes::Bytes;
use sandcrab_api::ErrorCode;
use sandcrab_api::event::ProcessEvent;
use sandcrab_api::port::PortWatchRequest;
use sandcrab_api::process::{KillResponse, Process as ProcessInfo, ProcessLogs, ProcessStatus, StreamName};
use tokio::time::timeout;

use super::ports::wait_for_port;
use crate::{
    Client, ClientError, Events, FollowOptions, KillOptions, LogOptions, OutputStream, RawOutput, Recording,
};

/// The longest unfinished line in which [`Process::wait_for_log`] searches. Of a longer one, the end is searched.
const MAX_LINE_BYTES: usize = 64 << 10;

/// A line of the output that [`Process::wait_for_log`] has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMatch {
    /// The line, without its end.
    pub line: String,
    /// The stream that has it.
    pub stream: StreamName,
}

/// A command in the background. The object is an id: dropping it ends nothing.
///
/// ```no_run
/// # use sandcrab_client::{ClientError, Command, LogOptions, Sandbox};
/// # async fn example(sandbox: Sandbox) -> Result<(), ClientError> {
/// let process = sandbox.start_process(Command::new("cat").keep_stdin_open()).await?;
/// process.write("hello\n").await?;
/// process.wait_for_log("hello", None).await?;
/// process.close_stdin().await?;
/// assert_eq!(process.wait_for_exit(None).await?.exit_code, Some(0));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Process {
    client: Client,
    info: ProcessInfo,
}

impl Process {
    pub(super) fn new(client: Client, info: ProcessInfo) -> Self {
        Self { client, info }
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.info.id
    }

    /// The process id of the operating system, if it was known when this object was created.
    pub fn pid(&self) -> Option<u32> {
        self.info.pid
    }

    /// The command.
    pub fn command(&self) -> &str {
        &self.info.command
    }

    /// What was known when this object was created. [`Process::info`] has the present state.
    pub fn initial_info(&self) -> &ProcessInfo {
        &self.info
    }

    /// The present state.
    pub async fn info(&self) -> Result<ProcessInfo, ClientError> {
        self.client.process(self.id()).await
    }

    /// The present state, with the resource usage of all live processes of its tree.
    pub async fn info_with_metrics(&self) -> Result<ProcessInfo, ClientError> {
        self.client.process_with_metrics(self.id()).await
    }

    /// The present status.
    pub async fn status(&self) -> Result<ProcessStatus, ClientError> {
        Ok(self.info().await?.status)
    }

    /// Ends the process and everything it started, with SIGTERM and then SIGKILL. Returns when they have ended.
    pub async fn kill(&self) -> Result<KillResponse, ClientError> {
        self.kill_with(&KillOptions::default()).await
    }

    /// The same with another signal or grace period.
    pub async fn kill_with(&self, options: &KillOptions) -> Result<KillResponse, ClientError> {
        self.client.kill(self.id(), options).await
    }

    /// Sends a signal, by name or number.
    pub async fn signal(&self, signal: &str) -> Result<(), ClientError> {
        self.client.signal(self.id(), signal).await.map(drop)
    }

    /// Writes to standard input, which must be open ([`crate::Command::keep_stdin_open`]). Returns the number of bytes when the
    /// process can read them.
    pub async fn write(&self, bytes: impl Into<Bytes>) -> Result<u64, ClientError> {
        Ok(self.client.write_stdin(self.id(), bytes, false).await?.written)
    }

    /// Closes standard input.
    pub async fn close_stdin(&self) -> Result<(), ClientError> {
        self.client.write_stdin(self.id(), Bytes::new(), true).await.map(drop)
    }

    /// The output so far.
    pub async fn logs(&self) -> Result<ProcessLogs, ClientError> {
        self.logs_with(&LogOptions::default()).await
    }

    /// The same with options.
    pub async fn logs_with(&self, options: &LogOptions) -> Result<ProcessLogs, ClientError> {
        self.client.logs(self.id(), options).await
    }

    /// Follows the output from its beginning until the process ends.
    pub async fn stream_logs(&self) -> Result<Events<ProcessEvent>, ClientError> {
        self.stream_logs_with(&FollowOptions::default()).await
    }

    /// The same with options, such as a cursor to start from.
    pub async fn stream_logs_with(
        &self,
        options: &FollowOptions,
    ) -> Result<Events<ProcessEvent>, ClientError> {
        self.client.follow(self.id(), options).await
    }

    /// The exact bytes of one stream, from an offset on.
    pub async fn output(&self, stream: OutputStream, from: u64) -> Result<RawOutput, ClientError> {
        self.client.output(self.id(), stream, from).await
    }

    /// The output with its times, as an asciicast of version 2.
    pub async fn recording(&self) -> Result<Recording, ClientError> {
        self.client.process_recording(self.id()).await
    }

    /// Waits for a line that contains a text, in the output from its beginning on. If the process ends first, the error is
    /// [`ErrorCode::ProcessEnded`]; after `limit` it is [`ErrorCode::WaitTimeout`].
    pub async fn wait_for_log(&self, text: &str, limit: Option<Duration>) -> Result<LogMatch, ClientError> {
        self.wait_for_line(|line| line.contains(text), limit).await
    }

    /// The same for a line that a function accepts, such as `|line| regex.is_match(line)`.
    pub async fn wait_for_line(
        &self,
        accepts: impl FnMut(&str) -> bool,
        limit: Option<Duration>,
    ) -> Result<LogMatch, ClientError> {
        let search = find_line(&self.client, self.id(), accepts);
        match limit {
            None => search.await,
            Some(limit) => {
                timeout(limit, search).await.unwrap_or_else(|_| Err(ClientError::too_late("the line", limit)))
            }
        }
    }

    /// Waits until the process serves a port. If it ends first, the error is [`ErrorCode::ProcessEnded`]; after `limit` it is
    /// [`ErrorCode::WaitTimeout`].
    pub async fn wait_for_port(
        &self,
        request: impl Into<PortWatchRequest>,
        limit: Option<Duration>,
    ) -> Result<(), ClientError> {
        let mut request = request.into();
        request.process_id.get_or_insert_with(|| self.id().to_owned());
        wait_for_port(&self.client, &request, limit).await
    }

    /// Waits for the end, also across a restart of the server. After `limit` the error is [`ErrorCode::WaitTimeout`].
    pub async fn wait_for_exit(&self, limit: Option<Duration>) -> Result<ProcessInfo, ClientError> {
        self.client.wait(self.id(), limit).await
    }
}

async fn find_line(
    client: &Client,
    id: &str,
    mut accepts: impl FnMut(&str) -> bool,
) -> Result<LogMatch, ClientError> {
    let mut events = client.follow(id, &FollowOptions::default()).await?;
    let (mut stdout, mut stderr) = (Lines::default(), Lines::default());
    while let Some(event) = events.next().await? {
        let (lines, output, stream) = match event {
            ProcessEvent::Stdout(output) => (&mut stdout, output, StreamName::Stdout),
            ProcessEvent::Stderr(output) => (&mut stderr, output, StreamName::Stderr),
            ProcessEvent::Error(error) => return Err(ClientError::of_event(&error)),
            _ => continue,
        };
        if let Some(line) = lines.find(&output.data, &mut accepts) {
            return Ok(LogMatch { line, stream });
        }
    }
    let message = format!("process {id} has ended, and its output has no such line");
    Err(ClientError::local(ErrorCode::ProcessEnded, message))
}

/// The unfinished line of a stream.
#[derive(Debug, Default)]
struct Lines(String);

impl Lines {
    /// The first line that is accepted. The last one may be unfinished: a prompt has no end of line.
    fn find(&mut self, data: &str, mut accepts: impl FnMut(&str) -> bool) -> Option<String> {
        self.0.push_str(data);
        let text = std::mem::take(&mut self.0);
        let found = text.split('\n').find(|line| accepts(line)).map(str::to_owned);
        let last = text.rsplit('\n').next().unwrap_or_default();
        let mut start = last.len().saturating_sub(MAX_LINE_BYTES);
        while !last.is_char_boundary(start) {
            start += 1;
        }
        self.0.push_str(&last[start..]);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_across_events() {
        let mut lines = Lines::default();
        let ready = |line: &str| line.contains("ready");
        assert_eq!(lines.find("one\nserver re", ready), None);
        assert_eq!(lines.find("ady ü", ready).as_deref(), Some("server ready ü"));
        assert_eq!(lines.find("\nrea", ready).as_deref(), Some("server ready ü"));
        assert_eq!(lines.find("l", ready), None);
    }

    #[test]
    fn a_long_line_is_bounded() {
        let mut lines = Lines::default();
        for _ in 0..3 {
            assert_eq!(lines.find(&"ü".repeat(MAX_LINE_BYTES), |_| false), None);
        }
        assert!(lines.0.len() <= MAX_LINE_BYTES);
    }
}
