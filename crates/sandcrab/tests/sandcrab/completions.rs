//! Completion scripts, installed with the documented line into real shells, and the man pages.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{PROGRAM, Program, sandcrab};

/// Returns the documented install line of a shell.
fn install_line(shell: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    let help = Program::start(sandcrab(home.path()).args(["completions", "--help"])).finish().with_code(0);
    let lines = help.text().split("Install:\n").nth(1).unwrap();
    let line = lines.lines().find_map(|line| line.trim_start().strip_prefix(&format!("{shell} ")));
    line.unwrap_or_else(|| panic!("no line for {shell}: {help:?}")).trim().to_owned()
}

/// A shell with this home directory and the program in its path. It is in a session of its own: an interactive shell
/// would use the terminal that the tests run on, and be stopped there.
fn shell(home: &Path, program: &str, args: &[&str]) -> Command {
    let bin = Path::new(PROGRAM).parent().unwrap().display();
    let mut command = Command::new("setsid");
    command.args(["--wait", program]);
    command.env_clear().env("HOME", home).env("TERM", "dumb").env("PATH", format!("{bin}:/usr/bin:/bin"));
    command.args(args).current_dir(home).stdin(Stdio::null());
    command
}

/// Installs the completions of a shell, and has it complete some lines.
fn complete(name: &str, script: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    Program::start(&mut shell(home.path(), "sh", &["-c", &install_line(name)])).finish().with_code(0);
    let finished = Program::start(&mut shell(home.path(), name, &["-i", "-c", script])).finish();
    String::from_utf8_lossy(&finished.stdout).into_owned()
}

#[test]
fn bash_completes() {
    let script = r#"
        try() {
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMPREPLY=()
            "$(complete -p sandcrab | sed 's/.*-F \([^ ]*\) .*/\1/')" sandcrab "${@: -1}" "${@: -2:1}"
            echo "${COMPREPLY[@]}"
        }
        try sandcrab ses; try sandcrab session int; try sandcrab exec --time"#;
    assert_eq!(complete("bash", script), "session\ninterrupt\n--timeout --timeout-grace\n");
}

#[test]
fn fish_completes() {
    let script =
        "complete -C 'sandcrab ses'; complete -C 'sandcrab session int'; complete -C 'sandcrab exec --time'";
    let shown = complete("fish", script);
    let words: Vec<_> = shown.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(words, ["session", "interrupt", "--timeout", "--timeout-grace"]);
}

#[test]
fn zsh_completes() {
    // Run zsh on its own terminal. Tab completes the only candidate, and Enter runs a command that prints the
    // line.
    let script = r#"
        zmodload zsh/zpty
        zpty shell zsh -i
        zpty -w shell "PS1=; echo rea''dy"
        zpty -r shell out '*ready*'
        zpty -n -w shell $'sandcrab ses\tint\t'
        zpty -r shell out '*interrupt*'
        print -r -- "$out"
    "#;
    let shown = complete("zsh", script);
    // The backspaces come from the line editor of zsh.
    assert!(shown.replace("\u{8} ", "").trim().ends_with("sandcrab session interrupt"), "{shown:?}");
}

#[test]
fn scripts_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let home = tempfile::tempdir().unwrap();
        let finished =
            Program::start(sandcrab(home.path()).args(["completions", shell])).finish().with_code(0);
        assert!(finished.text().contains("interrupt"), "{shell}");
    }
}

#[test]
fn man_pages_are_written_and_rendered() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join(".local/share/man/man1");
    let mut command = sandcrab(home.path());
    let written = Program::start(command.args(["man", dir.to_str().unwrap()])).finish().with_code(0);
    for name in ["sandcrab", "sandcrab-exec", "sandcrab-session", "sandcrab-session-create", "sandcrab-man"] {
        let path = dir.join(format!("{name}.1"));
        assert!(written.text().lines().any(|line| line == path.to_str().unwrap()), "{written:?}");
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(&path).env("MANWIDTH", "100").stdin(Stdio::null());
        let page = Program::start(&mut man).finish().with_code(0);
        assert_eq!(page.stderr, "", "{name}");
        // The text is justified.
        let text = page.text().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&format!("SYNOPSIS {}", name.replace('-', " "))), "{name}: {page:?}");
    }
    let refused =
        Program::start(sandcrab(home.path()).args(["man", "/proc/nowhere"])).finish().with_code(125);
    assert!(refused.stderr.contains("/proc/nowhere"), "{refused:?}");
}
