//! `sandcrab completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output::Output;

/// Print a script that makes a shell complete commands and options.
///
/// For bash: `sandcrab completions bash > ~/.local/share/bash-completion/completions/sandcrab`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, output: Output) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sandcrab", &mut script);
    output.bytes(&script)?;
    Ok(0)
}
