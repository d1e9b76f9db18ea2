//! Completion scripts, installed with the documented line into real shells, and the man pages.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{PROGRAM, Program, TestServer, sandcrab};

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
    complete_at(home.path(), name, script, "unix:/nonexistent", "")
}

/// The same in this home directory and with a server.
fn complete_at(home: &Path, name: &str, script: &str, url: &str, token: &str) -> String {
    Program::start(&mut shell(home, "sh", &["-c", &install_line(name)])).finish().with_code(0);
    let mut command = shell(home, name, &["-i", "-c", script]);
    let finished = Program::start(command.env("SANDCRAB_URL", url).env("SANDCRAB_TOKEN", token)).finish();
    String::from_utf8_lossy(&finished.stdout).into_owned()
}

/// Completes a line with bash.
const BASH_TRY: &str = r#"
    try() {
        COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMPREPLY=() COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
        read -ra COMP_WORDS <<< "${COMP_LINE//:/ : }"
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        "$(complete -p sandcrab | sed 's/.*-F \([^ ]*\) .*/\1/')" sandcrab "${@: -1}" "${@: -2:1}"
        echo "${COMPREPLY[@]}"
    }
"#;

/// Completes a line with Tab, in a zsh on its own terminal, and shows the line.
fn zsh_try(line: &str, shown: &str) -> String {
    format!(
        r#"
        zmodload zsh/zpty
        zpty shell zsh -i
        zpty -w shell "PS1=; echo rea''dy"
        zpty -r shell out '*ready*'
        zpty -n -w shell $'{line}\t'
        zpty -r shell out '*{shown}*'
        print -r -- "$out"
        "#
    )
}

#[test]
fn ids_are_completed() {
    let server = TestServer::new();
    for id in ["web:one", "web:two", "db"] {
        server.run(&["session", "create", id]).with_code(0);
    }
    let url = format!("http://{}", server.address());
    let complete = |name: &str, script: &str| {
        let home = tempfile::tempdir().unwrap();
        complete_at(home.path(), name, script, &url, server.token())
    };
    // Readline replaces only what follows the last colon.
    let script = format!(
        "{BASH_TRY} try sandcrab session delete w; try sandcrab session delete web:o; try sandcrab exec -s d; try sandcrab exec ''"
    );
    let shown = complete("bash", &script);
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines[..3], ["web:one web:two", "one", "db"]);
    assert!(!shown.contains("db web"), "{shown}");
    let shown =
        complete("fish", "complete -C 'sandcrab session delete web:'; complete -C 'sandcrab exec -s d'");
    // A description may follow.
    let ids: Vec<_> = shown.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(ids, ["web:one", "web:two", "db"]);
    let shown = complete("zsh", &zsh_try("sandcrab session delete web:o", "one"));
    assert!(shown.replace("\u{8} ", "").trim().ends_with("sandcrab session delete web:one"), "{shown:?}");
}

/// A server chooses its ids. One that a shell would expand is not completed.
#[test]
fn hostile_ids_are_inert() {
    let server = TestServer::new();
    server.run(&["session", "create", "template"]).with_code(0);
    let list = server.run(&["session", "list", "--json"]).with_code(0).json();
    let home = tempfile::tempdir().unwrap();
    let trace = home.path().join("trace");
    let touch = format!("touch {}", trace.display());
    let ids = [
        "safe".to_owned(),
        format!("s$({touch})"),
        format!("s`{touch}`"),
        format!("s';{touch};'"),
        format!("s\";{touch};\""),
        format!("s\n{touch}\n"),
        format!("s;{touch}"),
        format!("s\\$({touch})"),
        "-s".to_owned(),
        "s*".to_owned(),
    ];
    let mut answer = list.clone();
    answer["sessions"] = ids
        .iter()
        .map(|id| {
            let mut session = list["sessions"][0].clone();
            session["id"] = id.as_str().into();
            session
        })
        .collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let body = answer.to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            drop(stream.read(&mut request));
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}",
                body.len()
            );
            drop(stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()));
        }
    });
    let complete = |name: &str, script: &str| complete_at(home.path(), name, script, &url, "");
    assert_eq!(complete("bash", &format!("{BASH_TRY} try sandcrab session delete s")), "safe\n");
    assert_eq!(complete("fish", "complete -C 'sandcrab session delete s'"), "safe\n");
    let shown = complete("zsh", &zsh_try("sandcrab session delete s", "safe"));
    assert!(shown.replace("\u{8} ", "").trim().ends_with("sandcrab session delete safe"), "{shown:?}");
    assert!(!trace.exists(), "an id was executed");
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
    let shown = complete("zsh", &zsh_try("sandcrab ses\\tint", "interrupt"));
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
