//! Standard input: whether a command waits for it, and writing to it.

use std::time::Duration;

use sandcrab_engine::{CommandSpec, ControlError, Execution, Stdin};

use crate::support::{BOTH, Kind, Scene, TEST_TIMEOUT, eventually};

/// Waits until an execution waits for input.
async fn waits(execution: &Execution) {
    let waits = async {
        while execution.inspect().await.unwrap().waiting_for_input != Some(true) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(TEST_TIMEOUT, waits).await;
    assert!(waited.is_ok(), "it never waited for input: {:?}", execution.info().command);
}

async fn reads_a_line(text: &str) {
    let scene = Scene::open().await;
    for kind in BOTH {
        let running = scene.start(kind, CommandSpec::shell(text).stdin(Stdin::Open)).await;
        waits(&running.execution).await;
        running.execution.write_stdin("a line\n").await.unwrap();
        eventually("it goes on", || {
            running.execution.output(100).unwrap().stdout.bytes.ends_with(b"a line\n")
        })
        .await;
        running.execution.close_stdin().await.ok();
        assert_eq!(running.execution.wait().await.unwrap().exit_code, Some(0), "{kind:?}");
        running.close().await;
    }
}

#[tokio::test]
async fn the_shells_read_waits_for_input() {
    reads_a_line("read -r x; echo \"$x\"").await;
}

#[tokio::test]
async fn cat_waits_for_input() {
    reads_a_line("cat").await;
}

#[tokio::test]
async fn pythons_input_waits_for_input() {
    reads_a_line("/usr/bin/python3 -c 'print(input())'").await;
}

#[tokio::test]
async fn a_pipeline_waits_for_input() {
    reads_a_line("echo begin; cat | (cat; :)").await;
}

#[tokio::test]
async fn several_prompts_in_a_row() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let text = "for i in 1 2 3; do read -r x; echo \"$i $x\"; done";
        let running = scene.start(kind, CommandSpec::shell(text).stdin(Stdin::Open)).await;
        for word in ["a\n", "b\n", "c\n"] {
            waits(&running.execution).await;
            running.execution.write_stdin(word).await.unwrap();
        }
        assert_eq!(running.execution.wait().await.unwrap().exit_code, Some(0));
        assert_eq!(running.execution.output(100).unwrap().stdout.bytes, b"1 a\n2 b\n3 c\n");
        running.close().await;
    }
}

#[tokio::test]
async fn other_commands_do_not_wait_for_input() {
    let scene = Scene::open().await;
    for kind in BOTH {
        for (text, stdin) in [
            ("sleep 60", Stdin::Open),
            ("while :; do :; done", Stdin::Open),
            ("sleep 60 | cat", Stdin::Open),
            ("sleep 60", Stdin::Null),
        ] {
            let running = scene.start(kind, CommandSpec::shell(text).stdin(stdin)).await;
            for _ in 0..15 {
                let seen = running.execution.inspect().await.unwrap();
                assert_eq!(seen.waiting_for_input, Some(false), "{kind:?} {text}");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            running.close().await;
        }
    }
}

fn pattern(length: u32) -> Vec<u8> {
    (0..length).map(|n| (n.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect()
}

#[tokio::test]
async fn large_input_reaches_a_slow_reader() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let running = scene.start(kind, CommandSpec::shell("sleep 0.2; cat").stdin(Stdin::Open)).await;
        let bytes = pattern(10 << 20);
        running.execution.write_stdin(bytes.clone()).await.unwrap();
        running.execution.close_stdin().await.unwrap();
        assert_eq!(running.execution.wait().await.unwrap().exit_code, Some(0));
        let output = running.execution.output(20 << 20).unwrap().stdout.bytes;
        assert!(output == bytes, "{kind:?}: {} bytes came back", output.len());
        running.answers().await;
    }
}

#[tokio::test]
async fn given_input_is_followed_by_its_end() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let bytes = pattern(3 << 20);
        let spec = CommandSpec::shell("cat").stdin(Stdin::Bytes(bytes.clone()));
        let running = scene.start(kind, spec).await;
        assert_eq!(running.execution.wait().await.unwrap().exit_code, Some(0));
        assert!(running.execution.output(20 << 20).unwrap().stdout.bytes == bytes);
        let refused = running.execution.write_stdin("more").await;
        assert!(matches!(refused, Err(ControlError::Ended)), "{refused:?}");
        running.answers().await;
    }
}

#[tokio::test]
async fn writing_after_the_end_is_refused() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let running = scene.start(kind, CommandSpec::shell("true").stdin(Stdin::Open)).await;
        running.execution.wait().await.unwrap();
        let refused = running.execution.write_stdin("late").await;
        assert!(matches!(refused, Err(ControlError::Ended)), "{refused:?}");
        running.answers().await;
    }
}

#[tokio::test]
async fn writing_to_closed_input_is_refused() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let running = scene.start(kind, CommandSpec::shell("sleep 60")).await;
        let refused = running.execution.write_stdin("x").await;
        assert!(matches!(refused, Err(ControlError::StdinNotOpen)), "{refused:?}");
        running.close().await;
        let running = scene.start(kind, CommandSpec::shell("sleep 60").stdin(Stdin::Open)).await;
        running.execution.close_stdin().await.unwrap();
        let refused = running.execution.write_stdin("x").await;
        assert!(matches!(refused, Err(ControlError::StdinNotOpen)), "{refused:?}");
        running.close().await;
    }
}

#[tokio::test]
async fn writing_to_a_reader_that_is_gone_is_refused() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let spec = CommandSpec::shell("exec 0<&-; echo up; sleep 60").stdin(Stdin::Open);
        let running = scene.start(kind, spec).await;
        eventually("it is up", || running.execution.output(10).unwrap().cursor > 0).await;
        let refused = running.execution.write_stdin("x").await;
        assert!(matches!(refused, Err(ControlError::StdinNotOpen)), "{kind:?} {refused:?}");
        running.close().await;
    }
}

#[tokio::test]
async fn pending_write_ends_with_the_command() {
    let scene = Scene::open().await;
    for kind in BOTH {
        let running = scene.start(kind, CommandSpec::shell("sleep 60").stdin(Stdin::Open)).await;
        let execution = running.execution.clone();
        let write = tokio::spawn(async move { execution.write_stdin(vec![b'x'; 4 << 20]).await });
        while running.execution.inspect().await.unwrap().pids.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        running.execution.kill(libc::SIGKILL, Duration::ZERO).await.unwrap();
        let refused = tokio::time::timeout(TEST_TIMEOUT, write).await.expect("the write never ends").unwrap();
        assert!(matches!(refused, Err(ControlError::Ended | ControlError::StdinNotOpen)), "{refused:?}");
        running.answers().await;
    }
}

#[tokio::test]
async fn writes_from_many_tasks_do_not_mix() {
    let scene = Scene::open().await;
    let spec = CommandSpec::shell("tr -s abcd").stdin(Stdin::Open);
    let running = scene.start(Kind::Run, spec).await;
    let mut tasks = Vec::new();
    for byte in *b"abcd" {
        let execution = running.execution.clone();
        // More than goes to the supervisor at once.
        tasks.push(tokio::spawn(async move { execution.write_stdin(vec![byte; (3 << 20) + 17]).await }));
    }
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    running.execution.close_stdin().await.unwrap();
    running.execution.wait().await.unwrap();
    assert_eq!(running.execution.output(100).unwrap().stdout.bytes.len(), 4);
}

#[tokio::test]
async fn input_of_a_queued_command_reaches_it() {
    let scene = Scene::open().await;
    let session = scene.session().await;
    let first = session.start(CommandSpec::shell("read x").stdin(Stdin::Open)).await.unwrap();
    let second = session.start(CommandSpec::shell("cat").stdin(Stdin::Open)).await.unwrap();
    let third = session.start(CommandSpec::shell("cat").stdin(Stdin::Open)).await.unwrap();
    let written = async {
        second.write_stdin("early ").await.unwrap();
        second.write_stdin("bird").await.unwrap();
        second.close_stdin().await.unwrap();
    };
    let lost = third.write_stdin("never read");
    let begin = async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        third.kill(9, std::time::Duration::ZERO).await.unwrap();
        first.write_stdin("go\n").await.unwrap();
    };
    let ((), lost, ()) = tokio::join!(written, lost, begin);
    assert!(lost.is_err());
    second.wait().await.unwrap();
    assert_eq!(second.output(100).unwrap().stdout.bytes, b"early bird");
    session.delete().await.unwrap();
}
