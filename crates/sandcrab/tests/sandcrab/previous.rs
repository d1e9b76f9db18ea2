//! An upgrade: this program takes over what the previous version's program has started, and reads its journals.

use std::process::Command as Program;
use std::time::Duration;

use sandcrab_client::api::event::ExecuteEvent;
use sandcrab_client::api::process::ProcessStatus;
use sandcrab_client::{Command, OutputStream, Process, Sandbox};

use crate::history::previous_program;
use crate::support::{Serve, TestDir};

const LIMIT: Option<Duration> = Some(Duration::from_secs(60));

async fn bytes(process: &Process) -> Vec<u8> {
    let mut output = process.output(OutputStream::Stdout, 0).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = output.chunk().await.unwrap() {
        bytes.extend(chunk);
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn the_previous_program_is_replaced_without_losing_work() {
    let program = previous_program("sandcrab", "sandcrab");
    let place = TestDir::new();
    let mut command = Program::new(program);
    place.prepare(&mut command);
    let old = Serve::start(&place, command.arg("serve"));
    let address = old.address.clone();
    let token = std::fs::read_to_string(place.state().join("token")).unwrap();
    let sandbox = Sandbox::connect(&address, Some(token.trim())).unwrap();

    let numbers: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
    let finished = Command::new("seq 1 20000; echo end >&2; exit 3").id("finished");
    assert_eq!(sandbox.exec(finished).await.unwrap().stdout, numbers);
    let session = sandbox.create_session("kept").await.unwrap();
    session.exec("x=kept; cd /tmp; greet() { echo hello from $PWD; }").await.unwrap();
    let reader = sandbox.start_process(Command::new("echo before; cat").keep_stdin_open()).await.unwrap();
    let tree = sandbox.start_process("sleep 1000 & echo both; sleep 1000").await.unwrap();
    tree.wait_for_log("both", LIMIT).await.unwrap();
    let timed = Command::new("sleep 1000").timeout(Duration::from_secs(2));
    let timed = sandbox.start_process(timed).await.unwrap();
    let go = place.file("go");
    let script = "echo first; until [ -e go ]; do sleep 0.05; done; seq 1 20000; exit 7";
    let mut stream = sandbox.exec_stream(script).await.unwrap();
    let mut output = String::new();
    while output.is_empty() {
        if let Some(ExecuteEvent::Stdout(event)) = stream.next().await.unwrap() {
            output.push_str(&event.data);
        }
    }

    old.stop();
    let new = place.serve(&["--listen", address.strip_prefix("http://").unwrap()]);
    std::fs::write(go, "").unwrap();

    // The stream that the old server began goes on, with every byte once.
    let mut exit_code = None;
    while let Some(event) = stream.next().await.unwrap() {
        match event {
            ExecuteEvent::Stdout(event) => output.push_str(&event.data),
            ExecuteEvent::Complete(complete) => exit_code = Some(complete.exit_code),
            ExecuteEvent::Start(_) => panic!("it began again"),
            _ => (),
        }
    }
    assert_eq!((output, exit_code), (format!("first\n{numbers}"), Some(7)));

    reader.write("after\n").await.unwrap();
    reader.close_stdin().await.unwrap();
    assert_eq!(reader.wait_for_exit(LIMIT).await.unwrap().exit_code, Some(0));
    assert_eq!(bytes(&reader).await, b"before\nafter\n");
    let killed = tree.kill().await.unwrap();
    assert!(killed.killed.len() >= 2 && killed.survivors.is_empty(), "{killed:?}");
    let ended = timed.wait_for_exit(LIMIT).await.unwrap();
    assert_eq!((ended.status, ended.exit_code), (ProcessStatus::Killed, Some(124)));
    assert_eq!(session.exec("echo $x; greet").await.unwrap().stdout, "kept\nhello from /tmp\n");
    // A journal that the old version has completed.
    let finished = sandbox.process("finished").await.unwrap().unwrap();
    assert_eq!(finished.initial_info().exit_code, Some(3));
    assert_eq!(bytes(&finished).await, numbers.as_bytes());
    assert_eq!(finished.logs().await.unwrap().stderr, "end\n");
    // What is started now has this version's supervisors.
    assert_eq!(sandbox.exec("echo new").await.unwrap().stdout, "new\n");
    session.delete().await.unwrap();
    new.stop();
}
