//! The command line: global options, the list of commands, and the parser.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use sandcrab_client::Client;

use crate::commands;
use crate::connection::Connection;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::Output;

/// Run commands, background processes, shell sessions and terminals on a server that records everything.
///
/// `sandcrab serve` starts a server, and the other commands use it. `sandcrab run` also works without one.
#[derive(Debug, Parser)]
#[command(name = "sandcrab", bin_name = "sandcrab", version, after_long_help = exit_code::HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command that uses a server.
#[derive(Debug, Args)]
pub(crate) struct GlobalOptions {
    /// Address of the server: http://HOST:PORT or unix:PATH.
    ///
    /// Default: the server of the default state directory, or else http://127.0.0.1:7070.
    #[arg(long, global = true, value_name = "URL", env = "SANDCRAB_URL", help_heading = "Global options")]
    pub(crate) url: Option<String>,
    /// File with the server's token.
    ///
    /// Default: the token in the variable SANDCRAB_TOKEN. For a server on this machine also the one in the default state
    /// directory: $SANDCRAB_STATE_DIR, $XDG_STATE_HOME/sandcrab, ~/.local/state/sandcrab, or for root /var/lib/sandcrab.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "SANDCRAB_TOKEN_FILE",
        value_parser = OsStringValueParser::new().map(PathBuf::from),
        help_heading = "Global options"
    )]
    pub(crate) token_file: Option<PathBuf>,
    /// Print JSON: one document, or one document per line for streams and several ids. Errors and notes are JSON on standard error, one per line.
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
}

impl GlobalOptions {
    /// How to find the server.
    pub(crate) fn connection(&self) -> Connection<'_> {
        Connection { url: self.url.as_deref(), token_file: self.token_file.as_deref() }
    }

    /// A client of the server.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        self.connection().client()
    }
}

/// The commands, in the order of the help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    // Running commands.
    Run(commands::run::RunArgs),
    Exec(commands::exec::ExecArgs),
    Start(commands::start::StartArgs),
    // Processes.
    Ps(commands::ps::PsArgs),
    Inspect(commands::inspect::InspectArgs),
    Logs(commands::logs::LogsArgs),
    Wait(commands::wait::WaitArgs),
    Kill(commands::kill::KillArgs),
    Signal(commands::signal::SignalArgs),
    Stdin(commands::stdin::StdinArgs),
    Cleanup(commands::cleanup::CleanupArgs),
    // Sessions and the environment.
    Session(commands::session::SessionArgs),
    Env(commands::env::EnvArgs),
    // Services.
    Service(commands::service::ServiceArgs),
    // Terminals.
    Shell(commands::shell::ShellArgs),
    Attach(commands::attach::AttachArgs),
    Terminal(commands::terminal::TerminalArgs),
    Record(commands::record::RecordArgs),
    Play(commands::play::PlayArgs),
    // Files.
    Ls(commands::ls::LsArgs),
    Cat(commands::cat::CatArgs),
    Write(commands::write::WriteArgs),
    Edit(commands::edit::EditArgs),
    Cp(commands::cp::CpArgs),
    Mv(commands::mv::MvArgs),
    Rm(commands::rm::RmArgs),
    Mkdir(commands::mkdir::MkdirArgs),
    Chmod(commands::chmod::ChmodArgs),
    Stat(commands::stat::StatArgs),
    Grep(commands::grep::GrepArgs),
    Find(commands::find::FindArgs),
    Replace(commands::replace::ReplaceArgs),
    Watch(commands::watch::WatchArgs),
    // The workspace.
    Git(commands::git::GitArgs),
    Backup(commands::backup::BackupArgs),
    Ports(commands::ports::PortsArgs),
    Expose(commands::expose::ExposeArgs),
    // Language models.
    Mcp(commands::mcp::McpArgs),
    Tools(commands::tools::ToolsArgs),
    // The server.
    Serve(Box<commands::serve::ServeArgs>),
    Health(commands::health::HealthArgs),
    Events(commands::events::EventsArgs),
    // This program.
    Completions(commands::completions::CompletionsArgs),
    Man(commands::man::ManArgs),
}

/// Commands that use no server, and so reject the global options.
const WITHOUT_SERVER: [&str; 5] = ["serve", "play", "tools", "completions", "man"];
const GLOBAL_OPTIONS: [(&str, &str); 3] =
    [("url", "--url"), ("token_file", "--token-file"), ("json", "--json")];

/// The definition of the command line.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let globals: Vec<_> = command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    // An argument with the id of a global one takes its place. Hidden, so that the help does not list what is rejected.
    WITHOUT_SERVER.iter().fold(command, |command, name| {
        command.mut_subcommand(*name, |subcommand| {
            let own = |arg: &&clap::Arg| subcommand.get_arguments().all(|own| own.get_id() != arg.get_id());
            let hidden: Vec<_> =
                globals.iter().filter(own).map(|arg| arg.clone().global(false).hide(true)).collect();
            subcommand.args(hidden)
        })
    })
}

/// Parses the command line. Prints help, the version and usage errors; the error is the exit code.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    let mut command = command();
    let parsed = command.try_get_matches_from_mut(std::env::args_os()).and_then(|matches| {
        reject_unused(&mut command, &matches)?;
        Cli::from_arg_matches(&matches).map(|cli| without_empty_variables(cli, &matches))
    });
    parsed.map_err(|error| {
        let is_error = error.use_stderr();
        if is_error && is_json_given() {
            let (message, hint) = message(&error);
            Output::new(true).failure(&Failure::usage(message, hint));
            return ExitCode::from(exit_code::USAGE);
        }
        match error.print() {
            // If standard error is closed, there is no reader left to report it to.
            _ if is_error => ExitCode::from(exit_code::USAGE),
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                let failure = Failure::from(e);
                Output::new(is_json_given()).failure(&failure);
                ExitCode::from(failure.exit_code())
            }
        }
    })
}

/// A variable that is empty is one that is not set. An empty option is an error of the command that uses it.
fn without_empty_variables(mut cli: Cli, matches: &ArgMatches) -> Cli {
    let is_variable = |id: &str| matches.value_source(id) == Some(ValueSource::EnvVariable);
    let global = &mut cli.global;
    global.url.take_if(|url| url.is_empty() && is_variable("url"));
    global.token_file.take_if(|path| path.as_os_str().is_empty() && is_variable("token_file"));
    cli
}

/// Options that would have no effect are errors.
fn reject_unused(command: &mut clap::Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some((name, of_subcommand)) = matches.subcommand() else { return Ok(()) };
    let is_given = |id: &str| {
        let in_line = |matches: &ArgMatches| matches.value_source(id) == Some(ValueSource::CommandLine);
        in_line(matches) || in_line(of_subcommand)
    };
    let is_unused = |id: &str| match name {
        // Its own option.
        "serve" if id == "token_file" => false,
        "run" => id != "json" && of_subcommand.get_flag("standalone"),
        _ => WITHOUT_SERVER.contains(&name),
    };
    match GLOBAL_OPTIONS.iter().find(|(id, _)| is_unused(id) && is_given(id)) {
        None => Ok(()),
        Some((_, option)) => {
            let name = if name == "run" { "run --standalone" } else { name };
            let text = format!("the option {option} has no effect with `sandcrab {name}`");
            Err(command.error(ErrorKind::ArgumentConflict, text))
        }
    }
}

/// Whether the command line, which cannot be parsed, has `--json`.
fn is_json_given() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == OsStr::new("--json"))
}

/// The message and the hint of a usage error, each on one line, without the usage that follows them.
fn message(error: &clap::Error) -> (String, String) {
    let hint = "see `sandcrab --help`";
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return ("a command is required".to_owned(), hint.to_owned());
    }
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let before_usage = text.split("\n\nUsage:").next().unwrap_or(text);
    let before_help = before_usage.split("\n\nFor more information").next().unwrap_or(before_usage);
    let (text, hint) = before_help.split_once("\n\n  tip: ").unwrap_or((before_help, hint));
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    // There may be several tips.
    (one_line(text), one_line(&hint.replace("\n  tip: ", "; ")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_sound() {
        super::command().debug_assert();
    }
}
