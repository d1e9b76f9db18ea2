//! Many calls from one client, and the cost of one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sandcrab_client::{MAX_CONNECTIONS, Sandbox};
use tokio::task::JoinSet;

use super::sandbox;
use crate::resume::cutting_proxy;
use crate::support::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn thousand_concurrent_execs_share_few_connections() {
    let server = TestServer::new();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    let count = move || {
        counter.fetch_add(1, Ordering::Relaxed);
        usize::MAX
    };
    let (address, _proxy) = cutting_proxy(server.address(), count).await;
    let sandbox = Sandbox::connect(&format!("http://{address}"), Some(server.token())).unwrap();
    let mut calls = JoinSet::new();
    for number in 0..1_000 {
        let sandbox = sandbox.clone();
        calls.spawn(async move {
            let result = sandbox.exec_args("echo", [number.to_string()]).await.unwrap();
            assert_eq!((result.stdout, result.exit_code), (format!("{number}\n"), 0));
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
    let connections = connections.load(Ordering::Relaxed);
    // The HTTP library may open a connection while another one becomes free.
    assert!(connections <= 2 * MAX_CONNECTIONS, "{connections} connections");
}

/// A stream that holds the last connection does not keep its own end waiting.
#[tokio::test]
async fn streams_do_not_delay_their_end() {
    let server = TestServer::new();
    let address = format!("http://{}", server.address()).parse().unwrap();
    let client = sandcrab_client::Client::with_max_connections(address, Some(server.token()), 1).unwrap();
    let sandbox = Sandbox::from(client);
    let process = sandbox.start_process("sleep 600").await.unwrap();
    let mut events = process.stream_logs().await.unwrap();
    process.kill().await.unwrap();
    while events.next().await.unwrap().is_some() {}
    drop(events);
    assert_eq!(sandbox.exec("echo free").await.unwrap().stdout, "free\n");
}

const ROUNDS: usize = 300;
const MOST_TIMES: f64 = 1.5;

/// The SDK and a bare client of the same HTTP library, by turns.
#[tokio::test]
async fn serial_exec_takes_about_as_long_as_a_bare_request() {
    let server = TestServer::new();
    let sandbox = sandbox(&server);
    let (bare, token) = (reqwest::Client::new(), server.token());
    let url = format!("http://{}/api/execute", server.address());
    let (mut with_sdk, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        assert!(sandbox.exec("true").await.unwrap().success);
        with_sdk.push(start.elapsed());
        let start = Instant::now();
        let request = bare.post(&url).bearer_auth(token).json(&serde_json::json!({"command": "true"}));
        let answer: serde_json::Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["success"], true);
        without.push(start.elapsed());
    }
    let (with_sdk, without) = (median(with_sdk), median(without));
    let times = with_sdk.as_secs_f64() / without.as_secs_f64();
    #[expect(clippy::print_stdout, reason = "shown where the test is run by hand")]
    {
        println!("exec('true'): {with_sdk:?}, bare request: {without:?}, {times:.2} times");
    }
    assert!(times <= MOST_TIMES, "{with_sdk:?} is {times:.2} times {without:?}");
}

fn median(mut durations: Vec<Duration>) -> Duration {
    durations.sort_unstable();
    durations[durations.len() / 2]
}
