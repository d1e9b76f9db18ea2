//! Streams of the SDK across cut connections and killed servers: every byte once and in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sandcrab_client::api::event::ExecuteEvent;
use sandcrab_client::api::execute::{Encoding, Overflow};
use sandcrab_client::api::watch::{ResyncReason, WatchEvent, WatchRequest};
use sandcrab_client::{Command, Sandbox};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::sandbox;
use crate::support::TestServer;

/// Connections that are cut.
const CUTS: usize = 200;
/// Events that each connection passes on: the first one, and one with output, so that there is progress.
const EVENTS: usize = 2;

/// Forwards connections, and closes each within the event after [`EVENTS`]; some within the head of the response.
async fn proxy(
    to: SocketAddr,
    mut count: impl FnMut() -> usize + Send + 'static,
) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            connections.spawn(pass(client, to, count()));
        }
    });
    (address, tasks)
}

async fn pass(mut client: TcpStream, to: SocketAddr, number: usize) {
    let mut server = TcpStream::connect(to).await.unwrap();
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let answer = async {
        let mut buffer = [0; 1024];
        let mut events = if number % 10 == 9 { EVENTS } else { 0 };
        let (mut left, mut last) = (20 + number * 7 % 100, 0);
        while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
            let end = buffer[..length].iter().position(|byte| {
                if events >= EVENTS {
                    left -= 1;
                } else if (last, *byte) == (b'\n', b'\n') {
                    events += 1;
                }
                last = *byte;
                left == 0
            });
            let passed = &buffer[..end.unwrap_or(length)];
            if to_client.write_all(passed).await.is_err() || end.is_some() {
                return;
            }
        }
    };
    tokio::select! {
        () = answer => (),
        _ = async { tokio::io::copy(&mut from_client, &mut to_server).await.ok(); std::future::pending::<()>().await } => (),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_arrives_once_across_200_cuts() {
    let server = TestServer::new();
    let (copy, go_on) = (server.file("copy"), server.file("go-on"));
    let cuts = Arc::new(AtomicUsize::new(0));
    let (counter, enough) = (Arc::clone(&cuts), go_on.clone());
    let count = move || {
        let number = counter.fetch_add(1, Ordering::Relaxed);
        if number == CUTS {
            std::fs::write(&enough, "").unwrap();
        }
        number
    };
    let (address, _proxy) = proxy(server.address(), count).await;
    let sandbox = Sandbox::connect(&format!("http://{address}"), Some(server.token())).unwrap();
    // Writes until enough connections were cut. It waits for its reader, so that nothing is dropped.
    let text = format!(
        "until [ -e {} ]; do head -c 300 /dev/urandom; sleep 0.002; done | tee {}; exit 3",
        go_on.display(),
        copy.display()
    );
    let command = Command::new(text).encoding(Encoding::Base64).overflow(Overflow::Wait);
    let mut events = sandbox.exec_stream(command).await.unwrap();
    let (mut output, mut starts, mut exit_code) = (Vec::new(), 0, None);
    while let Some(event) = events.next().await.unwrap() {
        match event {
            ExecuteEvent::Start(_) => starts += 1,
            ExecuteEvent::Stdout(event) => output.extend(sandbox.client().decode(&event.data).unwrap()),
            ExecuteEvent::Complete(complete) => exit_code = Some(complete.exit_code),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((starts, exit_code), (1, Some(3)));
    assert!(cuts.load(Ordering::Relaxed) > CUTS);
    assert!(output == std::fs::read(copy).unwrap(), "the output differs");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_arrives_once_across_killed_servers() {
    let mut server = TestServer::new();
    let sandbox = sandbox(&server);
    let command = "for i in {1..400}; do echo \"line $i ü\"; sleep 0.005; done; exit 5";
    let mut events = sandbox.exec_stream(command).await.unwrap();
    let process = sandbox.process(events.id()).await.unwrap().unwrap();
    let (mut output, mut exit_code) = (String::new(), None);
    let mut kills = ["line 50 ü\n", "line 200 ü\n"].into_iter().peekable();
    while let Some(event) = events.next().await.unwrap() {
        match event {
            ExecuteEvent::Stdout(event) => output.push_str(&event.data),
            ExecuteEvent::Complete(complete) => exit_code = Some(complete.exit_code),
            _ => (),
        }
        if kills.next_if(|mark| output.contains(mark)).is_some() {
            server.kill();
            server.start();
        }
    }
    let expected: String = (1..=400).map(|number| format!("line {number} ü\n")).collect();
    assert_eq!((output.as_str(), exit_code), (expected.as_str(), Some(5)));
    assert_eq!(kills.next(), None);
    // Everything else that the program holds works with the new server, too.
    assert_eq!(process.logs().await.unwrap().stdout, expected);
    assert_eq!(process.wait_for_exit(None).await.unwrap().exit_code, Some(5));
}

/// A server that stops ends the watch with an error that resumes it. Then `watching` and `resync` say that changes may be missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_continues_after_a_restart() {
    let mut server = TestServer::new();
    let sandbox = sandbox(&server);
    let path = server.file("watched");
    std::fs::create_dir(&path).unwrap();
    let mut changes = sandbox.watch(WatchRequest::from(path.to_str().unwrap())).await.unwrap();
    assert!(matches!(changes.next().await.unwrap(), Some(WatchEvent::Watching(_))));
    let restarted = tokio::task::spawn_blocking(move || {
        server.restart();
        server
    });
    let again = changes.next().await.unwrap();
    assert!(matches!(again, Some(WatchEvent::Watching(_))), "{again:?}");
    let gap = changes.next().await.unwrap();
    let is_gap = matches!(&gap, Some(WatchEvent::Resync(event)) if event.reason == ResyncReason::Reconnected);
    assert!(is_gap, "{gap:?}");
    let _server = restarted.await.unwrap();
    std::fs::write(path.join("later"), "").unwrap();
    let change = changes.next().await.unwrap();
    assert!(matches!(&change, Some(WatchEvent::Event(event)) if event.path.ends_with("later")), "{change:?}");
}
