//! One id is one terminal, limits, sessions, adoption.

use std::time::Duration;

use sandcrab_engine::{CommandSpec, EndReason, Limits, SessionSpec, StartError, TerminalError, TerminalSpec};

use super::{GRACE, Seen, create, whole_text};
use crate::support::{Place, eventually, id};

#[tokio::test]
async fn concurrent_creations_with_one_id_yield_one_terminal() {
    let place = Place::new();
    let engine = place.open().await;
    let spec = || TerminalSpec::command(CommandSpec::shell("echo $$; cat")).id(id("shared"));
    for _ in 0..3 {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let (engine, spec) = (engine.clone(), spec());
            tasks.spawn(async move { engine.create_terminal(spec).await.unwrap() });
        }
        let all = tasks.join_all().await;
        assert_eq!(all.iter().filter(|created| created.created).count(), 1);
        let pids: std::collections::HashSet<_> =
            all.iter().map(|created| created.terminal.execution().info().pid.unwrap()).collect();
        assert_eq!(pids.len(), 1);
        assert_eq!(engine.terminals().len(), 1);
        // The id of an ended one is free at once, also while clients read the record.
        let mut reader = Seen::new(all[0].terminal.clone());
        reader.wait_for("\n").await;
        all[0].terminal.delete(GRACE).await.unwrap();
        let again = create(&engine, spec()).await;
        assert!(again.execution().info().replaced.is_some());
        assert!(!whole_text(&reader.terminal).await.is_empty());
        again.delete(GRACE).await.unwrap();
        drop((reader, all));
    }
}

#[tokio::test]
async fn an_id_of_another_execution_is_refused() {
    let place = Place::new();
    let engine = place.open().await;
    let spec = CommandSpec::shell("sleep 1000").id(id("taken"));
    let run = engine.start(spec.clone()).await.unwrap();
    let refused = engine.create_terminal(TerminalSpec::shell().id(id("taken"))).await.unwrap_err();
    assert!(matches!(refused, TerminalError::Start(StartError::AlreadyExists(_))), "{refused}");
    run.kill(9, Duration::ZERO).await.unwrap();
    run.wait_closed().await;
    let terminal = create(&engine, TerminalSpec::shell().id(id("taken"))).await;
    assert!(matches!(engine.start(spec).await, Err(StartError::AlreadyExists(_))));
    terminal.delete(GRACE).await.unwrap();
}

#[tokio::test]
async fn a_program_that_cannot_start_leaves_nothing() {
    let place = Place::new();
    let engine = place.open().await;
    for command in [CommandSpec::argv(["no-such-program"]), CommandSpec::shell("true").cwd("/no/such/place")]
    {
        let refused =
            engine.create_terminal(TerminalSpec::command(command).id(id("none"))).await.unwrap_err();
        let TerminalError::Start(StartError::ProgramNotFound(_) | StartError::BadCwd { .. }) = refused else {
            panic!("{refused}")
        };
    }
    let spec = TerminalSpec { term: "no\nname".into(), ..TerminalSpec::shell() };
    assert!(matches!(engine.create_terminal(spec).await, Err(TerminalError::InvalidTerm(_))));
    let spec = TerminalSpec::shell().session("none".parse().unwrap());
    assert!(matches!(engine.create_terminal(spec).await, Err(TerminalError::SessionNotFound(_))));
    assert!(engine.terminals().is_empty() && engine.executions().is_empty());
}

#[tokio::test]
async fn the_number_of_terminals_is_limited() {
    let place = Place::new();
    let engine = place.open_with(|config| config.max_terminals = 2).await;
    let spec = || TerminalSpec::command(CommandSpec::shell("cat"));
    let first = create(&engine, spec()).await;
    let _second = create(&engine, spec()).await;
    assert!(matches!(engine.create_terminal(spec()).await, Err(TerminalError::TooMany(2))));
    first.delete(GRACE).await.unwrap();
    create(&engine, spec()).await;
}

#[tokio::test]
async fn the_next_engine_continues_a_terminal() {
    let place = Place::new();
    let engine = place.open().await;
    let shell = Seen::shell(&engine).await;
    shell.terminal.resize(sandcrab_engine::TerminalSize::new(100, 30).unwrap()).await.unwrap();
    shell.type_line("x=kept; cd /tmp").await;
    let shell_id = shell.terminal.id().clone();
    drop((shell, engine));
    let engine = place.open().await;
    let terminal = engine.terminal(&shell_id).unwrap();
    assert_eq!((terminal.size().cols, terminal.size().rows), (100, 30));
    let before = terminal.last_activity();
    let mut seen = Seen::new(terminal);
    seen.run("echo $x in $PWD; stty size", "kept in /tmp").await;
    seen.wait_for("30 100").await;
    assert!(seen.terminal.last_activity() >= before);
    let created = engine.create_terminal(TerminalSpec::shell().id(shell_id)).await.unwrap();
    assert!(!created.created);
    seen.terminal.delete(GRACE).await.unwrap();
    eventually("no supervisor is left", || engine.running().is_empty()).await;
}

#[tokio::test]
async fn a_terminal_ends_with_its_session() {
    let place = Place::new();
    let engine = place.open().await;
    let session = engine.create_session(SessionSpec::new().id("s".parse().unwrap())).await.unwrap();
    let spec = TerminalSpec::command(CommandSpec::shell("cat")).session("s".parse().unwrap());
    let terminal = create(&engine, spec).await;
    assert_eq!(terminal.execution().info().session, Some("s".parse().unwrap()));
    session.delete().await.unwrap();
    terminal.execution().wait().await.unwrap();
}

#[tokio::test]
async fn limits_apply_to_a_terminal() {
    let place = Place::new();
    let engine = place.open().await;
    let limits = Limits { open_files: Some(20), ..Limits::default() };
    let spec = TerminalSpec::command(CommandSpec::shell("ulimit -n").limits(limits));
    assert_eq!(whole_text(&create(&engine, spec).await).await, "20\r\n");
    let limits = Limits { output_bytes: Some(100_000), ..Limits::default() };
    let spec = TerminalSpec::command(CommandSpec::shell("yes").limits(limits));
    let terminal = create(&engine, spec).await;
    assert_eq!(terminal.execution().wait().await.unwrap().reason, EndReason::OutputLimit);
    assert_eq!(whole_text(&terminal).await.len(), 100_000);
}
