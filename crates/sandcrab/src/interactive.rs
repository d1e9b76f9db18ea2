//! Programs that need a terminal, or standard input.
//!
//! Without a terminal, and with an empty standard input, a shell, an interpreter or a filter exits at once and prints nothing,
//! and an editor waits forever. This module recognises them, so that the user gets an explanation instead.

use sandcrab_api::execute::CommandRequest;

use crate::failure::Failure;

/// Shells and interpreters that read standard input when they get no script.
const INTERPRETERS: [&str; 24] = [
    "sh",
    "bash",
    "dash",
    "zsh",
    "fish",
    "ksh",
    "python",
    "ipython",
    "node",
    "deno",
    "bun",
    "irb",
    "ruby",
    "perl",
    "lua",
    "php",
    "ghci",
    "psql",
    "mysql",
    "sqlite3",
    "redis-cli",
    "bc",
    "gdb",
    "su",
];

/// Programs that take over the screen when they get no options. Files are not options.
const FULL_SCREEN: [&str; 11] =
    ["vi", "vim", "nvim", "view", "nano", "pico", "emacs", "mc", "top", "htop", "btop"];

/// Programs that take over the screen when they get no arguments at all.
const MULTIPLEXERS: [&str; 3] = ["tmux", "screen", "zellij"];

/// Programs that read standard input when they get no file.
const FILTERS: [&str; 25] = [
    "cat",
    "tac",
    "sort",
    "uniq",
    "wc",
    "head",
    "tail",
    "nl",
    "od",
    "rev",
    "cut",
    "fold",
    "fmt",
    "base64",
    "cksum",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "hexdump",
    "xxd",
    "less",
    "more",
    "gzip",
    "dd",
];

/// Programs that always read standard input.
const READERS: [&str; 3] = ["tr", "tee", "xargs"];

/// Programs that read standard input when they get a pattern or a script, and nothing else.
const SCRIPTED: [&str; 5] = ["grep", "egrep", "fgrep", "sed", "jq"];

/// Options with which an interpreter still reads standard input.
const OPTIONS: [&str; 9] = ["-", "-i", "-l", "-il", "-li", "-q", "--login", "--norc", "--noprofile"];

/// Programs that execute the rest of their words.
const WRAPPERS: [&str; 4] = ["exec", "env", "sudo", "command"];

/// What a program needs that it does not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Terminal,
    Input,
}

/// The error for a command whose standard input would be empty, if its program needs a terminal or input.
pub(crate) fn check(request: &CommandRequest) -> Result<(), Failure> {
    let (what, hint) = match program(request) {
        None => return Ok(()),
        Some((program, Need::Terminal)) => (
            format!("{program} needs a terminal"),
            "add -it, or use `sandcrab shell`; -i alone passes standard input line by line",
        ),
        Some((program, Need::Input)) => (
            format!("{program} reads standard input, which is a terminal and is not passed on"),
            "add -i to pass what you type, until Ctrl-D, or -it to run it in a terminal; a file or a pipe is always passed",
        ),
    };
    Err(Failure::usage(what, hint))
}

/// The program that a command starts, if it needs something that it does not get.
fn program(request: &CommandRequest) -> Option<(&str, Need)> {
    let mut words = match &request.args {
        Some(args) => {
            let args = args.iter().map(String::as_str);
            std::iter::once(request.command.as_str()).chain(args).collect::<Vec<_>>()
        }
        // Text with quotes, operators or expansions is more than one program.
        None if request.command.contains(|c: char| !(c.is_ascii_alphanumeric() || " ./_-+".contains(c))) => {
            return None;
        }
        None => request.command.split_ascii_whitespace().collect(),
    };
    while words.len() > 1 && WRAPPERS.contains(&name(words[0])) {
        words.remove(0);
    }
    let (program, args) = words.split_first()?;
    // python3, python3.13, lua5.4
    let base = name(program).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_one_of = |list: &[&str]| list.contains(&name(program)) || list.contains(&base);
    let needs_terminal = is_one_of(&INTERPRETERS) && args.iter().all(|option| OPTIONS.contains(option))
        || is_one_of(&FULL_SCREEN) && args.iter().all(|option| !option.starts_with('-'))
        || is_one_of(&MULTIPLEXERS) && args.is_empty();
    if needs_terminal {
        return Some((program, Need::Terminal));
    }
    let is_list = |list: &[&str]| list.contains(&name(program));
    // `sort -V` sorts.
    let is_help = args
        .iter()
        .any(|arg| ["--help", "--version"].contains(arg) || *arg == "-V" && name(program) != "sort");
    let has_list = args.iter().any(|arg| arg.starts_with("--files0-from=") || arg.starts_with("--arg-file"))
        || name(program) == "xargs" && args.iter().any(|arg| arg.starts_with("-a"));
    // A number is the value of an option, as in `head -n 5`.
    let is_option = |arg: &&str| arg.starts_with('-') || arg.chars().all(|c| c.is_ascii_digit());
    let needs_input = is_list(&FILTERS) && args.iter().all(is_option)
        || is_list(&READERS)
        || is_list(&SCRIPTED) && matches!(args, [script] if !script.starts_with('-'));
    (needs_input && !is_help && !has_list).then_some((program, Need::Input))
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(command: &str) -> Option<Need> {
        let request = CommandRequest { command: command.into(), ..CommandRequest::default() };
        program(&request).map(|(_, need)| need)
    }

    #[test]
    fn programs_that_read_input_are_recognised() {
        for command in [
            "cat",
            "exec cat",
            "cat -",
            "/bin/cat -n",
            "sort -k 2",
            "sort -V",
            "head -n 5",
            "wc -l",
            "tr a b",
            "tee out",
            "grep x",
            "jq .",
        ] {
            assert_eq!(text(command), Some(Need::Input), "{command}");
        }
        for command in [
            "cat file",
            "sort --version",
            "head -n 5 file",
            "grep x file",
            "grep -r x",
            "cat file; true",
            "cat <file",
            "tail -f log",
            "gzip -V",
            "xargs -a list rm",
        ] {
            assert_eq!(text(command), None, "{command}");
        }
    }

    #[test]
    fn programs_that_read_a_terminal_are_recognised() {
        for command in [
            "bash",
            "/bin/bash",
            "bash -l",
            "python3",
            "python3.13 -q",
            "exec bash",
            "env node",
            "sudo su -",
            "vim",
            "vim a.txt",
            "top",
            "tmux",
        ] {
            assert_eq!(text(command), Some(Need::Terminal), "{command}");
        }
        for command in [
            "bash -c true",
            "python3 script.py",
            "bash --version",
            "bash; true",
            "echo bash",
            "node -e 1",
            "bashful",
            "",
            "vim --version",
            "top -b",
            "tmux ls",
        ] {
            assert_eq!(text(command), None, "{command}");
        }
        let request = |args: &[&str]| CommandRequest {
            command: "bash".into(),
            args: Some(args.iter().map(|arg| (*arg).to_owned()).collect()),
            ..CommandRequest::default()
        };
        assert_eq!(program(&request(&[])), Some(("bash", Need::Terminal)));
        assert_eq!(program(&request(&["-c", "exit 3"])), None);
    }
}
