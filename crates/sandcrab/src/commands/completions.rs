//! `sandcrab completions`.

use clap::Args;
use clap_complete::Shell;

use crate::cli;
use crate::failure::Failure;
use crate::output::Output;

/// Print a completion script for a shell.
///
/// Run the line for your shell below once, and start a new shell.
#[derive(Debug, Args)]
#[command(after_long_help = INSTALL)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for.
    shell: Shell,
}

const INSTALL: &str = "\
Install:
  bash  echo 'source <(sandcrab completions bash)' >> ~/.bashrc
  zsh   echo 'autoload -Uz compinit && compinit && source <(sandcrab completions zsh)' >> ~/.zshrc
  fish  sandcrab completions fish | install -D /dev/stdin ~/.config/fish/completions/sandcrab.fish";

pub(crate) fn run(args: &CompletionsArgs, output: Output) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "sandcrab", &mut script);
    output.bytes(&script)?;
    Ok(0)
}
