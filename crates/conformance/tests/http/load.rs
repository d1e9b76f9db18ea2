//! Load tests on the loopback device. The short forms run with the tests, the full ones are the `soak_`
//! tests. Memory is bounded during the load, and back near its initial value afterwards.

use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sandcrab_conformance::cases::steps::encode;
use sandcrab_conformance::cases::test_rng::TestRng;
use sandcrab_conformance::http::{Connection, Request, Target};
use serde_json::json;
use tokio::task::JoinSet;

use crate::crash::follow;
use crate::support::ServerProcess;

/// Maximum growth of the server's memory after the load.
const KEPT_BYTES: u64 = 48 << 20;
/// Maximum response time of other requests during the load.
const UNDELAYED: Duration = Duration::from_secs(20);

/// Runs a load against a new server, and checks its memory before, during and after it.
async fn measured<T>(bound: u64, load: impl AsyncFnOnce(Target) -> T) {
    // A client needs as many descriptors as it has connections.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let server = ServerProcess::start(&[]).await;
    for _ in 0..10 {
        server.target.shell("true").await;
    }
    let before = server.resident_bytes();
    let done = load(server.target.clone()).await;
    let during = server.peak_bytes();
    drop(done);
    let after = crate::support::settled(KEPT_BYTES + before, || server.resident_bytes()).await;
    let shown = [before, during, after].map(|bytes| bytes >> 20);
    #[expect(clippy::print_stdout, reason = "shown where the test is run by hand")]
    {
        println!("memory before, at most, after: {shown:?} MiB");
    }
    assert!(during <= before + bound, "it took too much memory: {shown:?} MiB");
    assert!(after <= before + KEPT_BYTES, "it kept too much memory: {shown:?} MiB");
    server.target.shell("true").await;
    server.stop().await;
}

async fn finished<T: 'static>(mut tasks: JoinSet<T>) -> Vec<T> {
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.push(done.unwrap());
    }
    all
}

async fn sessions(sessions: usize, commands: usize) {
    measured(256 << 20, async |target: Target| {
        let mut tasks = JoinSet::new();
        for number in 0..sessions {
            let target = target.clone();
            tasks.spawn(async move {
                let session = target.new_session().await;
                let mut connection = target.connect().await;
                for run in 1..=commands {
                    let body = json!({"command": format!("echo {number} $((++n))"), "sessionId": session});
                    let answer = connection.ask(&Request::post("/api/execute", &body)).await.unwrap().ok();
                    assert_eq!(answer["stdout"], format!("{number} {run}\n"));
                }
                target.delete_session(&session).await;
            });
        }
        finished(tasks).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sessions() {
    sessions(20, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_many_sessions() {
    sessions(100, 20).await;
}

async fn streams(readers: usize) {
    measured(256 << 20, async |target: Target| {
        let command = "for i in {1..100}; do echo \"line $i\"; sleep 0.02; done";
        let expected: String = (1..=100).map(|number| format!("line {number}\n")).collect();
        let id = target.start(json!({"command": command})).await;
        let mut tasks = JoinSet::new();
        for _ in 0..readers {
            tasks.spawn(follow(target.clone(), id.clone()));
        }
        for output in finished(tasks).await {
            assert_eq!(output, expected);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_streams() {
    streams(100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_many_streams() {
    streams(1_000).await;
}

async fn connections(count: usize) {
    measured(256 << 20, async |target: Target| {
        let mut open = Vec::new();
        for _ in 0..count {
            let mut connection = target.connect().await;
            connection.ask(&Request::get("/api/ping")).await.unwrap().ok();
            open.push(connection);
        }
        let since = Instant::now();
        target.shell("true").await;
        assert!(since.elapsed() < UNDELAYED, "{:?}", since.elapsed());
        for connection in &mut open {
            connection.ask(&Request::get("/api/ping")).await.unwrap().ok();
        }
        open
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_connections() {
    connections(500).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_many_connections() {
    connections(5_000).await;
}

/// Clients request large output over every route that has some, and read nothing.
async fn load_without_reading(clients: usize) {
    measured(64 << 20, async |target: Target| {
        let mut silent: Vec<Connection> = Vec::new();
        let command = "head -c 50000000 /dev/zero | tr '\\0' x";
        let id = target.start(json!({"command": command})).await;
        let body = json!({"command": command});
        let whole = json!({"command": command, "maxOutputBytes": 50_000_000});
        let paths = [format!("/api/process/{id}/stream"), format!("/api/process/{id}/output")];
        let requests = paths
            .into_iter()
            .map(Request::get)
            .chain([Request::post("/api/execute", &whole), Request::post("/api/execute/stream", &body)]);
        for request in requests {
            for _ in 0..clients {
                let mut connection = target.connect().await;
                connection.send(&request).await.unwrap();
                silent.push(connection);
            }
        }
        // Clients that do not read do not block the commands.
        target.ended(&id).await;
        target
            .until("/api/process/list?all=true&status=running", |list| {
                list["processes"].as_array().unwrap().is_empty()
            })
            .await;
        assert_not_delayed(&target, "true").await;
        silent
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_do_not_read() {
    load_without_reading(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_clients_do_not_read() {
    load_without_reading(10).await;
}

/// Responses that are held whole in memory: errors with the output of a command that ended its session's
/// shell.
#[tokio::test(flavor = "multi_thread")]
async fn unread_errors() {
    measured(112 << 20, async |target: Target| {
        let mut silent = Vec::new();
        for _ in 0..100 {
            let command = "head -c 1000000 /dev/zero | tr '\\0' x | tee /dev/stderr; exit 3";
            let body = json!({"command": command, "sessionId": target.new_session().await});
            let mut connection = target.connect().await;
            connection.send(&Request::post("/api/execute", &body)).await.unwrap();
            silent.push(connection);
        }
        for connection in &mut silent {
            assert_eq!(connection.any_head().await.unwrap().status, 410);
        }
        assert_not_delayed(&target, "true").await;
        silent
    })
    .await;
}

/// Commands are long, and responses repeat them.
#[tokio::test(flavor = "multi_thread")]
async fn unread_long_commands() {
    measured(64 << 20, async |target: Target| {
        let long = "x".repeat(1_000_000);
        let mut silent = Vec::new();
        for number in 0..100 {
            let body = match number % 4 {
                0 => json!({"command": "true", "args": vec![&long[..1_000]; 1_000]}),
                1 => json!({"command": format!("sleep 300 # {long}")}),
                _ => json!({"command": format!(": {long}")}),
            };
            let route = if number % 2 == 0 { "/api/execute" } else { "/api/execute/stream" };
            let mut connection = target.connect().await;
            connection.send(&Request::post(route, &body)).await.unwrap();
            silent.push(connection);
        }
        target
            .until("/api/process/list?all=true", |list| {
                let listed = list["processes"].as_array().unwrap();
                let running = listed.iter().filter(|process| process["status"] == "running").count();
                (listed.len(), running) == (110, 25)
            })
            .await;
        assert_not_delayed(&target, "true").await;
        silent
    })
    .await;
}

/// A file of the kernel has no size, so it is read whole. Clients that do not read it are refused when there are many.
#[tokio::test(flavor = "multi_thread")]
async fn unread_files_of_the_kernel_are_bounded() {
    let size = std::fs::read("/proc/kallsyms").map_or(0, |content| content.len());
    if !(1 << 20..32 << 20).contains(&size) {
        return crate::support::not_run("needs a long /proc/kallsyms");
    }
    measured(128 << 20, async |target: Target| {
        let (mut unread, mut refused) = (Vec::new(), 0);
        for _ in 0..(192 << 20) / size {
            let (head, body) = target.open(Request::get("/api/file?path=/proc/kallsyms")).await;
            match head.status {
                200 => unread.push(body),
                429 => refused += 1,
                other => panic!("status {other}"),
            }
        }
        assert!(!unread.is_empty() && refused > 0, "{} and {refused}", unread.len());
        // Small ones are not refused.
        assert_eq!(target.get("/api/file?path=/proc/version").await.status(), 200);
        unread
    })
    .await;
}

/// A request is not kept in memory after its response, although its socket stays open.
#[tokio::test(flavor = "multi_thread")]
async fn sockets_after_large_requests() {
    let server = ServerProcess::start(&[]).await;
    server.target.shell("true").await;
    let before = server.resident_bytes();
    let body = json!({"command": "wc -c", "stdin": "x".repeat(7_000_000)});
    let request =
        json!({"type": "request", "id": "1", "method": "POST", "path": "/api/execute", "body": body});
    let request = request.to_string();
    let mut sockets = Vec::new();
    for _ in 0..16 {
        let mut socket = server.target.socket().await;
        socket.send_text(&request).await;
        assert_eq!(socket.response("1").await["body"]["stdout"], "7000000\n");
        sockets.push(socket);
    }
    let bound = before + 2 * KEPT_BYTES;
    let after = crate::support::settled(bound, || server.resident_bytes()).await;
    assert!(after <= bound, "it kept {} MiB", (after - before) >> 20);
    drop(sockets);
    server.stop().await;
}

/// Follows a process with much output, on connections that are never read.
async fn load_unread_streams(clients: usize) {
    // The limit above which pieces become small, and a little for each client.
    measured((96 << 20) + clients as u64 * (64 << 10), async |target: Target| {
        let id = target.start(json!({"command": "head -c 3000000 /dev/zero | tr '\\0' x"})).await;
        target.ended(&id).await;
        let mut silent: Vec<Connection> = Vec::new();
        for path in [format!("/api/process/{id}/stream"), format!("/api/process/{id}/output")] {
            for _ in 0..clients / 2 {
                let mut connection = target.connect().await;
                connection.send(&Request::get(&path)).await.unwrap();
                assert_eq!(connection.any_head().await.unwrap().status, 200);
                silent.push(connection);
            }
        }
        assert_not_delayed(&target, "true").await;
        // Meanwhile a client that reads gets everything, if slowly.
        let part = Request::get(format!("/api/process/{id}/output")).header("range", "bytes=0-1999999");
        let output = target.send(part).await;
        assert_eq!((output.status(), output.body.len()), (206, 2_000_000));
        silent
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_streams() {
    load_unread_streams(300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_unread_streams() {
    load_unread_streams(2_000).await;
}

/// Requests 8 MB in each of 100 requests, over one WebSocket or over 100, and reads nothing.
async fn load_unread_sockets(sockets: usize) {
    measured(96 << 20, async |target: Target| {
        let mut silent = Vec::new();
        for _ in 0..sockets {
            silent.push(target.socket().await);
        }
        let body = json!({"command": "head -c 8000000 /dev/zero | tr '\\0' x"});
        for number in 0..100 {
            let route = if number % 4 == 0 { "/api/execute/stream" } else { "/api/execute" };
            silent[number % sockets].request(&number.to_string(), "POST", route, body.clone()).await;
        }
        target
            .until("/api/process/list?all=true", |list| {
                let ended =
                    list["processes"].as_array().unwrap().iter().filter(|p| p["status"] == "completed");
                ended.count() >= 100
            })
            .await;
        assert_not_delayed(&target, "true").await;
        silent
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_sockets() {
    load_unread_sockets(100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_socket() {
    load_unread_sockets(1).await;
}

/// Requests on HTTP/2 connections whose responses are never read.
#[tokio::test(flavor = "multi_thread")]
async fn unread_http2_streams() {
    measured(96 << 20, async |target: Target| {
        let id = target.start(json!({"command": "head -c 3000000 /dev/zero | tr '\\0' x"})).await;
        target.ended(&id).await;
        let token = target.token().unwrap().to_owned();
        let mut silent = Vec::new();
        for _ in 0..4 {
            let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
            for number in 0..100 {
                let route = if number % 2 == 0 { "stream" } else { "output" };
                let url = format!("http://{}/api/process/{id}/{route}", target.authority());
                silent.push(client.get(url).bearer_auth(&token).send().await.unwrap());
            }
        }
        assert_not_delayed(&target, "true").await;
        silent
    })
    .await;
}

/// Checks that commands of other clients are answered at once.
async fn assert_not_delayed(target: &Target, command: &str) {
    for _ in 0..20 {
        let since = Instant::now();
        target.shell(command).await;
        assert!(since.elapsed() < UNDELAYED, "{:?}", since.elapsed());
    }
}

/// `bytes` of base64 in the body become three quarters of that on standard input.
async fn bodies(count: usize, bytes: usize) {
    // The text, its decoded bytes, and the bytes in transit to the program.
    let bound = 4 * (bytes * count) as u64 + (64 << 20);
    measured(bound, async |target: Target| {
        let given = encode(&vec![b'x'; bytes / 4 * 3]);
        let body = json!({"command": "wc -c", "stdin": given, "stdinEncoding": "base64"});
        let request = Request::post("/api/execute", &body);
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let (target, request) = (target.clone(), request.clone());
            tasks.spawn(async move { target.send(request).await.ok()["stdout"].take() });
        }
        for counted in finished(tasks).await {
            assert_eq!(counted, format!("{}\n", bytes / 4 * 3));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies() {
    bodies(1, 64 << 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_large_bodies() {
    bodies(4, 64 << 20).await;
}

/// Clients that resume, commands with keys, and idle connections, while the server is killed repeatedly.
async fn crashes(rounds: u64, readers: usize, clients: usize) {
    let mut server = ServerProcess::start(&[]).await;
    let target = server.target.clone();
    let lines = rounds * 100;
    let command = format!("for i in {{1..{lines}}}; do echo \"line $i\"; sleep 0.01; done");
    let expected: String = (1..=lines).map(|number| format!("line {number}\n")).collect();
    let id = target.start(json!({"command": command})).await;
    let mut following = JoinSet::new();
    for _ in 0..readers {
        following.spawn(follow(target.clone(), id.clone()));
    }
    let folder = server.folder().to_owned();
    let mut working = JoinSet::new();
    for number in 0..clients {
        working.spawn(run_until_accepted(target.clone(), folder.join(format!("client-{number}")), 20));
    }
    let mut rng = TestRng::new();
    for _ in 0..rounds {
        // Any moment is possible, whatever the server is doing.
        tokio::time::sleep(Duration::from_millis(200 + rng.below(600))).await;
        server.crash();
        server.restart().await;
    }
    for output in finished(following).await {
        assert!(output == expected, "a reader lost something; {rng:?}");
    }
    finished(working).await;
    server.stop().await;
}

/// Runs consecutive commands, each with a key and repeated until it succeeds. Each must have run once.
async fn run_until_accepted(target: Target, file: std::path::PathBuf, commands: usize) {
    for number in 0..commands {
        let key = sandcrab_conformance::cases::steps::fresh("key");
        let command = format!("echo {number} >> {}; sleep 0.02; echo out", file.display());
        let request =
            Request::post("/api/execute", &json!({"command": command})).header("idempotency-key", key);
        let result = loop {
            let asked = async { Connection::open(&target).await?.ask(&request).await };
            match asked.await {
                Ok(answer) => break answer.ok(),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        let runs = crate::support::lines_of(&file);
        assert_eq!((result["stdout"].as_str(), runs), (Some("out\n"), number + 1), "{result}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crashes_under_load() {
    crashes(3, 20, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_crashes_under_load() {
    crashes(40, 200, 20).await;
}
