//! Ctrl-C, Ctrl-Z, `fg`, `bg`, `jobs`, `/dev/tty`, password prompts.

use sandcrab_engine::{CommandSpec, TerminalSpec};

use super::{Seen, create, whole_text};
use crate::support::{Place, eventually, eventually_async, with_argument};

const CTRL_C: &[u8] = b"\x03";
const CTRL_Z: &[u8] = b"\x1a";
const CTRL_BACKSLASH: &[u8] = b"\x1c";

/// Whether a program with this argument runs and has the terminal.
pub(super) fn has_terminal(argument: &str) -> bool {
    with_argument(argument).iter().any(|seen| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", seen.pid)).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // Its process group, and the one in the foreground of its terminal.
        seen.name() == "sleep" && fields.len() > 5 && fields[2] == fields[5]
    })
}

#[tokio::test]
async fn ctrl_c_ends_a_program_a_loop_and_a_grandchild() {
    let place = Place::new();
    let engine = place.open().await;
    let mut shell = Seen::shell(&engine).await;
    let time = |n: u32| format!("{}", (100 + n) * 1_000_000 + std::process::id());
    shell.type_line(&format!("sleep {}", time(1))).await;
    eventually("sleep runs", || has_terminal(&time(1))).await;
    shell.press(CTRL_C).await;
    shell.wait_for("[130]> ").await;
    shell.run("echo loo''ping; while :; do :; done", "looping").await;
    shell.press(CTRL_C).await;
    shell.wait_for("[130]> ").await;
    shell.type_line(&format!("bash -c 'bash -c \"sleep {}; :\"; :'", time(2))).await;
    eventually("sleep runs", || has_terminal(&time(2))).await;
    shell.press(CTRL_C).await;
    shell.wait_for("[130]> ").await;
    shell.type_line(&format!("sleep {}", time(3))).await;
    eventually("sleep runs", || has_terminal(&time(3))).await;
    shell.press(CTRL_BACKSLASH).await;
    shell.wait_for("[131]> ").await;
    assert!(shell.terminal.execution().status().end().is_none());
}

#[tokio::test]
async fn jobs_are_stopped_and_continued() {
    let place = Place::new();
    let engine = place.open().await;
    let mut shell = Seen::shell(&engine).await;
    let time = format!("{}", 200_000_000 + std::process::id());
    shell.type_line(&format!("sleep {time}")).await;
    eventually("it is in the foreground", || has_terminal(&time)).await;
    shell.press(CTRL_Z).await;
    shell.wait_for("Stopped").await;
    shell.wait_for("[148]> ").await;
    shell.run("jobs", "Stopped").await;
    shell.run("bg", &format!("sleep {time} &")).await;
    shell.run("jobs", "Running").await;
    shell.type_line("fg").await;
    eventually("it is in the foreground", || has_terminal(&time)).await;
    shell.press(CTRL_C).await;
    shell.wait_for("[130]> ").await;
    shell.run("jobs; echo no''ne", "none").await;
}

#[tokio::test]
async fn a_password_prompt_reads_the_terminal_without_echo() {
    let place = Place::new();
    let engine = place.open().await;
    let script = "import getpass; p = getpass.getpass('Password: '); print('got', p[::-1])";
    let spec = TerminalSpec::command(CommandSpec::argv(["python3", "-c", script]));
    let mut seen = Seen::new(create(&engine, spec).await);
    seen.wait_for("Password: ").await;
    let execution = seen.terminal.execution().clone();
    eventually_async("it waits for input", async || {
        execution.inspect().await.unwrap().waiting_for_input == Some(true)
    })
    .await;
    seen.type_line("secret").await;
    seen.wait_for("got terces").await;
    assert!(!whole_text(&seen.terminal).await.contains("secret"));
}

#[tokio::test]
async fn programs_have_a_controlling_terminal() {
    let place = Place::new();
    let engine = place.open().await;
    let text = "tty; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo yes > /dev/tty; ps -o sess=,pgid=,tpgid= -p $$; echo $TERM; \
                printenv COLUMNS LINES || echo none";
    let terminal =
        create(&engine, TerminalSpec::command(CommandSpec::shell(text).env("TERM", "vt220"))).await;
    let printed = whole_text(&terminal).await;
    let mut lines = printed.lines();
    assert!(lines.next().unwrap().starts_with("/dev/pts/"), "{printed}");
    assert_eq!(lines.next(), Some("yes"), "{printed}");
    let ids: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert!(ids.len() == 3 && ids[0] == ids[1], "{printed}");
    assert_eq!(lines.next(), Some("vt220"), "{printed}");
    assert_eq!(lines.next(), Some("none"), "{printed}");
}

#[tokio::test]
async fn the_default_is_an_interactive_shell_that_reads_the_users_file() {
    let place = Place::new();
    let home = place.file("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join(".bashrc"), "PS1='ready> '; alias hi='echo hel''lo'\n").unwrap();
    let engine = place.open().await;
    let mut spec = TerminalSpec::shell();
    spec.command = spec.command.env("HOME", &home);
    let mut seen = Seen::new(create(&engine, spec).await);
    seen.wait_for("ready> ").await;
    seen.run("hi; shopt -q login_shell || echo no''login; echo $-", "hello").await;
    seen.wait_for("nologin").await;
    let flags = seen.wait_for("ready> ").await;
    assert!(flags.contains('i') && flags.contains('m'), "{flags}");
    assert_eq!(seen.terminal.execution().info().command, "bash -i");
}

/// A program may close its terminal and open it again: that is not the end.
#[tokio::test]
async fn a_terminal_that_no_process_has_open_can_be_opened_again() {
    let place = Place::new();
    let engine = place.open().await;
    let text =
        "exec </dev/null >/dev/null 2>&1; sleep 0.3; exec </dev/tty >/dev/tty; echo again; read x; echo $x";
    let mut seen = Seen::new(create(&engine, TerminalSpec::command(CommandSpec::shell(text))).await);
    seen.wait_for("again").await;
    seen.type_line("done").await;
    assert!(whole_text(&seen.terminal).await.ends_with("done\r\n"));
}
