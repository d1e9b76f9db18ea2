//! Attachments against a server with the responses of a test.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use sandcrab_api::ErrorCode;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use super::{AttachOptions, Attachment, MAX_QUEUED_INPUT_BYTES, TerminalEvent};
use crate::{Client, ClientError};

const EXIT: &str = r#"{"type":"exit","exitCode":7,"code":7,"end":{"reason":"exited"}}"#;

fn ready(cursor: u64) -> Message {
    Message::text(format!(r#"{{"type":"ready","id":"t","cursor":{cursor},"cols":80,"rows":24}}"#))
}

/// An error body.
fn body_of(code: &str, status: u16) -> String {
    format!(
        r#"{{"code":"{code}","message":"no","context":{{}},"httpStatus":{status},"timestamp":"2026-01-01T00:00:00Z","requestId":"r"}}"#
    )
}

/// The answer of a server that refuses a request.
fn refusal(code: &str, status: u16) -> String {
    let body = body_of(code, status);
    format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Accepts a WebSocket; also returns the path and the token of its request.
#[expect(clippy::result_large_err, reason = "the type is that of the library")]
async fn accept<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> (WebSocketStream<S>, String) {
    let mut line = String::new();
    let read = |request: &Request, response: Response| {
        let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        line = format!("{} {}", request.uri(), token.unwrap_or("-"));
        Ok(response)
    };
    let socket = tokio_tungstenite::accept_hdr_async(stream, read).await.unwrap();
    (socket, line)
}

async fn server() -> (TcpListener, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client =
        Client::connect(&format!("http://{}", listener.local_addr().unwrap()), Some("secret")).unwrap();
    (listener, client)
}

async fn next_connection(listener: &TcpListener) -> (WebSocketStream<TcpStream>, String) {
    accept(listener.accept().await.unwrap().0).await
}

async fn events(mut attached: Attachment) -> Vec<TerminalEvent> {
    let mut events = Vec::new();
    while let Some(event) = attached.next().await.unwrap() {
        events.push(event);
    }
    events
}

fn output(text: &'static str) -> TerminalEvent {
    TerminalEvent::Output(text.into())
}

#[tokio::test]
async fn a_lost_connection_is_resumed_after_the_last_byte() {
    let (listener, client) = server().await;
    let serve = async {
        let (mut socket, line) = next_connection(&listener).await;
        assert_eq!(line, "/ws/terminal?terminalId=t&cols=100&rows=30&since=0 Bearer secret");
        socket.send(ready(0)).await.unwrap();
        socket.send(Message::binary("hello")).await.unwrap();
        drop(socket);
        // The server is away for a moment: a connection is refused with 503.
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        stream.write_all(refusal("SHUTTING_DOWN", 503).as_bytes()).await.unwrap();
        drop(stream);
        let (mut socket, line) = next_connection(&listener).await;
        assert_eq!(line, "/ws/terminal?terminalId=t&cols=100&rows=30&since=5 Bearer secret");
        // Too much was missed: the screen as it is at cursor 100.
        let repaint = r#"{"type":"repaint","cursor":100,"cols":100,"rows":30}"#;
        socket.send(Message::text(repaint)).await.unwrap();
        socket.send(Message::binary("a repaint")).await.unwrap();
        socket.send(ready(100)).await.unwrap();
        socket.send(Message::binary("xyz")).await.unwrap();
        socket.close(None).await.unwrap();
        let (mut socket, line) = next_connection(&listener).await;
        assert!(line.contains("since=103"), "{line}");
        socket.send(Message::text(r#"{"type":"of the future"}"#)).await.unwrap();
        socket.send(Message::text(EXIT)).await.unwrap();
    };
    let options = AttachOptions { size: Some((100, 30)), since: Some(0), read_only: false };
    let (events, ()) =
        tokio::join!(async { events(client.attach("t", &options).await.unwrap()).await }, serve);
    let [before @ .., last] = &events[..] else { panic!("no events") };
    assert!(matches!(last, TerminalEvent::Exit(exit) if exit.exit_code == 7), "{last:?}");
    let expected = [
        TerminalEvent::Ready,
        output("hello"),
        TerminalEvent::Disconnected,
        TerminalEvent::Repaint("a repaint".into()),
        TerminalEvent::Ready,
        output("xyz"),
        TerminalEvent::Disconnected,
    ];
    assert_eq!(before, expected);
}

/// The connection ends between the frame and the bytes of a repaint: the next one begins with the repaint again.
#[tokio::test]
async fn a_repaint_that_did_not_arrive_is_sent_again() {
    let (listener, client) = server().await;
    let repaint = || Message::text(r#"{"type":"repaint","cursor":100,"cols":100,"rows":30}"#);
    let serve = async {
        let (mut socket, _) = next_connection(&listener).await;
        socket.send(repaint()).await.unwrap();
        drop(socket);
        let (mut socket, line) = next_connection(&listener).await;
        assert!(!line.contains("since"), "{line}");
        socket.send(repaint()).await.unwrap();
        socket.send(Message::binary("a repaint")).await.unwrap();
        drop(socket);
        let (mut socket, line) = next_connection(&listener).await;
        assert!(line.contains("since=100"), "{line}");
        socket.send(Message::text(EXIT)).await.unwrap();
    };
    let attach = async { events(client.attach("t", &AttachOptions::default()).await.unwrap()).await };
    let (events, ()) = tokio::join!(attach, serve);
    let repaint = TerminalEvent::Repaint("a repaint".into());
    let [lost, painted, lost_again, TerminalEvent::Exit(_)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((lost, painted), (&TerminalEvent::Disconnected, &repaint));
    assert_eq!(lost_again, &TerminalEvent::Disconnected);
}

#[tokio::test]
async fn input_and_sizes_are_sent_in_order() {
    let dir = std::env::temp_dir().join(format!("sandcrab-client-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let client = Client::connect(&format!("unix:{}", path.display()), None).unwrap();
    let serve = async {
        let (mut socket, line) = accept(listener.accept().await.unwrap().0).await;
        assert_eq!(line, "/ws/terminal?terminalId=t -");
        let resize = r#"{"type":"resize","cols":90,"rows":20}"#;
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(resize));
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::binary("ls\rmore"));
        socket.send(Message::text(EXIT)).await.unwrap();
        // Until the client has read it.
        while let Some(Ok(_)) = socket.next().await {}
    };
    let attach = async {
        let mut attached = client.attach("t", &AttachOptions::default()).await.unwrap();
        assert!(attached.send("ls\r"));
        attached.resize(80, 20);
        attached.resize(90, 20);
        assert!(attached.send("more"));
        assert!(!attached.send(vec![b'x'; MAX_QUEUED_INPUT_BYTES]), "the queue is bounded");
        events(attached).await
    };
    let (events, ()) = tokio::join!(attach, serve);
    assert!(matches!(events[..], [TerminalEvent::Exit(_)]), "{events:?}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[tokio::test]
async fn read_only_viewer_is_announced() {
    let (listener, client) = server().await;
    let serve = async {
        let (mut socket, line) = next_connection(&listener).await;
        assert!(line.starts_with("/ws/terminal?terminalId=t&readOnly=true "), "{line}");
        let full = r#"{"type":"error","code":"TERMINAL_INPUT_FULL","message":"full"}"#;
        socket.send(Message::text(full)).await.unwrap();
        // The server has lost its supervisor for a moment: the viewer stays.
        let lost = r#"{"type":"error","code":"EXECUTION_LOST","message":"lost"}"#;
        socket.send(Message::text(lost)).await.unwrap();
        let gone = r#"{"type":"error","code":"TERMINAL_NOT_FOUND","message":"gone"}"#;
        socket.send(Message::text(gone)).await.unwrap();
    };
    let options = AttachOptions { size: Some((80, 24)), since: None, read_only: true };
    let attach = async {
        let mut attached = client.attach("t", &options).await.unwrap();
        let failed = attached.next().await.unwrap().unwrap();
        assert!(matches!(failed, TerminalEvent::Failed(frame) if frame.code == ErrorCode::TerminalInputFull));
        let failed = attached.next().await.unwrap().unwrap();
        assert!(matches!(failed, TerminalEvent::Failed(frame) if frame.code == ErrorCode::ExecutionLost));
        let error = attached.next().await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::TerminalNotFound));
    };
    tokio::join!(attach, serve);
}

#[tokio::test]
async fn refusals_and_wrong_answers_are_errors() {
    let (listener, client) = server().await;
    let refusals = [
        refusal("TERMINAL_NOT_FOUND", 404),
        "HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\nhi".to_owned(),
        "HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: x\r\n\r\n"
            .to_owned(),
    ];
    let serve = async {
        for refusal in &refusals {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            stream.write_all(refusal.as_bytes()).await.unwrap();
        }
    };
    let attach = async {
        let mut errors = Vec::new();
        for _ in &refusals {
            errors.push(client.attach("t", &AttachOptions::default()).await.unwrap_err());
        }
        errors
    };
    let (errors, ()) = tokio::join!(attach, serve);
    assert_eq!(errors[0].code(), Some(ErrorCode::TerminalNotFound));
    assert!(matches!(errors[1], ClientError::InvalidResponse { .. }), "{:?}", errors[1]);
    assert!(matches!(errors[2], ClientError::InvalidResponse { .. }), "{:?}", errors[2]);
    assert!(matches!(client.attach("list", &AttachOptions::default()).await, Err(ClientError::Id(_))));
}

/// Reads a request with its body; returns its path and the body.
async fn request(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next()).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), body)
}

/// The terminal takes 5 bytes, then none, then everything.
#[tokio::test]
async fn a_paste_is_sent_as_fast_as_it_is_read() {
    let (listener, client) = server().await;
    let paste: Vec<u8> = (0..100_000_u32).flat_map(u32::to_be_bytes).collect();
    let serve = async {
        let (mut socket, _) = next_connection(&listener).await;
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::binary("key"));
        // The paste waits for the pong, which is sent with the next message.
        let respond = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut received = Vec::new();
            for number in 0.. {
                let (path, body) = request(&mut stream).await;
                assert_eq!(path, "/api/terminal/t/input");
                let taken = match number {
                    0 => 5,
                    1 | 2 => 0,
                    _ => body.len(),
                };
                received.extend_from_slice(&body[..taken]);
                let (status, answer) = if taken == body.len() {
                    (
                        200,
                        format!(r#"{{"success":true,"written":{taken},"timestamp":"2026-01-01T00:00:00Z"}}"#),
                    )
                } else {
                    let context = format!(r#""context":{{"written":{taken}}}"#);
                    (409, body_of("TERMINAL_INPUT_FULL", 409).replace(r#""context":{}"#, &context))
                };
                let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", answer.len());
                stream.write_all(format!("{head}{answer}").as_bytes()).await.unwrap();
                if received.len() == paste.len() {
                    return received;
                }
            }
            unreachable!("the loop has no end");
        };
        let until_keys = async {
            loop {
                if socket.next().await.unwrap().unwrap() == Message::binary("x") {
                    break;
                }
            }
        };
        let (received, ()) = tokio::join!(respond, until_keys);
        assert!(received == paste, "{} bytes", received.len());
        // Keys that the program does not read are reported.
        let full = r#"{"type":"error","code":"TERMINAL_INPUT_FULL","message":"full"}"#;
        socket.send(Message::text(full)).await.unwrap();
        socket.send(Message::text(EXIT)).await.unwrap();
        while let Some(Ok(_)) = socket.next().await {}
    };
    let attach = async {
        let mut attached = client.attach("t", &AttachOptions::default()).await.unwrap();
        assert!(attached.send("key"));
        let waited = tokio::time::timeout(Duration::from_millis(20), attached.next()).await;
        assert!(waited.is_err(), "no event is expected: {waited:?}");
        assert!(attached.send(&paste));
        while attached.has_queued_input() {
            let waited = tokio::time::timeout(Duration::from_millis(20), attached.next()).await;
            assert!(waited.is_err(), "no event is expected: {waited:?}");
        }
        assert!(attached.send("x"));
        events(attached).await
    };
    let (events, ()) = tokio::join!(attach, serve);
    assert!(matches!(events[..], [TerminalEvent::Failed(_), TerminalEvent::Exit(_)]), "{events:?}");
}

/// Keys are sent at most once. The user learns which may be lost; later ones wait for the next connection.
#[tokio::test]
async fn keys_that_a_lost_connection_did_not_confirm_are_reported() {
    let (listener, client) = server().await;
    let serve = async {
        let (mut socket, _) = next_connection(&listener).await;
        socket.send(ready(0)).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::binary("sent"));
        // The ping after it is not answered.
        drop(socket);
        let (mut socket, _) = next_connection(&listener).await;
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::binary("later"));
        // This time it is: the answer is sent before the second message.
        assert!(socket.next().await.unwrap().unwrap().is_ping());
        socket.send(ready(0)).await.unwrap();
        socket.send(Message::text(r#"{"type":"resize","cols":1,"rows":1}"#)).await.unwrap();
        let closed = socket.next().await;
        assert!(closed.is_none_or(|message| message.is_err()), "nothing else is sent");
        let (mut socket, _) = next_connection(&listener).await;
        socket.send(Message::text(EXIT)).await.unwrap();
        while let Some(Ok(_)) = socket.next().await {}
    };
    let attach = async {
        let mut attached = client.attach("t", &AttachOptions::default()).await.unwrap();
        assert_eq!(attached.next().await.unwrap(), Some(TerminalEvent::Ready));
        assert!(attached.send("sent"));
        assert_eq!(attached.next().await.unwrap(), Some(TerminalEvent::Disconnected));
        assert!(attached.send("later"));
        assert_eq!(attached.next().await.unwrap(), Some(TerminalEvent::InputLost));
        assert_eq!(attached.next().await.unwrap(), Some(TerminalEvent::Ready));
        assert_eq!(attached.next().await.unwrap(), Some(TerminalEvent::Resized { cols: 1, rows: 1 }));
        // A connection that has confirmed everything is not reported.
        attached.repaint();
        events(attached).await
    };
    let (events, ()) = tokio::join!(attach, serve);
    assert!(matches!(events[..], [TerminalEvent::Exit(_)]), "{events:?}");
}

/// The rest of a paste would continue after a gap.
#[tokio::test]
async fn a_paste_with_an_unknown_part_is_not_continued() {
    let (listener, client) = server().await;
    let serve = async {
        let (mut socket, _) = next_connection(&listener).await;
        let (mut stream, _) = listener.accept().await.unwrap();
        let (path, body) = request(&mut stream).await;
        assert_eq!((path.as_str(), body.len()), ("/api/terminal/t/input", 16 << 10));
        // No answer.
        drop(stream);
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::binary("after"));
        socket.send(Message::text(EXIT)).await.unwrap();
        while let Some(Ok(_)) = socket.next().await {}
    };
    let attach = async {
        let mut attached = client.attach("t", &AttachOptions::default()).await.unwrap();
        assert!(attached.send(vec![b'x'; 100_000]));
        assert_eq!(attached.next().await.unwrap(), Some(TerminalEvent::InputLost));
        assert!(!attached.has_queued_input());
        assert!(attached.send("after"));
        events(attached).await
    };
    let (events, ()) = tokio::join!(attach, serve);
    assert!(matches!(events[..], [TerminalEvent::Exit(_)]), "{events:?}");
}
