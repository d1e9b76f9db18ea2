//! `docs/cli.md` is the stored copy of every help page.
//!
//! To update it: `SANDCRAB_UPDATE_DOCS=1 cargo nextest run -p sandcrab help::`.

use std::fmt::Write;
use std::path::PathBuf;

use crate::support::Program;

/// Every subcommand that the program itself lists, and theirs.
fn pages() -> Vec<(String, String)> {
    let mut pages = Vec::new();
    collect(&[], &mut pages);
    pages
}

fn collect(path: &[&str], pages: &mut Vec<(String, String)>) {
    let text = help(path);
    let name = [&["sandcrab"], path].concat().join(" ");
    let listed =
        text.split("\nCommands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
    // Wrapped lines are indented further.
    let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<String> =
        names.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect();
    pages.push((name, text));
    for name in names.iter().filter(|name| *name != "help") {
        collect(&[path, &[name]].concat(), pages);
    }
}

fn help(path: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut command = crate::support::sandcrab(home.path());
    // The help shows what variables are set to.
    command.env_remove("SANDCRAB_STATE_DIR");
    let finished = Program::start(command.args(path).arg("--help")).finish().with_code(0);
    finished.text().to_owned()
}

#[test]
fn every_command_is_there() {
    let names: Vec<_> = pages().into_iter().map(|(name, _)| name).collect();
    for command in ["run", "exec", "ps", "logs", "kill", "wait", "health", "completions"] {
        assert!(names.contains(&format!("sandcrab {command}")), "{names:?}");
    }
    for command in ["create", "list", "exec", "interrupt", "fork", "reset", "delete"] {
        assert!(names.contains(&format!("sandcrab session {command}")), "{names:?}");
    }
}

#[test]
fn the_document_is_made_of_it() {
    let mut document = String::from(
        "# The command line\n\n<!-- Made of the program's own help; crates/sandcrab/tests/sandcrab/help.rs says how. -->\n",
    );
    for (name, text) in pages() {
        write!(document, "\n## `{name}`\n\n```text\n{}\n```\n", text.trim_end()).unwrap();
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("SANDCRAB_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == document, "docs/cli.md is not what the help says; {}", module_path!());
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let home = tempfile::tempdir().unwrap();
        let mut command = crate::support::sandcrab(home.path());
        let finished = Program::start(command.args(["completions", shell])).finish().with_code(0);
        assert!(finished.text().contains("interrupt"), "{shell}");
    }
}
