//! `sandcrab completions`.
//!
//! The scripts are generated from the definition of the command line. A part of each is added, which calls this program for the
//! ids of the server ([`ids`]).

pub(crate) mod ids;

use clap::Args;
use clap_complete::Shell;

use crate::cli;
use crate::failure::Failure;
use crate::output::Output;

/// Print a completion script for a shell.
///
/// Commands and options are completed in each shell, and ids of the server in bash, zsh and fish.
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

/// The beginning of the generated function of bash and zsh.
const FUNCTION: &str = "_sandcrab() {\n";

/// Readline splits words at `:` and replaces only the last part. The line is split at white space, without any expansion.
const BASH_IDS: &str = r#"_sandcrab_ids() {
    local line="${COMP_LINE:0:COMP_POINT}" id before="" ids
    local -a words
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    ids=$(command sandcrab __complete "${words[@]}" 2>/dev/null)
    [[ -n $ids ]] || return 1
    local word="${words[${#words[@]}-1]}"
    [[ $word == *:* && $COMP_WORDBREAKS == *:* ]] && before="${word%"${word##*:}"}"
    COMPREPLY=()
    while IFS= read -r id; do COMPREPLY+=("${id#"$before"}"); done <<< "$ids"
}

"#;

const ZSH_IDS: &str = r#"_sandcrab_ids() {
    local output
    output=$(command sandcrab __complete "${(@)words[1,CURRENT]}" 2>/dev/null)
    [[ -n $output ]] || return 1
    compadd -- "${(@f)output}"
}

"#;

const FISH_IDS: &str = r#"
function __fish_sandcrab_ids
    command sandcrab __complete (commandline -opc) (commandline -ct) 2>/dev/null
end
complete -c sandcrab -a "(__fish_sandcrab_ids)"
"#;

/// A line of the script for fish. The value of an option is completed only by the line of that option.
fn with_fish_ids(line: &str) -> String {
    let has_id = [" -l session ", " -l process "].iter().any(|option| line.contains(option));
    let ids = if has_id && line.ends_with(" -r") { " -f -a \"(__fish_sandcrab_ids)\"" } else { "" };
    format!("{line}{ids}\n")
}

pub(crate) fn run(args: &CompletionsArgs, output: Output) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "sandcrab", &mut script);
    let script = String::from_utf8_lossy(&script);
    // Where an id is expected, only ids are completed.
    let script = match args.shell {
        Shell::Bash => {
            script.replacen(FUNCTION, &format!("{BASH_IDS}{FUNCTION}    _sandcrab_ids && return 0\n"), 1)
        }
        Shell::Zsh => {
            script.replacen(FUNCTION, &format!("{ZSH_IDS}{FUNCTION}    _sandcrab_ids && return 0\n"), 1)
        }
        Shell::Fish => script.lines().map(with_fish_ids).collect::<String>() + FISH_IDS,
        _ => script.into_owned(),
    };
    output.bytes(script.as_bytes())?;
    Ok(0)
}
