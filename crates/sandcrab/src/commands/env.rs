//! `sandcrab env`.

use clap::{ArgGroup, Args};
use sandcrab_api::execute::Variables;

use crate::cli::GlobalOptions;
use crate::command_line::parse_variable;
use crate::failure::Failure;
use crate::output::Output;

/// Set or unset environment variables of later commands, or of a session.
///
/// Without --session, the change applies to commands and sessions that start later. With --session, it applies to the
/// session's shell. `sandcrab exec env` prints the environment of commands.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("changes").required(true).multiple(true).args(["set", "unset"]))]
pub(crate) struct EnvArgs {
    /// Session whose shell to change.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
    /// Unset a variable. Can be repeated.
    #[arg(long, value_name = "NAME")]
    unset: Vec<String>,
    /// Variables to set. NAME alone passes the value of this environment.
    #[arg(value_name = "NAME[=VALUE]", value_parser = parse_set_variable)]
    set: Vec<(String, String)>,
}

fn parse_set_variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = parse_variable(text)?;
    let value = value.ok_or_else(|| format!("{name} is not set in this environment; use NAME=VALUE"))?;
    Ok((name, value))
}

pub(crate) async fn run(args: EnvArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let set = args.set.into_iter().map(|(name, value)| (name, Some(value)));
    let vars: Variables = args.unset.into_iter().map(|name| (name, None)).chain(set).collect();
    let client = global.client()?;
    let done = match &args.session {
        Some(id) => client.set_session_env(id, vars).await?,
        None => client.set_env(vars).await?,
    };
    if output.json {
        output.document(&done)?;
    }
    Ok(0)
}
