//! [`Failure`]: an error as a message, a hint and an exit code.

use std::io;
use std::path::Path;

use sandcrab_api::event::ErrorEvent;
use sandcrab_api::{ErrorBody, ErrorCode, without_error_number};
use sandcrab_client::{AddressError, ClientError};

use crate::exit_code;
use crate::runtime::NO_THREAD;

/// Why a command of this program failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server refused the request, or could not be reached.
    Client(ClientError),
    /// A stream ended with an error.
    Event(ErrorEvent),
    /// This program failed. `code` is the word for it in JSON.
    Local { code: &'static str, message: String, hint: Option<String>, exit_code: u8 },
    /// The reader of standard output has closed it: nothing is printed.
    BrokenPipe,
}

impl Failure {
    /// An invalid server address.
    pub(crate) fn address(error: &AddressError) -> Self {
        Self::usage(error.to_string(), "")
    }

    /// Invalid usage that the parser cannot detect. An empty hint is no hint.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        let hint = Some(hint.into()).filter(|hint: &String| !hint.is_empty());
        Self::Local { code: "INVALID_USAGE", message: message.into(), hint, exit_code: exit_code::USAGE }
    }

    /// A failure of this program.
    fn local(message: String, hint: &str) -> Self {
        let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
        Self::Local { code: "CLI_FAILED", message, hint, exit_code: exit_code::FAILED }
    }

    /// A token file that cannot be read.
    pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Self {
        let message = format!("failed to read the token file {}: {error}", path.display());
        Self::local(message, "`sandcrab serve` prints the path of its token file when it starts")
    }

    /// A state directory whose address file another user can change.
    pub(crate) fn state_dir(error: impl std::fmt::Display) -> Self {
        let message = format!("failed to find the server: {error}");
        Self::local(message, "give the server's address with --url and its token with --token-file")
    }

    /// The server of `sandcrab run` could not be started.
    pub(crate) fn embedded(error: impl std::fmt::Display) -> Self {
        let message = format!("failed to start a server for this command: {error}");
        Self::local(message, "start a server with `sandcrab serve`")
    }

    /// The service of `sandcrab mcp` failed.
    pub(crate) fn mcp(error: impl std::fmt::Display) -> Self {
        let hint = "an MCP client must start this command; see docs/agents.md";
        Self::local(error.to_string(), hint)
    }

    /// This program cannot start a thread.
    pub(crate) fn no_thread() -> Self {
        Self::local(NO_THREAD.to_owned(), "")
    }

    /// Files that cannot be written.
    pub(crate) fn write_files(dir: &Path, error: &io::Error) -> Self {
        Self::local(format!("failed to write to {}: {error}", dir.display()), "")
    }

    /// A stream that ended before its last event.
    pub(crate) fn incomplete_stream() -> Self {
        Self::local("the stream ended before the command did".to_owned(), "")
    }

    /// Output of a command that the server did not keep.
    pub(crate) fn missing(bytes: u64) -> Self {
        let hint =
            "the server drops output when its disk is full, or 30 seconds after the connection was lost";
        Self::Local {
            code: "OUTPUT_MISSING",
            message: format!("{bytes} bytes of the command's output are missing"),
            hint: Some(hint.to_owned()),
            exit_code: exit_code::IO,
        }
    }

    /// Recorded output of a process that the server did not keep.
    pub(crate) fn dropped(id: &str, bytes: u64) -> Self {
        let hint = "the server limits the recorded output of a command; raise `serve --journal-bytes`, or free disk space";
        Self::Local {
            code: "OUTPUT_MISSING",
            message: format!("{bytes} bytes of the output of {id} are missing: the server has dropped them"),
            hint: Some(hint.to_owned()),
            exit_code: exit_code::IO,
        }
    }

    /// Fewer last lines of a process than requested, although it has written more.
    pub(crate) fn incomplete_tail(id: &str) -> Self {
        let hint = "the server limits the recorded and the returned output of a command; raise `serve --journal-bytes` or \
                    `serve --max-output-bytes`";
        Self::Local {
            code: "OUTPUT_MISSING",
            message: format!(
                "{id} has written more lines than these, but the server has dropped or omitted them"
            ),
            hint: Some(hint.to_owned()),
            exit_code: exit_code::IO,
        }
    }

    /// Standard input that cannot be read.
    pub(crate) fn stdin(error: &io::Error) -> Self {
        Self::io(format!("failed to read standard input: {error}"))
    }

    /// A local file that cannot be read or written.
    pub(crate) fn local_file(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::io(format!("failed to {what} {}: {error}", path.display()))
    }

    /// A signal to this program ended what it did. Nothing is left of it.
    pub(crate) fn interrupted(signal: u8, effect: &str) -> Self {
        let name = sandcrab_api::signal::name(signal.into());
        let message = format!("interrupted by {name}; {effect}");
        Self::Local { code: "INTERRUPTED", message, hint: None, exit_code: exit_code::of_signal(signal) }
    }

    /// The local terminal cannot be used.
    pub(crate) fn terminal(error: &io::Error) -> Self {
        Self::io(format!("failed to use the terminal: {error}"))
    }

    /// A recording that cannot be played.
    pub(crate) fn recording(path: &Path, error: impl std::fmt::Display) -> Self {
        let hint = "play a file of `sandcrab record`, or another asciicast of version 2 or 3";
        Self::local(format!("failed to play {}: {error}", path.display()), hint)
    }

    /// A file that must not be replaced, or cannot be written.
    pub(crate) fn output_file(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::local(format!("failed to write {}: {why}", path.display()), "give another file with --output")
    }

    fn io(message: String) -> Self {
        Self::Local { code: "IO_ERROR", message, hint: None, exit_code: exit_code::IO }
    }

    /// The same failure with another hint.
    pub(crate) fn with_hint(self, hint: String) -> Self {
        if matches!(self, Self::BrokenPipe) {
            return self;
        }
        let (code, message, exit_code) = (self.code(), self.message(), self.exit_code());
        Self::Local { code, message, hint: Some(hint), exit_code }
    }

    /// The same failure, with a message that names what it is about.
    pub(crate) fn about(self, id: &str) -> Self {
        let message = self.message();
        if message.contains(id) {
            return self;
        }
        let (code, hint, exit_code) = (self.code(), self.hint(), self.exit_code());
        Self::Local { code, message: format!("{id}: {message}"), hint, exit_code }
    }

    /// The exit code of this program.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            // An invalid option, whatever is wrong with the path.
            Self::Client(ClientError::Api(body))
                if body.http_status == 400
                    && body.context.get("field").is_some_and(|field| field == "cwd") =>
            {
                exit_code::USAGE
            }
            Self::Client(ClientError::Api(body)) => {
                exit_code::of_error(body.code, body.context.contains_key("command"))
            }
            Self::Client(ClientError::Id(_) | ClientError::Token) => exit_code::USAGE,
            Self::Client(_) => exit_code::FAILED,
            Self::Event(event) => exit_code::of_error(event.code, false),
            Self::Local { exit_code, .. } => *exit_code,
            Self::BrokenPipe => exit_code::BROKEN_PIPE,
        }
    }

    /// What happened, in a sentence.
    pub(crate) fn message(&self) -> String {
        without_error_number(match self {
            Self::Client(ClientError::Api(body)) => without_field(body),
            Self::Client(error) => error.to_string(),
            Self::Event(event) => event.error.clone(),
            Self::Local { message, .. } => message.clone(),
            Self::BrokenPipe => "standard output was closed by its reader".to_owned(),
        })
    }

    /// What to do, in a sentence.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Client(ClientError::Api(body))
                if body.context.contains_key("serviceId") && body.code == ErrorCode::WaitTimeout =>
            {
                Some("the service continues; `sandcrab service stop` ends it".to_owned())
            }
            Self::Client(ClientError::Api(body)) if body.code == ErrorCode::ProcessEnded => {
                let id = body.context.get("serviceId").and_then(|id| id.as_str())?;
                Some(format!(
                    "`sandcrab service status {id}` shows how it ended, and `sandcrab service logs {id}` its output"
                ))
            }
            // The server's own suggestions are about requests, not about commands of this program.
            Self::Client(error @ ClientError::Api(body)) => {
                hint_of(body.code).or_else(|| error.hint_without_routes())
            }
            Self::Client(ClientError::Unreachable { .. }) => Some(
                "start a server with `sandcrab serve`, or give the address of one with --url or SANDCRAB_URL"
                    .to_owned(),
            ),
            Self::Client(error) => error.hint(),
            Self::Event(event) => hint_of(event.code),
            Self::Local { hint, .. } => hint.clone(),
            Self::BrokenPipe => None,
        }
    }

    /// The code in JSON: that of the API for an error of the server.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Client(ClientError::Api(body)) => body.code.as_str(),
            Self::Client(ClientError::Unreachable { .. }) => "UNREACHABLE",
            Self::Client(ClientError::ConnectionLost { .. }) => "CONNECTION_LOST",
            Self::Client(ClientError::InvalidResponse { .. }) => "INVALID_RESPONSE",
            Self::Client(_) => ErrorCode::ValidationFailed.as_str(),
            Self::Event(event) => event.code.as_str(),
            Self::Local { code, .. } => code,
            Self::BrokenPipe => "BROKEN_PIPE",
        }
    }
}

/// The message without the field of the request that it begins with: the user has given an option, not a field. An expectation
/// alone does not say what it is about.
fn without_field(body: &ErrorBody) -> String {
    let field = body.context.get("field").and_then(|field| field.as_str());
    let rest = field.and_then(|field| body.message.strip_prefix(field)?.strip_prefix(": "));
    rest.filter(|rest| !rest.starts_with("expected")).unwrap_or(&body.message).to_owned()
}

fn hint_of(code: ErrorCode) -> Option<String> {
    let text = match code {
        ErrorCode::Unauthorized => "give the server's token with --token-file or SANDCRAB_TOKEN",
        ErrorCode::ProcessNotFound => "`sandcrab ps --all` lists all processes",
        ErrorCode::SessionNotFound => "`sandcrab session list` lists all sessions",
        ErrorCode::TerminalNotFound => "`sandcrab terminal list` lists all terminals",
        ErrorCode::TerminalInputFull => "the program does not read its input; try again later",
        ErrorCode::WaitTimeout => "`sandcrab kill` ends the process",
        ErrorCode::ServiceNotFound => "`sandcrab service list` lists all services",
        ErrorCode::ServiceAlreadyExists => "stop it with `sandcrab service stop`, or choose another --id",
        ErrorCode::BackupNotFound => "`sandcrab backup list` lists all backups",
        ErrorCode::PortAlreadyExposed => {
            "`sandcrab expose list` shows its address, and `sandcrab expose remove` ends the exposure"
        }
        ErrorCode::PortNotExposed => "`sandcrab expose list` lists the exposed ports",
        ErrorCode::GitBranchNotFound => {
            "check the name of the branch; `sandcrab git branches` lists those of a clone"
        }
        ErrorCode::StdinNotOpen => {
            "start the process with `sandcrab start -i` to keep its standard input open"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// From writing to standard output or standard error.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::BrokenPipe;
        }
        Self::io(format!("failed to write the output: {error}"))
    }
}
