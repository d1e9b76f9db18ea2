//! How terminals end: by themselves, by signals, deadlines and deletion, and with processes that stay.

use std::time::Duration;

use sandcrab_engine::{CommandSpec, EndReason, Event, StartError, TerminalError, TerminalSpec};

use super::{GRACE, Seen, create, whole_text};
use crate::support::{Place, eventually, id, with_argument};

/// Grace period in tests with processes that ignore SIGHUP.
const SHORT_GRACE: Duration = Duration::from_millis(200);

#[tokio::test]
async fn end_has_the_exit_code_or_signal_of_the_program() {
    let place = Place::new();
    let engine = place.open().await;
    for (line, reason, code) in
        [("exit 7", EndReason::Exited, Some(7)), ("kill -9 $$", EndReason::Signaled, Some(137))]
    {
        let shell = Seen::shell(&engine).await;
        shell.type_line(line).await;
        let end = shell.terminal.execution().wait().await.unwrap();
        assert_eq!((end.reason, end.exit_code), (reason, code), "{line}");
        assert!(whole_text(&shell.terminal).await.contains(line));
    }
}

#[tokio::test]
async fn all_output_of_a_program_that_ends_at_once_is_recorded() {
    let place = Place::new();
    let engine = place.open().await;
    for _ in 0..20 {
        let spec = TerminalSpec::command(CommandSpec::shell("seq 20000; echo the last line"));
        let terminal = create(&engine, spec).await;
        let printed = whole_text(&terminal).await;
        assert!(printed.ends_with("20000\r\nthe last line\r\n"), "{:?}", &printed[printed.len() - 40..]);
    }
}

#[tokio::test]
async fn deadlines_end_an_interactive_shell() {
    let place = Place::new();
    let engine = place.open().await;
    for reason in [EndReason::Timeout, EndReason::IdleTimeout] {
        let mut spec = TerminalSpec::shell();
        let time = Duration::from_millis(300);
        match reason {
            EndReason::Timeout => spec.command.timeout = Some(time),
            _ => spec.command.idle_timeout = Some(time),
        }
        // Without SIGHUP it would take this long.
        spec.command.timeout_grace = Duration::from_secs(60);
        let end = create(&engine, spec).await.execution().wait().await.unwrap();
        assert_eq!((end.reason, end.exit_code), (reason, Some(124)));
        assert!(end.usage.wall < Duration::from_secs(55));
    }
}

/// An interactive shell ignores SIGTERM. It is hung up, but only when the processes that handle SIGTERM have ended.
#[tokio::test]
async fn a_kill_with_sigterm_does_not_wait_for_an_interactive_shell() {
    let place = Place::new();
    let engine = place.open().await;
    // Without SIGHUP it would take this long.
    let grace = Duration::from_secs(60);
    let kill = async |shell: &Seen| {
        let receipt = shell.terminal.execution().kill(libc::SIGTERM, grace).await.unwrap();
        assert!(receipt.survivors.is_empty(), "{receipt:?}");
        let end = shell.terminal.execution().wait().await.unwrap();
        assert_eq!((end.reason, end.signal), (EndReason::Killed, Some(libc::SIGHUP)));
        assert!(end.usage.wall < Duration::from_secs(55), "{:?}", end.usage.wall);
        receipt
    };
    let idle = Seen::shell(&engine).await;
    assert_eq!(kill(&idle).await.killed.len(), 1);

    let mut nested = Seen::shell(&engine).await;
    nested.type_line("PS1='in''ner> ' bash --norc --noprofile -i").await;
    nested.wait_for("inner> ").await;
    assert_eq!(kill(&nested).await.killed.len(), 2);

    let mut busy = Seen::shell(&engine).await;
    let marker = place.file("marker");
    let handler = format!("trap 'sleep 0.5; echo done > {}; exit' TERM", marker.display());
    busy.run(&format!("bash -c \"{handler}; echo re''ady; while :; do sleep 0.01; done\""), "ready").await;
    kill(&busy).await;
    assert_eq!(std::fs::read_to_string(&marker).unwrap(), "done\n");
}

#[tokio::test]
async fn input_is_activity() {
    let place = Place::new();
    let engine = place.open().await;
    let mut spec =
        TerminalSpec::command(CommandSpec::shell("stty -echo; echo ready; while read x; do :; done"));
    spec.command.idle_timeout = Some(Duration::from_secs(2));
    let mut seen = Seen::new(create(&engine, spec).await);
    seen.wait_for("ready").await;
    // Twice as long as the timeout, with pauses that are much shorter.
    for _ in 0..40 {
        seen.type_line("x").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let end = seen.terminal.execution().wait().await.unwrap();
    assert_eq!(end.reason, EndReason::IdleTimeout);
    assert!(end.usage.wall >= Duration::from_secs(5), "{:?}", end.usage.wall);
}

#[tokio::test]
async fn deletion_ends_daemons() {
    let place = Place::new();
    let engine = place.open().await;
    let mut shell = Seen::shell(&engine).await;
    let argument = format!("{}", 40_000_000 + std::process::id());
    shell.run(&format!("setsid nohup sleep {argument} >/dev/null 2>&1 & echo star''ted"), "started").await;
    shell.type_line(&format!("nohup sleep {argument} >/dev/null 2>&1 &")).await;
    eventually("both run", || with_argument(&argument).len() == 2).await;
    // `nohup` ignores SIGHUP.
    let receipt = shell.terminal.delete(SHORT_GRACE).await.unwrap();
    assert!(receipt.survivors.is_empty() && receipt.killed.len() >= 3, "{receipt:?}");
    assert!(with_argument(&argument).is_empty());
    let end = shell.terminal.execution().wait().await.unwrap();
    assert_eq!(end.reason, EndReason::Killed);
    // A second deletion finds nothing.
    assert!(shell.terminal.delete(GRACE).await.unwrap().killed.is_empty());
}

#[tokio::test]
async fn deletion_ends_the_daemons_of_an_ended_terminal() {
    let place = Place::new();
    let engine = place.open().await;
    let argument = format!("{}", 50_000_000 + std::process::id());
    let text = format!("setsid nohup sleep {argument} >/dev/null 2>&1 & sleep 0.1; exit 3");
    let terminal = create(&engine, TerminalSpec::command(CommandSpec::shell(text))).await;
    let end = terminal.execution().wait().await.unwrap();
    assert_eq!((end.exit_code, end.leftover_count), (Some(3), 1));
    let receipt = terminal.delete(SHORT_GRACE).await.unwrap();
    assert_eq!(receipt.killed.len(), 1, "{receipt:?}");
    assert!(with_argument(&argument).is_empty());
}

#[tokio::test]
async fn an_id_is_not_reused_while_daemons_of_its_terminal_run() {
    let place = Place::new();
    let engine = place.open().await;
    let argument = format!("{}", 60_000_000 + std::process::id());
    // The shell waits until the daemon has its own session: before that, the end of the terminal ends it too.
    let daemon = format!("setsid -f bash -c 'echo up; exec sleep {argument}'");
    let text = format!("exec 3< <(exec {daemon}); read -r -u 3 up; wait $!; exit 3");
    let terminal = create(&engine, TerminalSpec::command(CommandSpec::shell(text)).id(id("daemon"))).await;
    assert_eq!(terminal.execution().wait().await.unwrap().leftover_count, 1);
    let again = || engine.create_terminal(TerminalSpec::shell().id(id("daemon")));
    let refused = again().await.unwrap_err();
    assert!(matches!(refused, TerminalError::Start(StartError::HasLeftovers(_))), "{refused}");
    assert_eq!(with_argument(&argument).len(), 1);
    terminal.delete(SHORT_GRACE).await.unwrap();
    assert!(with_argument(&argument).is_empty());
    let again = again().await.unwrap();
    assert!(again.created);
    again.terminal.delete(GRACE).await.unwrap();
}

/// A process outside the tree that holds the slave open: the terminal ends all the same.
#[tokio::test]
async fn a_slave_that_is_held_outside_the_tree_does_not_delay_the_end() {
    let place = Place::new();
    let engine = place.open().await;
    let mut shell = Seen::shell(&engine).await;
    shell.type_line("tty; echo en''d").await;
    let printed = shell.wait_for("end").await;
    let path =
        printed.split_ascii_whitespace().find_map(|word| Some(&word[word.find("/dev/pts/")?..])).unwrap();
    let held = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    shell.type_line("exit 5").await;
    let mut follower = shell.terminal.execution().follow(0).unwrap();
    let mut code = None;
    while let Some(entry) = follower.next_late().await.unwrap() {
        if let Event::Ended(end) = entry.event {
            code = end.exit_code;
        }
    }
    assert_eq!(code, Some(5));
    shell.terminal.execution().wait_closed().await;
    drop(held);
}

#[tokio::test]
async fn a_killed_supervisor_ends_a_terminal_as_lost() {
    let place = Place::new();
    let engine = place.open().await;
    let mut shell = Seen::shell(&engine).await;
    shell.run("echo be''fore", "before").await;
    crate::support::supervisor_of(shell.terminal.execution()).kill();
    let end = shell.terminal.execution().wait().await.unwrap();
    assert_eq!((end.reason, end.exit_code), (EndReason::Lost, None));
    assert!(whole_text(&shell.terminal).await.contains("before"));
    let again = create(&engine, TerminalSpec::shell().id(shell.terminal.id().clone())).await;
    again.delete(GRACE).await.unwrap();
}

/// A shell may ignore a hangup while it starts: it gets another one.
#[tokio::test]
async fn deleting_a_shell_that_starts_does_not_take_the_grace_period() {
    let place = Place::new();
    let engine = place.open().await;
    for _ in 0..40 {
        let terminal = create(&engine, TerminalSpec::shell()).await;
        let receipt = terminal.delete(Duration::from_secs(300)).await.unwrap();
        assert!(receipt.survivors.is_empty());
    }
}

/// The record of an ended terminal can be removed, also while a client reads it.
#[tokio::test]
async fn record_of_an_ended_terminal_is_removed() {
    let place = Place::new();
    let engine = place.open().await;
    for is_read in [false, true] {
        let spec = TerminalSpec::command(CommandSpec::shell("echo done; read x").id(id("gone")));
        let terminal = create(&engine, spec.clone()).await;
        assert!(terminal.forget().is_err(), "it runs");
        terminal.write(b"\r").await.unwrap();
        terminal.execution().wait_closed().await;
        let follower = is_read.then(|| terminal.execution().follow(0).unwrap());
        terminal.forget().unwrap();
        assert!(engine.terminal(&id("gone")).is_none());
        if let Some(mut follower) = follower {
            assert!(follower.try_next().unwrap().is_some());
        }
        // The id is free, and another terminal with it is another one.
        let again = create(&engine, spec).await;
        assert_ne!(again.incarnation(), terminal.incarnation());
        again.delete(GRACE).await.unwrap();
        again.execution().wait_closed().await;
        assert_eq!(engine.remove_finished(), 1, "it counts as finished");
        assert!(engine.terminal(&id("gone")).is_none());
    }
}
