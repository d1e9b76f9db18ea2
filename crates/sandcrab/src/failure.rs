//! [`Failure`]: what went wrong, as a line, a hint and an exit code.

use std::io;
use std::path::Path;

use sandcrab_api::ErrorCode;
use sandcrab_api::event::ErrorEvent;
use sandcrab_client::{AddressError, ClientError};

/// The request makes no sense.
const EXIT_REQUEST: u8 = 64;
/// The server cannot be reached.
const EXIT_UNREACHABLE: u8 = 69;
/// Standard input or output failed.
const EXIT_IO: u8 = 74;
/// The answer makes no sense.
const EXIT_ANSWER: u8 = 76;
/// 128 and the number of SIGPIPE, as of any program that writes to nobody.
const EXIT_BROKEN_PIPE: u8 = 141;

/// What went wrong.
#[derive(Debug)]
pub(crate) enum Failure {
    /// On the way to the server, or there.
    Client(ClientError),
    /// In a stream.
    Event(ErrorEvent),
    /// Here.
    Own { message: String, hint: Option<String>, exit_code: u8 },
    /// Nobody reads what is written: no reason to say anything.
    BrokenPipe,
}

impl Failure {
    /// An address that is none.
    pub(crate) fn address(error: AddressError) -> Self {
        Self::Client(error.into())
    }

    /// An argument that makes no sense.
    pub(crate) fn argument(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Own { message: message.into(), hint: Some(hint.into()), exit_code: EXIT_REQUEST }
    }

    /// A token file that cannot be read.
    pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Self {
        let message = format!("failed to read the token in {}: {error}", path.display());
        Self::argument(message, "`sandcrab serve` says on start where its token is")
    }

    /// A state directory whose address file another user can change.
    pub(crate) fn state_dir(error: impl std::fmt::Display) -> Self {
        let message = format!("failed to find the server: {error}");
        Self::argument(message, "name the server with --url and its token with --token-file")
    }

    /// A server that could not be started here.
    pub(crate) fn embedded(error: impl std::fmt::Display) -> Self {
        let message = format!("failed to start a server for this command: {error}");
        Self::Own {
            message,
            hint: Some("start one with `sandcrab serve`".to_owned()),
            exit_code: EXIT_UNREACHABLE,
        }
    }

    /// Output of a command that the server did not keep: what was written is not what the command wrote.
    pub(crate) fn missing(bytes: u64) -> Self {
        Self::Own {
            message: format!("{bytes} bytes of the command's output are missing"),
            hint: Some(
                "the server drops output when its disk is full, or 30 seconds after the connection was lost"
                    .to_owned(),
            ),
            exit_code: EXIT_IO,
        }
    }

    /// Standard input that cannot be read.
    pub(crate) fn stdin(error: &io::Error) -> Self {
        Self::Own {
            message: format!("failed to read standard input: {error}"),
            hint: None,
            exit_code: EXIT_IO,
        }
    }

    /// The exit code it ends with.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Client(ClientError::Api(body)) => body.code.exit_code(),
            Self::Client(ClientError::Unreachable { .. } | ClientError::Cut { .. }) => EXIT_UNREACHABLE,
            Self::Client(ClientError::Answer { .. }) => EXIT_ANSWER,
            Self::Client(_) => EXIT_REQUEST,
            Self::Event(event) => event.code.exit_code(),
            Self::Own { exit_code, .. } => *exit_code,
            Self::BrokenPipe => EXIT_BROKEN_PIPE,
        }
    }

    /// What happened, in a sentence.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Client(error) => error.to_string(),
            Self::Event(event) => event.error.clone(),
            Self::Own { message, .. } => message.clone(),
            Self::BrokenPipe => "nobody reads standard output any more".to_owned(),
        }
    }

    /// What may help, in a sentence.
    pub(crate) fn hint(&self) -> Option<String> {
        let of_code = |code: ErrorCode| {
            let text = match code {
                ErrorCode::Unauthorized => "give the server's token with --token-file or SANDCRAB_TOKEN",
                ErrorCode::ProcessNotFound => "`sandcrab ps --all` lists what there is",
                ErrorCode::SessionNotFound => "`sandcrab session list` lists what there is",
                ErrorCode::SessionTerminated => {
                    "the next command finds the shell restored; `session create --restore` makes sessions that go on by themselves"
                }
                ErrorCode::WaitTimeout => "it goes on; `sandcrab kill` ends it",
                _ => return None,
            };
            Some(text.to_owned())
        };
        match self {
            // The server's own talk of requests, not of commands.
            Self::Client(error @ ClientError::Api(body)) => of_code(body.code).or_else(|| error.hint()),
            Self::Client(ClientError::Unreachable { .. }) => Some(
                "start a server with `sandcrab serve`, or say where one is with --url or SANDCRAB_URL"
                    .to_owned(),
            ),
            Self::Client(error) => error.hint(),
            Self::Event(event) => of_code(event.code),
            Self::Own { hint, .. } => hint.clone(),
            Self::BrokenPipe => None,
        }
    }

    /// The word for it in JSON: the server's, if it is the server's.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Client(ClientError::Api(body)) => body.code.as_str(),
            Self::Client(ClientError::Unreachable { .. }) => "UNREACHABLE",
            Self::Client(ClientError::Cut { .. }) => "CONNECTION_CUT",
            Self::Client(ClientError::Answer { .. }) => "ANSWER_NOT_UNDERSTOOD",
            Self::Client(_) => ErrorCode::ValidationFailed.as_str(),
            Self::Event(event) => event.code.as_str(),
            Self::Own { .. } => "CLI_FAILED",
            Self::BrokenPipe => "BROKEN_PIPE",
        }
    }
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
        Self::Own { message: format!("failed to write the output: {error}"), hint: None, exit_code: EXIT_IO }
    }
}
