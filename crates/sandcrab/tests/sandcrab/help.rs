//! `docs/cli.md` is the stored copy of every help page.
//!
//! To update it: `SANDCRAB_UPDATE_DOCS=1 cargo nextest run -p sandcrab help::`.

use std::fmt::Write;
use std::path::PathBuf;

use crate::support::Program;

/// All subcommands that the program lists, recursively.
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
    // The help shows the values of variables.
    command.env_remove("SANDCRAB_STATE_DIR");
    let finished = Program::start(command.args(path).arg("--help")).finish().with_code(0);
    finished.text().to_owned()
}

/// The command for each operation of the API.
const COMMANDS: &[(&str, &str)] = &[
    ("setEnv", "env"),
    ("events", "events"),
    ("execute", "exec"),
    ("executeStream", "exec"),
    ("health", "health"),
    ("ping", "health"),
    ("version", "health"),
    ("cleanupProcesses", "cleanup"),
    ("killAllProcesses", "kill"),
    ("listProcesses", "ps"),
    ("startProcess", "start"),
    ("killProcess", "kill"),
    ("getProcess", "inspect"),
    ("getProcessLogs", "logs"),
    ("getProcessOutput", "logs"),
    ("signalProcess", "signal"),
    ("writeStdin", "stdin"),
    ("streamProcess", "logs"),
    ("waitForProcess", "wait"),
    ("createSession", "session create"),
    ("deleteSession", "session delete"),
    ("listSessions", "session list"),
    ("getSession", "session list"),
    ("setSessionEnv", "env"),
    ("forkSession", "session fork"),
    ("interruptSession", "session interrupt"),
    ("resetSession", "session reset"),
    ("startService", "service start"),
    ("listServices", "service list"),
    ("getService", "service status"),
    ("getServiceHealth", "service health"),
    ("getServiceLogs", "service logs"),
    ("streamService", "service logs"),
    ("stopService", "service stop"),
    ("restartService", "service restart"),
    ("deleteService", "service delete"),
    ("createTerminal", "terminal create"),
    ("listTerminals", "terminal list"),
    ("getTerminal", "terminal list"),
    ("deleteTerminal", "terminal delete"),
    ("sendTerminalInput", "terminal send"),
    ("resizeTerminal", "terminal resize"),
    ("getTerminalScreen", "terminal screen"),
    ("waitForTerminal", "terminal wait"),
    ("getTerminalRecording", "record"),
    ("getProcessRecording", "record"),
    ("getFile", "cat"),
    ("putFile", "write"),
    ("readFile", "cat"),
    ("streamFile", "cat"),
    ("listFiles", "ls"),
    ("statFile", "stat"),
    ("fileExists", "stat"),
    ("writeFile", "write"),
    ("deleteFile", "rm"),
    ("renameFile", "mv"),
    ("moveFile", "mv"),
    ("copyFile", "cp"),
    ("createDirectory", "mkdir"),
    ("changeMode", "chmod"),
    ("getFolder", "cp"),
    ("putFolder", "cp"),
    ("createBackup", "backup create"),
    ("restoreBackup", "backup restore"),
    ("listBackups", "backup list"),
    ("deleteBackup", "backup delete"),
    ("gitCheckout", "git clone"),
    ("gitStatus", "git status"),
    ("gitDiff", "git diff"),
    ("gitLog", "git log"),
    ("gitBranches", "git branches"),
    ("gitAdd", "git add"),
    ("gitCommit", "git commit"),
    ("gitPull", "git pull"),
    ("gitPush", "git push"),
    ("listPorts", "ports"),
    ("watchPort", "ports wait"),
    ("exposePort", "expose"),
    ("unexposePort", "expose remove"),
    ("listExposedPorts", "expose list"),
    ("search", "grep"),
    ("replace", "replace"),
    ("find", "find"),
    ("watch", "watch"),
];

/// Operations for programs, which have no command.
const WITHOUT_COMMAND: &[&str] = &["checkWatch", "uploadBackupParts"];

/// A new operation fails this test until it has a command.
#[test]
fn every_operation_of_the_api_has_a_command() {
    let document = include_str!("../../../../openapi.json");
    let document: serde_json::Value = serde_json::from_str(document).unwrap();
    // The remaining operations are for programs: `/ws`, `/metrics`, `/openapi.json`.
    let paths = document["paths"].as_object().unwrap().iter().filter(|(path, _)| path.starts_with("/api/"));
    let operations = paths.flat_map(|(_, path)| path.as_object().unwrap().values());
    let operations: Vec<_> = operations.filter_map(|operation| operation["operationId"].as_str()).collect();
    let pages = pages();
    for operation in operations.iter().filter(|operation| !WITHOUT_COMMAND.contains(operation)) {
        let command = COMMANDS.iter().find(|(id, _)| id == operation);
        let (_, command) = command.unwrap_or_else(|| panic!("{operation} has no command"));
        let page = format!("sandcrab {command}");
        assert!(pages.iter().any(|(name, _)| *name == page), "{operation}: {page}");
    }
    for operation in COMMANDS.iter().map(|(operation, _)| operation).chain(WITHOUT_COMMAND) {
        assert!(operations.contains(operation), "{operation} is not an operation of the API");
    }
}

/// Two commands with the same summary cannot be told apart in the list of their parent.
#[test]
fn every_summary_is_unique() {
    let mut seen = std::collections::HashMap::new();
    for (name, text) in pages() {
        let summary = text.split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(other) = seen.insert(summary.clone(), name.clone()) {
            panic!("{other} and {name} have the same summary: {summary}");
        }
    }
}

#[test]
fn document_matches_the_help() {
    let mut document = String::from(
        "# Command line reference\n\n<!-- Generated from `--help`; see crates/sandcrab/tests/sandcrab/help.rs. -->\n",
    );
    for (name, text) in pages() {
        write!(document, "\n## `{name}`\n\n```text\n{}\n```\n", text.trim_end()).unwrap();
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("SANDCRAB_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == document,
        "docs/cli.md differs from the help; {} has the line that updates it",
        module_path!()
    );
}
