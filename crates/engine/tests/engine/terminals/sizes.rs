//! Sizes: what programs see, and what the record says.

use sandcrab_engine::{
    CommandSpec, ControlError, Event, MAX_TERMINAL_SIDE, TerminalError, TerminalSize, TerminalSpec,
};

use super::{Seen, create};
use crate::support::{Place, eventually};

fn size(cols: u16, rows: u16) -> TerminalSize {
    TerminalSize::new(cols, rows).unwrap()
}

#[tokio::test]
async fn the_size_is_exact_after_a_thousand_resizes() {
    let place = Place::new();
    let engine = place.open().await;
    let mut shell = Seen::shell(&engine).await;
    shell.run("stty si''ze", "24 80").await;
    shell.run("trap 'changed=1' WINCH; echo se''t", "set").await;
    let mut watched = shell.terminal.sizes();
    for n in 0..1000_u16 {
        shell.terminal.resize(size(1 + n, 1000 - n)).await.unwrap();
    }
    assert_eq!(shell.terminal.size(), size(1000, 1));
    assert_eq!(*watched.borrow_and_update(), size(1000, 1));
    shell.terminal.resize(size(123, 45)).await.unwrap();
    shell.run("stty size; echo $changed$changed", "45 123").await;
    shell.wait_for("11").await;
    // All of them are in the record, in order, the first before all output.
    let mut follower = shell.terminal.execution().follow(0).unwrap();
    let mut sizes = Vec::new();
    while let Some(entry) = follower.try_next().unwrap() {
        match entry.event {
            Event::Size { size, number } => {
                assert_eq!(number, sizes.len() as u64);
                sizes.push(size);
            }
            Event::Output { .. } => assert!(!sizes.is_empty()),
            _ => {}
        }
    }
    assert_eq!(sizes.len(), 1002);
    assert_eq!((sizes[0], sizes[1], sizes[1001]), (size(80, 24), size(1, 1000), size(123, 45)));
}

#[tokio::test]
async fn concurrent_resizes_leave_one_size() {
    let place = Place::new();
    let engine = place.open().await;
    let mut shell = Seen::shell(&engine).await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 1..=50 {
        let terminal = shell.terminal.clone();
        tasks.spawn(async move { terminal.resize(size(n, n)).await.unwrap() });
    }
    tasks.join_all().await;
    let last = shell.terminal.size();
    shell.run("stty size; echo en''d", &format!("{} {}", last.rows, last.cols)).await;
}

#[tokio::test]
async fn sizes_out_of_range_are_refused() {
    let place = Place::new();
    let engine = place.open().await;
    for (cols, rows) in [(0, 24), (80, 0), (MAX_TERMINAL_SIDE + 1, 24), (80, u16::MAX)] {
        assert_eq!(TerminalSize::new(cols, rows), None);
        let spec = TerminalSpec::shell().size(TerminalSize { cols, rows });
        let refused = engine.create_terminal(spec).await.unwrap_err();
        assert!(matches!(refused, TerminalError::InvalidSize { .. }), "{refused}");
    }
    let terminal = create(&engine, TerminalSpec::command(CommandSpec::shell("cat"))).await;
    assert!(terminal.resize(TerminalSize { cols: 0, rows: 1 }).await.is_err());
    assert_eq!(terminal.size(), TerminalSize::default());
    assert!(engine.terminals().len() == 1);
}

#[tokio::test]
async fn an_ended_terminal_keeps_its_size_also_for_the_next_engine() {
    let place = Place::new();
    let engine = place.open().await;
    let shell = Seen::shell(&engine).await;
    shell.terminal.resize(size(99, 33)).await.unwrap();
    shell.type_line("exit 7").await;
    shell.terminal.execution().wait().await.unwrap();
    eventually("it is closed", || engine.terminals()[0].execution().info().ended_at.is_some()).await;
    assert!(matches!(shell.terminal.resize(size(1, 1)).await, Err(ControlError::Ended)));
    let id = shell.terminal.id().clone();
    drop((shell, engine));
    let engine = place.open().await;
    let terminal = engine.terminal(&id).unwrap();
    assert_eq!(terminal.size(), size(99, 33));
    assert_eq!(terminal.execution().status().end().unwrap().exit_code, Some(7));
    assert_eq!(terminal.term(), "xterm-256color");
}
