//! Previews: the reverse proxy, with real programs behind it.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use sandcrab_conformance::http::{Connection, Request, Target};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::support::{LARGE_BYTES, ServerProcess, Upstream, with_timeout};

/// Exposes a port and returns the host of its preview.
async fn expose(target: &Target, port: u16) -> String {
    let body = json!({"port": port, "token": "right"});
    let url = target.post("/api/port/expose", body).await.ok()["url"].as_str().unwrap().to_owned();
    url.trim_start_matches("http://").trim_end_matches('/').to_owned()
}

fn to(host: &str, path: &str) -> Request {
    Request::get(path).header("host", host).header("authorization", "")
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_pass_with_their_headers() {
    let (server, upstream) = (ServerProcess::start(&[]).await, Upstream::start().await);
    let host = expose(&server.target, upstream.port).await;
    let own = to(&host, "/a%20b?c=d&e")
        .header("authorization", "Basic dTpw")
        .header("connection", "keep-alive, x-mine")
        .header("x-mine", "1")
        .header("x-forwarded-for", "192.0.2.1")
        .header("x-forwarded-proto", "gopher")
        .header("cookie", "a=b");
    let seen = server.target.send(own).await;
    let seen = seen.json();
    assert_eq!((&seen["method"], &seen["target"]), (&json!("GET"), &json!("/a%20b?c=d&e")));
    let headers = &seen["headers"];
    for (name, value) in [
        ("host", host.as_str()),
        ("x-forwarded-host", &host),
        ("x-forwarded-for", "192.0.2.1, 127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-port", server.target.authority().rsplit(':').next().unwrap()),
        ("authorization", "Basic dTpw"),
        ("cookie", "a=b"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    assert!(headers["forwarded"].as_str().unwrap().starts_with("for=127.0.0.1;host="), "{headers}");
    assert!(headers["via"].as_str().unwrap().starts_with("1.1 sandcrab-"), "{headers}");
    assert_eq!(headers["x-mine"], Value::Null);
    // The token of the API stays here.
    let token = format!("Bearer {}", server.target.token().unwrap());
    let seen = server.target.send(to(&host, "/").header("authorization", token)).await.json();
    assert_eq!(seen["headers"]["authorization"], Value::Null);
    // Paths of the API belong to the program.
    for path in ["/api/ping", "/api/execute", "/ws", "/metrics", "/openapi.json"] {
        let seen = server.target.send(to(&host, path)).await.json();
        assert_eq!(seen["target"], path);
    }
    let body = json!({"command": "true"});
    let request = Request::post("/api/execute", &body).header("host", host.as_str());
    let seen = server.target.send(request).await.json();
    assert_eq!((&seen["method"], &seen["bytes"]), (&json!("POST"), &json!(body.to_string().len())));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_are_not_changed() {
    let (server, upstream) = (ServerProcess::start(&[]).await, Upstream::start().await);
    let host = expose(&server.target, upstream.port).await;
    let moved = server.target.send(to(&host, "/redirect")).await;
    assert_eq!((moved.status(), moved.text().as_str()), (302, "moved"));
    assert_eq!(moved.header("location"), Some("http://localhost:1/there?a=b"));
    let cookies = moved.head.headers.iter().filter(|(name, _)| name == "set-cookie");
    assert_eq!(cookies.map(|(_, value)| value.as_str()).collect::<Vec<_>>(), ["a=1; Path=/", "b=2"]);
    assert_eq!(moved.header("x-hop"), None);
    let many = server.target.send(to(&host, "/cookies")).await;
    assert_eq!(many.head.headers.iter().filter(|(name, _)| name == "set-cookie").count(), 500);
    let head = server.target.send(Request::new("HEAD", "/large").header("host", host.as_str())).await;
    assert_eq!((head.status(), head.header("content-length")), (200, Some(&*LARGE_BYTES.to_string())));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_before_the_end() {
    let (server, upstream) = (ServerProcess::start(&[]).await, Upstream::start().await);
    let host = expose(&server.target, upstream.port).await;
    let (head, mut body) = server.target.open(to(&host, "/events")).await;
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    let first = with_timeout(body.next()).await.unwrap().unwrap();
    assert_eq!(first, b"data: 0\n\n");
    upstream.go.notify_one();
    let second = with_timeout(body.next()).await.unwrap().unwrap();
    assert_eq!(second, b"data: 1\n\n");
    assert_eq!(with_timeout(body.next()).await.unwrap(), None);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_pass_in_constant_memory() {
    let (server, upstream) = (ServerProcess::start(&[]).await, Upstream::start().await);
    let host = expose(&server.target, upstream.port).await;
    server.target.send(to(&host, "/")).await.json();
    let before = server.peak_bytes();
    // Clients that do not read: what the server holds for them is bounded.
    let mut idle = Vec::new();
    for _ in 0..8 {
        idle.push(server.target.open(to(&host, "/large")).await);
    }
    let (_, mut body) = server.target.open(to(&host, "/large")).await;
    let mut bytes = 0;
    while let Some(piece) = with_timeout(body.next()).await.unwrap() {
        assert!(piece.iter().all(|byte| *byte == b'x'));
        bytes += piece.len();
    }
    assert_eq!(bytes, LARGE_BYTES);
    let upload = Request::new("PUT", "/").header("host", host.as_str()).body(vec![b'y'; LARGE_BYTES]);
    assert_eq!(server.target.send(upload).await.json()["bytes"], LARGE_BYTES);
    let grown = server.peak_bytes() - before;
    assert!(grown < 8 << 20, "{grown} bytes for ten bodies of {LARGE_BYTES} bytes");
    for (_, mut body) in idle {
        let mut bytes = 0;
        while let Some(piece) = with_timeout(body.next()).await.unwrap() {
            bytes += piece.len();
        }
        assert_eq!(bytes, LARGE_BYTES);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets_pass_until_the_port_is_unexposed() {
    let (server, upstream) = (ServerProcess::start(&[]).await, Upstream::start().await);
    let host = expose(&server.target, upstream.port).await;
    let stream = TcpStream::connect(server.target.authority()).await.unwrap();
    let request = format!("ws://{host}/socket").into_client_request().unwrap();
    let (mut socket, response) =
        with_timeout(tokio_tungstenite::client_async(request, stream)).await.unwrap();
    assert_eq!(response.status(), 101);
    for text in ["hello".to_owned(), "x".repeat(100_000)] {
        socket.send(Message::text(text.clone())).await.unwrap();
        assert_eq!(with_timeout(socket.next()).await.unwrap().unwrap(), Message::text(text));
    }
    server.target.post("/api/port/unexpose", json!({"port": upstream.port})).await.ok();
    let end = with_timeout(socket.next()).await;
    assert!(end.is_none_or(|end| end.is_err()), "the tunnel is open");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_the_port_is_unexposed() {
    let (server, upstream) = (ServerProcess::start(&[]).await, Upstream::start().await);
    let host = expose(&server.target, upstream.port).await;
    let (_, mut body) = server.target.open(to(&host, "/events")).await;
    with_timeout(body.next()).await.unwrap().unwrap();
    server.target.post("/api/port/unexpose", json!({"port": upstream.port})).await.ok();
    assert!(with_timeout(body.next()).await.is_err(), "an aborted body is not a complete one");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_clients() {
    let (server, upstream) = (ServerProcess::start(&[]).await, Upstream::start().await);
    let host = expose(&server.target, upstream.port).await;
    let address = server.target.authority().parse().unwrap();
    let name = host.split(':').next().unwrap();
    let client = reqwest::Client::builder().http2_prior_knowledge().resolve(name, address).build().unwrap();
    let url = |path: &str| format!("http://{host}{path}");
    let answer = client.post(url("/x")).header("cookie", "a=b").body("hello").send().await.unwrap();
    assert_eq!((answer.version(), answer.status().as_u16()), (reqwest::Version::HTTP_2, 200));
    let seen: Value = answer.json().await.unwrap();
    assert_eq!(
        (&seen["method"], &seen["bytes"], &seen["headers"]["host"]),
        (&json!("POST"), &json!(5), &json!(host))
    );
    assert!(seen["headers"]["via"].as_str().unwrap().starts_with("2.0 sandcrab-"), "{seen}");
    let answer = client.get(url("/large")).send().await.unwrap();
    assert_eq!(answer.bytes().await.unwrap().len(), LARGE_BYTES);
    let moved = client.head(url("/large")).send().await.unwrap();
    assert_eq!(moved.headers()["content-length"], LARGE_BYTES.to_string());
    let mut events = client.get(url("/events")).send().await.unwrap();
    assert_eq!(with_timeout(events.chunk()).await.unwrap().unwrap(), "data: 0\n\n");
    upstream.go.notify_one();
    assert_eq!(with_timeout(events.chunk()).await.unwrap().unwrap(), "data: 1\n\n");
    let wrong = client.get(url("/").replace("-right.", "-wrong.")).send().await;
    assert!(wrong.is_err() || wrong.unwrap().status() == 404);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_pass() {
    let (server, upstream) = (ServerProcess::start(&[]).await, Upstream::start().await);
    let host = expose(&server.target, upstream.port).await;
    let text = raw(
        &server.target,
        &format!("GET /trailers HTTP/1.1\r\nhost: {host}\r\nte: trailers\r\nconnection: te, close\r\n\r\n"),
    )
    .await;
    assert!(text.ends_with("4\r\nbody\r\n0\r\nx-sum: 42\r\n\r\n"), "{text}");
    server.stop().await;
}

/// Sends bytes and returns everything until the server closes the connection.
async fn raw(target: &Target, request: &str) -> String {
    let mut stream = TcpStream::connect(target.authority()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = Vec::new();
    // A refused request may reset the connection.
    drop(with_timeout(stream.read_to_end(&mut text)).await);
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_requests_are_refused() {
    let (server, upstream) = (ServerProcess::start(&[]).await, Upstream::start().await);
    let host = expose(&server.target, upstream.port).await;
    for head in [
        format!(
            "POST /seen HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n"
        ),
        format!("POST /seen HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n"),
        format!("POST /seen HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\ncontent-length: 4\r\n\r\nabcd"),
        format!("POST /seen HTTP/1.1\r\nhost: {host}\r\ncontent-length: +4\r\n\r\nabcd"),
        format!("GET /seen HTTP/1.1\r\nhost: {host}\r\nhost: {}\r\n\r\n", server.target.authority()),
        format!("GET http://{host}/seen HTTP/1.1\r\nhost: {}\r\n\r\n", server.target.authority()),
        format!("OPTIONS * HTTP/1.1\r\nhost: {host}\r\n\r\n"),
        format!("CONNECT {host} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"),
    ] {
        let text = raw(&server.target, &head).await;
        assert!(text.starts_with("HTTP/1.1 4") && !text.contains("\"target\":\"/"), "{head}: {text}");
    }
    let chunk = format!(
        "POST /seen HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n"
    );
    let text = raw(&server.target, &chunk).await;
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
    // With both headers, the program sees the chunks only, and nothing behind them is another request.
    for order in [
        "content-length: 44\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 44",
    ] {
        let hidden = format!("GET /hidden HTTP/1.1\r\nhost: {host}\r\n\r\n");
        let request =
            format!("POST /seen HTTP/1.1\r\nhost: {host}\r\n{order}\r\n\r\n3\r\nabc\r\n0\r\n\r\n{hidden}");
        let text = raw(&server.target, &request).await;
        assert!(text.contains("\"bytes\":3") && !text.contains("content-length\":\"44"), "{text}");
        assert!(!text.contains("hidden"), "{text}");
    }
    // The same name in the target and in the header is one request.
    let absolute = format!("GET http://{host}/seen HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    assert!(raw(&server.target, &absolute).await.contains("\"target\":\"/seen\""));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_wait_for_100_are_asked_for_the_body() {
    let (server, upstream) = (ServerProcess::start(&[]).await, Upstream::start().await);
    let host = expose(&server.target, upstream.port).await;
    let mut connection = Connection::open(&server.target).await.unwrap();
    let head = format!("PUT / HTTP/1.1\r\nhost: {host}\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n");
    connection.send_bytes(head.as_bytes()).await.unwrap();
    assert_eq!(with_timeout(connection.any_head()).await.unwrap().status, 100);
    connection.send_bytes(b"hello").await.unwrap();
    let seen = with_timeout(connection.answer()).await.unwrap().json();
    assert_eq!((&seen["bytes"], &seen["headers"]["expect"]), (&json!(5), &Value::Null));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_fails() {
    let (server, upstream) = (ServerProcess::start(&[]).await, Upstream::start().await);
    let host = expose(&server.target, upstream.port).await;
    let (head, mut body) = server.target.open(to(&host, "/broken")).await;
    assert_eq!(head.header("content-length"), Some("1000"));
    assert_eq!(with_timeout(body.next()).await.unwrap().unwrap(), b"part");
    upstream.go.notify_one();
    assert!(with_timeout(body.next()).await.is_err(), "an aborted body is not a complete one");
    // A program that does not speak HTTP.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = expose(&server.target, listener.local_addr().unwrap().port()).await;
    let close = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"SSH-2.0-x\r\n\r\n").await.unwrap();
    };
    let (answer, ()) = tokio::join!(server.target.send(to(&silent, "/")), close);
    answer.refused(502, "SERVICE_NOT_RESPONDING");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_on_ipv6_are_found() {
    let server = ServerProcess::start(&[]).await;
    // The machine may have no IPv6.
    if let Some(upstream) = Upstream::listen("[::1]:0").await {
        let host = expose(&server.target, upstream.port).await;
        assert_eq!(server.target.send(to(&host, "/six")).await.json()["target"], "/six");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exposed_ports_survive_a_crash_but_not_their_owner() {
    let mut server = ServerProcess::start(&["keep-executions=1"]).await;
    let upstream = Upstream::start().await;
    let host = expose(&server.target, upstream.port).await;
    let short = server.target.start(json!({"command": "read -r line", "keepStdinOpen": true})).await;
    let body = json!({"port": 1, "processId": short});
    server.target.post("/api/port/expose", body).await.ok();
    server.crash();
    server.restart().await;
    assert_eq!(server.target.send(to(&host, "/again")).await.json()["target"], "/again");
    let list = server.target.get("/api/port/exposed").await.ok();
    assert_eq!(list["count"], 2, "{list}");
    server.target.kill(&short).await;
    server.target.until("/api/port/exposed", |list| list["count"] == 1).await;
    server.crash();
    server.restart().await;
    assert_eq!(server.target.get("/api/port/exposed").await.ok()["count"], 1);
    server.stop().await;
}

/// The API is not reachable through a preview, also not through a program that forwards to it.
#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_not_reachable_through_a_preview() {
    let mut server = ServerProcess::start(&[]).await;
    let own: u16 = server.target.authority().rsplit(':').next().unwrap().parse().unwrap();
    server.target.post("/api/port/expose", json!({"port": own})).await.refused(400, "INVALID_PORT");
    // A program that passes bytes to the server.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let authority = server.target.authority().to_owned();
    let forwarder = tokio::spawn(async move {
        while let Ok((mut inner, _)) = listener.accept().await {
            let mut outer = TcpStream::connect(&authority).await.unwrap();
            tokio::spawn(async move { drop(tokio::io::copy_bidirectional(&mut inner, &mut outer).await) });
        }
    });
    let host = expose(&server.target, port).await;
    for path in ["/api/ping", "/ws", "/metrics"] {
        server.target.send(to(&host, path)).await.refused(508, "PREVIEW_LOOP");
    }
    // Headers that hide the way do not help.
    let hidden = to(&host, "/api/ping").header("connection", "via");
    server.target.send(hidden).await.refused(508, "PREVIEW_LOOP");
    forwarder.abort();
    // A record of an earlier server names the port of this one: it had another port then.
    server.crash();
    let records = json!([{"port": own, "token": "right", "exposedAt": "2026-01-31T12:00:00.000Z"}]);
    std::fs::write(server.folder().join("state/previews.json"), records.to_string()).unwrap();
    server.restart().await;
    let host = format!("{own}-local-right.localhost:{own}");
    let refused = server.target.send(to(&host, "/api/ping")).await.refused(502, "SERVICE_NOT_RESPONDING");
    assert!(refused["message"].as_str().unwrap().contains("port of this server"), "{refused}");
    server.stop().await;
}

/// A page of a preview is another origin than the API.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_previews_cannot_call_the_api() {
    let (server, upstream) = (ServerProcess::start(&[]).await, Upstream::start().await);
    let host = expose(&server.target, upstream.port).await;
    let own = format!("localhost:{}", server.target.authority().rsplit(':').next().unwrap());
    for api in [own.as_str(), server.target.authority(), "x.localhost"] {
        let request =
            Request::get("/api/ping").header("host", api).header("origin", format!("http://{host}"));
        server.target.send(request).await.refused(403, "PERMISSION_DENIED");
        for site in ["same-site", "cross-site"] {
            let request = Request::get("/api/ping").header("host", api).header("sec-fetch-site", site);
            server.target.send(request).await.refused(403, "PERMISSION_DENIED");
        }
    }
    // Also not from its own host, when it is no longer exposed.
    server.target.post("/api/port/unexpose", json!({"port": upstream.port})).await.ok();
    let request =
        Request::get("/api/ping").header("host", host.as_str()).header("origin", format!("http://{host}"));
    server.target.send(request).await.refused(404, "PORT_NOT_EXPOSED");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits() {
    // An eighth of the descriptors.
    let (server, upstream) = (ServerProcess::start(&["descriptors=512"]).await, Upstream::start().await);
    let host = expose(&server.target, upstream.port).await;
    let mut open = Vec::new();
    for _ in 0..64 {
        let (head, body) = server.target.open(to(&host, "/events")).await;
        assert_eq!(head.status, 200);
        open.push(body);
    }
    let refused = server.target.send(to(&host, "/")).await;
    refused.refused(429, "LIMIT_EXCEEDED");
    assert_eq!(refused.header("retry-after"), Some("1"));
    drop(open);
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while server.target.send(to(&host, "/")).await.status() != 200 {
        assert!(std::time::Instant::now() < deadline, "no request ends");
    }
    let mut exposed = 1;
    for port in (1..200).filter(|port| *port != upstream.port) {
        let answer = server.target.post("/api/port/expose", json!({"port": port})).await;
        if answer.status() != 200 {
            answer.refused(429, "LIMIT_EXCEEDED");
            break;
        }
        exposed += 1;
    }
    assert_eq!(exposed, 64);
    server.stop().await;
}

/// As on a full disk.
#[tokio::test(flavor = "multi_thread")]
async fn ports_end_with_their_owner_if_the_file_cannot_be_written() {
    let server = ServerProcess::start(&[]).await;
    let owner = server.target.start(json!({"command": "read -r line", "keepStdinOpen": true})).await;
    server.target.post("/api/port/expose", json!({"port": 1, "processId": owner})).await.ok();
    let draft = server.folder().join("state/previews.json.new");
    std::fs::create_dir_all(draft.join("occupied")).unwrap();
    server.target.kill(&owner).await;
    server.target.until("/api/port/exposed", |list| list["count"] == 0).await;
    std::fs::remove_dir_all(draft).unwrap();
    expose(&server.target, 2).await;
    let kept = std::fs::read_to_string(server.folder().join("state/previews.json")).unwrap();
    assert_eq!(kept.matches("\"port\"").count(), 1, "{kept}");
    server.stop().await;
}

/// A change is made in memory and on the disk, or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_disconnect_do_not_interrupt_changes() {
    let server = ServerProcess::start(&[]).await;
    for port in 1000..1060 {
        let mut client = server.target.connect().await;
        client.send(&Request::post("/api/port/expose", &json!({"port": port}))).await.unwrap();
        drop(client);
    }
    let file = server.folder().join("state/previews.json");
    let ports = |list: &Value| -> Vec<_> {
        let list = list.as_array().unwrap().iter();
        list.map(|one| one["port"].as_u64().unwrap()).collect()
    };
    let is_same = |list: &Value| {
        let mut kept = std::fs::read(&file)
            .map_or_else(|_| Vec::new(), |bytes| ports(&serde_json::from_slice(&bytes).unwrap()));
        kept.sort_unstable();
        ports(&list["ports"]) == kept
    };
    // The last request is behind those of the clients that left.
    expose(&server.target, 2000).await;
    server.target.until("/api/port/exposed", is_same).await;
    server.stop().await;
}

/// Neither with requests that do not end, nor with idle connections.
#[tokio::test(flavor = "multi_thread")]
async fn visitors_do_not_lock_out_clients_of_the_api() {
    let (server, upstream) = (ServerProcess::start(&["connections=16"]).await, Upstream::start().await);
    let host = expose(&server.target, upstream.port).await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(server.target.open(to(&host, "/events")).await);
    }
    let mut idle = Vec::new();
    for _ in 0..12 {
        let mut visitor = server.target.connect().await;
        visitor.send(&to(&host, "/")).await.unwrap();
        assert_eq!(with_timeout(visitor.answer()).await.unwrap().status(), 200);
        idle.push(visitor);
    }
    server.target.get("/api/port/exposed").await.ok();
    // Half of the connections.
    for _ in 4..8 {
        streams.push(server.target.open(to(&host, "/events")).await);
    }
    assert!(streams.iter().all(|(head, _)| head.status == 200));
    server.target.send(to(&host, "/")).await.refused(429, "LIMIT_EXCEEDED");
    server.target.get("/api/port/exposed").await.ok();
    server.stop().await;
}

/// A server of Python's library: HTTP/1.0, and a connection per request.
#[tokio::test(flavor = "multi_thread")]
async fn python_http_server() {
    let server = ServerProcess::start(&[]).await;
    std::fs::write(server.folder().join("hello.txt"), "hello\n").unwrap();
    let script = "import http.server as h; s = h.ThreadingHTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler); print(s.server_port, flush=True); s.serve_forever()";
    let body = json!({"command": "python3", "args": ["-c", script], "cwd": server.folder()});
    let started = server.target.post("/api/process/start", body).await;
    let id = started.ok()["processId"].as_str().unwrap().to_owned();
    let has_port = |logs: &Value| logs["stdout"].as_str().is_some_and(|text| text.ends_with('\n'));
    let logs = server.target.until(&format!("/api/process/{id}/logs"), has_port).await;
    let port: u16 = logs["stdout"].as_str().unwrap().trim().parse().unwrap();
    let host = expose(&server.target, port).await;
    for _ in 0..3 {
        let answer = server.target.send(to(&host, "/hello.txt")).await;
        assert_eq!((answer.status(), answer.text().as_str()), (200, "hello\n"));
    }
    assert_eq!(server.target.send(to(&host, "/none")).await.status(), 404);
    let list = server.target.get("/api/port/exposed").await.ok();
    assert_eq!(list["ports"][0]["status"], "active");
    server.stop().await;
}
