//! Terminals that start from the state of a session.

use std::path::Path;

use sandcrab_engine::{CommandSpec, Engine, Session, SessionSpec, ShellDriver, TerminalSpec};

use super::{GRACE, Seen, create, whole_text};
use crate::support::Place;

/// A session with a state worth having.
async fn session(engine: &Engine, home: &Path) -> Session {
    std::fs::create_dir_all(home).unwrap();
    std::fs::write(home.join(".bashrc"), "PS1='own> '; from_file() { echo file; }\n").unwrap();
    let spec = SessionSpec::new().id("s".parse().unwrap());
    let session = engine.create_session(spec).await.unwrap();
    let setup = format!(
        "export HOME={} VISIBLE=yes COLUMNS=3 TERM=dumb; hidden='a b'; unset LANG; greet() {{ echo \"hello $1\"; }}; \
         alias again='greet again'; cd /usr/lib; set -e; set -u; readonly FIXED=1; IFS=:",
        home.display()
    );
    session.run(CommandSpec::shell(setup)).await.unwrap();
    session
}

async fn check(driver: ShellDriver) {
    let place = Place::new();
    let engine = place.open_with(|config| config.shell_driver = driver).await;
    let _session = session(&engine, &place.file("home")).await;
    let from = || "s".parse().unwrap();

    let mut seen = Seen::new(create(&engine, TerminalSpec::shell().session(from())).await);
    seen.wait_for("own> ").await;
    seen.run("pwd; printenv VISIBLE; echo \"$hidden\"", "/usr/lib").await;
    seen.wait_for("yes").await;
    seen.wait_for("a b").await;
    seen.run("greet you; again; from_file", "hello you").await;
    seen.wait_for("hello again").await;
    seen.wait_for("file").await;
    // The options are those of an interactive shell.
    seen.run(
        "false; echo \"$- $TERM ${LANG-none} $unset_name\"; shopt -q expand_aliases && ec''ho aliases",
        "im",
    )
    .await;
    seen.wait_for("xterm-256color none").await;
    seen.wait_for("aliases").await;
    seen.run("ls /proc/self/fd | wc -l; echo do''ne", "4").await;
    // What it changes does not change the session.
    seen.run("hidden=changed; cd /; echo o''k", "ok").await;
    let outcome = _session.run(CommandSpec::shell("set +eu; echo $hidden $PWD")).await.unwrap();
    assert_eq!(outcome.stdout(), "a b /usr/lib\n");
    seen.terminal.delete(GRACE).await.unwrap();

    let text = "greet text; pwd; echo $TERM; tty; printenv COLUMNS || echo no columns";
    let spec = TerminalSpec::command(CommandSpec::shell(text).cwd("/tmp").env("TERM", "vt100"));
    let printed = whole_text(&create(&engine, spec.session(from())).await).await;
    assert!(printed.starts_with("hello text\r\n/tmp\r\nvt100\r\n/dev/pts/"), "{printed}");
    assert!(printed.ends_with("no columns\r\n"), "{printed}");

    let spec = TerminalSpec::command(CommandSpec::argv(["printenv", "VISIBLE"]));
    let printed = whole_text(&create(&engine, spec.session(from())).await).await;
    assert_eq!(printed, "yes\r\n");
}

#[tokio::test]
async fn a_terminal_starts_from_the_state_of_a_session() {
    check(ShellDriver::Auto).await;
}

#[tokio::test]
async fn a_terminal_starts_from_the_state_of_a_session_of_the_portable_driver() {
    check(ShellDriver::Portable).await;
}
