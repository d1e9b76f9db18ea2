//! [`Command`]: a command and its options.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sandcrab_api::execute::{
    CommandRequest, Encoding, Leftovers, Limits, OnDisconnect, OnSessionEnd, Overflow,
};

/// A command and its options, for [`crate::Scope::exec`], [`crate::Scope::exec_stream`] and [`crate::Scope::start_process`].
/// A text is a command without options.
///
/// ```no_run
/// # use std::time::Duration;
/// # use sandcrab_client::{ClientError, Command, Sandbox};
/// # async fn example(sandbox: Sandbox) -> Result<(), ClientError> {
/// let command = Command::new("make test").cwd("/work").env("CI", "1").timeout(Duration::from_secs(600));
/// let result = sandbox.exec(command).await?;
/// println!("{} {}", result.exit_code, result.timed_out());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Command {
    pub(super) request: CommandRequest,
    pub(super) kills_on_drop: bool,
}

impl Command {
    /// Shell text.
    pub fn new(command: impl Into<String>) -> Self {
        CommandRequest::from(command.into()).into()
    }

    /// A program and its arguments, which no shell interprets.
    pub fn program(program: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let args = Some(args.into_iter().map(Into::into).collect());
        CommandRequest { command: program.into(), args, ..CommandRequest::default() }.into()
    }

    /// Ends the command after this time. The result then has the output so far. Zero disables the default of the server.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.request.timeout_ms = Some(whole_milliseconds(timeout));
        self
    }

    /// Ends the command if it writes nothing for so long.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.request.idle_timeout_ms = Some(whole_milliseconds(timeout));
        self
    }

    /// Time between SIGTERM and SIGKILL: after a timeout (default: 1 s), and when the command ends because its caller no longer
    /// waits for it (default: 5 s).
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.request.grace_ms = Some(whole_milliseconds(grace));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.env.get_or_insert_default().insert(name.into(), Some(value.into()));
        self
    }

    /// Unsets a variable.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<String>) -> Self {
        self.request.env.get_or_insert_default().insert(name.into(), None);
        self
    }

    /// Sets variables.
    #[must_use]
    pub fn envs<N: Into<String>, V: Into<String>>(mut self, vars: impl IntoIterator<Item = (N, V)>) -> Self {
        let vars = vars.into_iter().map(|(name, value)| (name.into(), Some(value.into())));
        self.request.env.get_or_insert_default().extend(vars);
        self
    }

    /// Working directory.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.request.cwd = Some(cwd.into());
        self
    }

    /// The content of standard input, text or bytes.
    #[must_use]
    pub fn stdin(mut self, input: impl AsRef<[u8]>) -> Self {
        match std::str::from_utf8(input.as_ref()) {
            Ok(text) => (self.request.stdin, self.request.stdin_encoding) = (Some(text.to_owned()), None),
            Err(_) => {
                self.request.stdin = Some(BASE64_STANDARD.encode(input));
                self.request.stdin_encoding = Some(Encoding::Base64);
            }
        }
        self
    }

    /// Keeps standard input open, for [`crate::Process::write`].
    #[must_use]
    pub fn keep_stdin_open(mut self) -> Self {
        self.request.keep_stdin_open = Some(true);
        self
    }

    /// The session to run in, instead of that of the object on which the call is made.
    #[must_use]
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.request.session_id = Some(id.into());
        self
    }

    /// Id of the process, instead of a generated one.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.request.execution_id = Some(id.into());
        self
    }

    /// Maximum number of bytes of each stream in the result. If there is more, the middle is left out.
    #[must_use]
    pub fn max_output_bytes(mut self, bytes: u64) -> Self {
        self.request.max_output_bytes = Some(bytes);
        self
    }

    /// Encoding of the output. With base64, [`crate::Client::decode`] returns the exact bytes.
    #[must_use]
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.request.encoding = Some(encoding);
        self
    }

    /// User to run as: a name, a user id or `UID:GID`.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.request.user = Some(user.into());
        self
    }

    /// Resource limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.request.limits = Some(limits);
        self
    }

    /// What happens to processes that the command leaves running.
    #[must_use]
    pub fn leftovers(mut self, leftovers: Leftovers) -> Self {
        self.request.leftovers = Some(leftovers);
        self
    }

    /// What happens to output that no stream has read when the journal is full. Not for `exec`.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.request.overflow = Some(overflow);
        self
    }

    /// What happens to a process that was started from a session when the session is deleted.
    #[must_use]
    pub fn on_session_end(mut self, then: OnSessionEnd) -> Self {
        self.request.on_session_end = Some(then);
        self
    }

    /// With `false`, the record of a finished process is kept until it is removed with
    /// [`crate::Scope::cleanup_completed_processes`].
    #[must_use]
    pub fn auto_cleanup(mut self, removes: bool) -> Self {
        self.request.auto_cleanup = Some(removes);
        self
    }

    /// Whether the command ends when its caller no longer waits for it: when the future of `exec` or the stream of
    /// `exec_stream` is dropped. Default: true. It has no effect on `start_process`.
    ///
    /// - `exec` asks the server to end the command when the connection ends (`onDisconnect`), so it also ends if this program
    ///   dies, or if the connection is lost while the server runs. The request is repeated after a lost connection, and finds
    ///   the same command: its result says how it ended. With `false` it is not ended. Dropping the future also sends a
    ///   request, in case there is no connection, unless the command has an id.
    /// - `exec_stream` survives lost connections in both cases. Dropping its stream sends a request from a task of the
    ///   runtime, and does not wait for it.
    #[must_use]
    pub fn kill_on_drop(mut self, kills: bool) -> Self {
        self.kills_on_drop = kills;
        self
    }

    /// The request of `exec`.
    pub(super) fn awaited(mut self) -> CommandRequest {
        if self.kills_on_drop {
            self.request.on_disconnect.get_or_insert(OnDisconnect::Kill);
        }
        self.request
    }
}

impl From<CommandRequest> for Command {
    fn from(request: CommandRequest) -> Self {
        let kills_on_drop = request.on_disconnect != Some(OnDisconnect::Keep);
        Self { request, kills_on_drop }
    }
}

impl From<&str> for Command {
    fn from(command: &str) -> Self {
        Self::new(command)
    }
}

impl From<String> for Command {
    fn from(command: String) -> Self {
        Self::new(command)
    }
}

pub(super) fn whole_milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_that_is_no_text_is_sent_as_base64() {
        let Command { request, .. } = Command::new("cat").stdin([0xff, 0, b'a']);
        assert_eq!(request.stdin.as_deref(), Some("/wBh"));
        assert_eq!(request.stdin_encoding, Some(Encoding::Base64));
        let Command { request, .. } = Command::from(request).stdin("text");
        assert_eq!((request.stdin.as_deref(), request.stdin_encoding), (Some("text"), None));
    }

    #[test]
    fn exec_ends_with_its_caller_unless_told_otherwise() {
        assert_eq!(Command::new("true").awaited().on_disconnect, Some(OnDisconnect::Kill));
        assert_eq!(Command::new("true").kill_on_drop(false).awaited().on_disconnect, None);
        let kept = CommandRequest { on_disconnect: Some(OnDisconnect::Keep), ..CommandRequest::from("true") };
        assert_eq!(Command::from(kept).awaited().on_disconnect, Some(OnDisconnect::Keep));
    }
}
