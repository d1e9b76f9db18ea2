//! What a command to run looks like on the command line; shared by `run`, `exec` and `session exec`.

use clap::Args;
use sandcrab_api::execute::{CommandRequest, Variables};

use crate::quantity::Span;

/// The command, and what it gets.
#[derive(Debug, Args)]
pub(crate) struct CommandArgs {
    #[command(flatten)]
    env: EnvironmentArgs,
    /// The folder to run it in.
    #[arg(short = 'C', long, value_name = "FOLDER")]
    cwd: Option<String>,
    /// The longest it may run, such as 500ms, 5s, 2m; then it is ended, with exit code 124. 0s for no limit.
    #[arg(short, long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// The user to run it as: a name, a user id or UID:GID. The server has to run as root.
    #[arg(short, long)]
    user: Option<String>,
    #[command(flatten)]
    words: Words,
}

/// Changes to an environment.
#[derive(Debug, Args)]
pub(crate) struct EnvironmentArgs {
    /// Set a variable; may be given several times. `NAME=` sets it to nothing.
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// Unset a variable; may be given several times.
    #[arg(long, value_name = "NAME")]
    unset_env: Vec<String>,
}

impl EnvironmentArgs {
    /// The same for the wire, if there are any.
    pub(crate) fn variables(self) -> Option<Variables> {
        let set = self.env.into_iter().map(|(name, value)| (name, Some(value)));
        let all: Variables = self.unset_env.into_iter().map(|name| (name, None)).chain(set).collect();
        (!all.is_empty()).then_some(all)
    }
}

/// Words that make a command.
#[derive(Debug, Args)]
pub(crate) struct Words {
    /// The command. Words are joined by spaces and read by a shell; after `--` they are a program and its arguments, and
    /// no shell sees them. Options of ours go before it.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl CommandArgs {
    /// The request that runs it.
    pub(crate) fn request(self) -> CommandRequest {
        let mut request = self.words.request();
        request.env = self.env.variables();
        request.cwd = self.cwd;
        request.user = self.user;
        request.timeout_ms = self.timeout.map(Span::milliseconds);
        request
    }
}

impl Words {
    fn request(self) -> CommandRequest {
        let mut words = self.command;
        if !follows_dashes(words.len()) {
            return CommandRequest { command: words.join(" "), ..CommandRequest::default() };
        }
        let command = words.remove(0);
        CommandRequest { command, args: Some(words), ..CommandRequest::default() }
    }
}

/// Whether the last words of the command line come after a `--`. The parser takes it away and does not tell; but the
/// command's words are the last ones, so it can only be before the first of them.
fn follows_dashes(words: usize) -> bool {
    let line: Vec<_> = std::env::args_os().collect();
    let before = line.len().checked_sub(words + 1);
    before.is_some_and(|at| line[at] == "--")
}

/// `NAME=VALUE`.
fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} sets nothing; write NAME=VALUE")),
    }
}
