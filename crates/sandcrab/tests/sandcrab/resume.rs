//! Lost connections and killed servers: no output is missing or duplicated.

use std::net::SocketAddr;

use sandcrab_api::event::ExecuteEvent;
use sandcrab_api::execute::{CommandRequest, Encoding};
use sandcrab_client::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::TestServer;

/// A command that writes numbered lines for long enough to be interrupted.
const SLOW_LINES: &str = "for i in $(seq 1 400); do echo line $i; echo $i >&2; sleep 0.005; done; exit 5";

/// Maximum number of bytes per connection: more than the longest event, so that there is progress.
const MOST_BYTES: usize = 900_000;

fn lines(prefix: &str) -> String {
    (1..=400).map(|i| format!("{prefix}{i}\n")).collect()
}

#[test]
fn exec_continues_after_a_server_kill() {
    let mut server = TestServer::new();
    let program = server.spawn(&["exec", SLOW_LINES]);
    for mark in ["line 50\n", "line 200\n"] {
        program.wait_for(mark);
        server.kill();
        server.start();
    }
    let finished = program.finish().with_code(5);
    assert_eq!(finished.text(), lines("line "));
    assert_eq!(finished.stderr, lines(""));
}

#[test]
fn session_continues_after_a_server_kill() {
    let mut server = TestServer::new();
    server.run(&["session", "create", "s"]).with_code(0);
    let program = server.spawn(&["exec", "-s", "s", &format!("X=kept; ({SLOW_LINES})")]);
    program.wait_for("line 50\n");
    server.kill();
    server.start();
    assert_eq!(program.finish().with_code(5).text(), lines("line "));
    assert_eq!(server.run(&["exec", "-s", "s", "echo $X"]).with_code(0).text(), "kept\n");
}

#[test]
fn logs_and_wait_continue_after_a_server_kill() {
    let mut server = TestServer::new();
    let program = server.spawn(&["exec", SLOW_LINES]);
    program.wait_for("line 1\n");
    let listed = server.run(&["ps", "--json"]).with_code(0).json();
    let id = listed["processes"][0]["id"].as_str().unwrap().to_owned();
    let logs = server.spawn(&["logs", "-f", &id]);
    let wait = server.spawn(&["wait", &id]);
    logs.wait_for("line 100\n");
    server.kill();
    server.start();
    assert_eq!(logs.finish().with_code(0).text(), lines("line "));
    wait.finish().with_code(5);
    program.finish().with_code(5);
}

/// The command writes more than a journal holds, and the reader is slow. The command waits for it.
#[test]
fn slow_reader_gets_every_byte() {
    use std::io::Read;
    let mut server = TestServer::new();
    let last = 12_000_000_u64;
    let mut command = server.sandcrab(&["exec", "--id", "seq", "--", "seq", "1", &last.to_string()]);
    let mut child =
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    // The journal of 64 MiB is full, so the command waits from now on.
    crate::support::eventually("the journal is full", || {
        let last = server.run(&["logs", "--json", "-n", "1", "seq"]);
        // The command must not have started before.
        (last.code == Some(0) && last.json()["cursor"].as_u64()? >= 60 << 20).then_some(())
    });
    let (mut next, mut line, mut read) = (1_u64, 0_u64, 0_usize);
    let mut buffer = vec![0; 1 << 16];
    let mut kills = [20_000_000, 50_000_000].into_iter().peekable();
    loop {
        let count = stdout.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        for byte in &buffer[..count] {
            if *byte == b'\n' {
                assert_eq!(line, next, "after {read} bytes");
                (next, line) = (next + 1, 0);
            } else {
                line = line * 10 + u64::from(byte - b'0');
            }
        }
        read += count;
        if kills.next_if(|at| read >= *at).is_some() {
            server.kill();
            server.start();
        }
    }
    assert_eq!(next, last + 1);
    assert!(child.wait().unwrap().success());
}

/// Forwards connections, and closes each after some bytes of the response.
pub(crate) async fn cutting_proxy(
    to: SocketAddr,
    mut cut_after: impl FnMut() -> usize + Send + 'static,
) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            let limit = cut_after();
            connections.spawn(pass(client, to, limit));
        }
    });
    (address, tasks)
}

async fn pass(mut client: TcpStream, to: SocketAddr, limit: usize) {
    let mut server = TcpStream::connect(to).await.unwrap();
    let (mut from_client, mut to_client) = client.split();
    let (from_server, mut to_server) = server.split();
    let mut limited = from_server.take(limit as u64);
    let answer = async {
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = limited.read(&mut buffer).await {
            if to_client.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = answer => (),
        _ = async { tokio::io::copy(&mut from_client, &mut to_server).await.ok(); std::future::pending::<()>().await } => (),
    }
}

/// Runs a command through connections that are closed repeatedly. Returns standard output and the number of
/// disconnects.
async fn cut_and_read(server: &TestServer, command: &str, encoding: Encoding) -> (Vec<u8>, usize) {
    let cuts = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&cuts);
    // A different length each time, sometimes within the head of the response.
    let cut_after = move || {
        let n = counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        50 + (n * 279_193) % MOST_BYTES
    };
    let (address, _proxy) = cutting_proxy(server.address(), cut_after).await;
    let client = Client::connect(&format!("http://{address}"), Some(server.token())).unwrap();
    let request =
        CommandRequest { command: command.into(), encoding: Some(encoding), ..CommandRequest::default() };
    let mut events = client.execute_stream(&request).await.unwrap();
    let (mut output, mut starts) = (Vec::new(), 0);
    while let Some(event) = events.next().await.unwrap() {
        match event {
            ExecuteEvent::Start(_) => starts += 1,
            ExecuteEvent::Stdout(event) if encoding == Encoding::Utf8 => {
                output.extend(event.data.into_bytes());
            }
            ExecuteEvent::Stdout(event) => output.extend(client.decode(&event.data).unwrap()),
            ExecuteEvent::Complete(complete) => assert_eq!(complete.exit_code, 3),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(starts, 1);
    (output, cuts.load(std::sync::atomic::Ordering::Relaxed))
}

#[tokio::test]
async fn bytes_are_exact_across_disconnects() {
    let server = TestServer::new();
    let copy = server.file("copy");
    let command = format!("head -c 4000000 /dev/urandom | tee {}; exit 3", copy.display());
    let (output, cuts) = cut_and_read(&server, &command, Encoding::Base64).await;
    assert!(output == std::fs::read(copy).unwrap());
    assert!(cuts > 3, "{cuts}");
}

#[tokio::test]
async fn text_is_exact_across_disconnects() {
    let server = TestServer::new();
    // Characters of two, three and four bytes, split between writes.
    let command = "for i in $(seq 1 200000); do echo -n 'aü€🦀'; done | dd bs=7 status=none; exit 3";
    let (output, cuts) = cut_and_read(&server, command, Encoding::Utf8).await;
    assert!(String::from_utf8(output).unwrap() == "aü€🦀".repeat(200_000));
    assert!(cuts > 3, "{cuts}");
}

/// The response is lost twice: the request is repeated, and the process is started once.
#[tokio::test]
async fn process_is_started_once() {
    let server = TestServer::new();
    let mut connections = 0;
    let cut_after = move || {
        connections += 1;
        if connections < 3 { 10 } else { usize::MAX }
    };
    let (address, _proxy) = cutting_proxy(server.address(), cut_after).await;
    let client = Client::connect(&format!("http://{address}"), Some(server.token())).unwrap();
    let request = CommandRequest { command: "sleep 600".into(), ..CommandRequest::default() };
    let started = client.start_process(&request).await.unwrap();
    let listed = server.run(&["ps", "-q"]).with_code(0);
    assert_eq!(listed.text(), format!("{}\n", started.process_id));
}
