//! Programs that need a terminal.
//!
//! Without a terminal, and with an empty standard input, a shell or an interpreter exits at once and prints nothing, and an
//! editor waits forever. This module recognises them, so that the user gets an explanation instead.

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

/// Options with which an interpreter still reads standard input.
const OPTIONS: [&str; 9] = ["-", "-i", "-l", "-il", "-li", "-q", "--login", "--norc", "--noprofile"];

/// Programs that execute the rest of their words.
const WRAPPERS: [&str; 4] = ["exec", "env", "sudo", "command"];

/// The interactive program that a command starts, if it starts one.
pub(crate) fn program(request: &CommandRequest) -> Option<&str> {
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
    let (program, options) = words.split_first()?;
    // python3, python3.13, lua5.4
    let base = name(program).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_one_of = |list: &[&str]| list.contains(&name(program)) || list.contains(&base);
    let needs_terminal = is_one_of(&INTERPRETERS) && options.iter().all(|option| OPTIONS.contains(option))
        || is_one_of(&FULL_SCREEN) && options.iter().all(|option| !option.starts_with('-'))
        || is_one_of(&MULTIPLEXERS) && options.is_empty();
    needs_terminal.then_some(program)
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The error for a program that needs a terminal.
pub(crate) fn needs_terminal(program: &str) -> Failure {
    Failure::usage(
        format!("{program} needs a terminal"),
        "add -it, or use `sandcrab shell`; -i alone passes standard input line by line",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(command: &str) -> Option<String> {
        let request = CommandRequest { command: command.into(), ..CommandRequest::default() };
        program(&request).map(str::to_owned)
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
            assert!(text(command).is_some(), "{command}");
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
        assert_eq!(program(&request(&[])), Some("bash"));
        assert_eq!(program(&request(&["-c", "exit 3"])), None);
    }
}
