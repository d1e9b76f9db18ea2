//! Compatibility with newer servers: unknown codes, events and fields are tolerated.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::api::ErrorCode;
use crate::api::event::{ExecuteEvent, ProcessEvent};
use crate::api::execute::{CommandRequest, EndReason};
use crate::api::process::ProcessStatus;
use crate::{Client, FollowOptions};

const TIME: &str = r#""timestamp":"2026-01-31T12:00:00.000Z""#;

/// Returns a client of a server that sends this response to the next request.
async fn client(status: &'static str, kind: &'static str, body: String) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 64 << 10];
        let _ = stream.read(&mut request).await.unwrap();
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    });
    Client::connect(&address, None).unwrap()
}

fn stream(events: &[&str]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

#[tokio::test]
async fn an_unknown_error_code() {
    let body = format!(
        r#"{{"code":"DISK_ON_FIRE","message":"call the fire brigade","context":{{}},"httpStatus":418,{TIME},
            "requestId":"r-1","severity":{{"level":9}}}}"#
    );
    let client = client("418 Teapot", "application/json", body).await;
    let error = client.execute(&CommandRequest::default()).await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (Some(ErrorCode::Unknown), "call the fire brigade")
    );
}

#[tokio::test]
async fn unknown_events_words_and_fields() {
    let body = stream(&[
        &format!(r#"{{"type":"start","command":"x","executionId":"x-1","mood":"good",{TIME}}}"#),
        &format!(r#"{{"type":"progress","percent":50,{TIME}}}"#),
        &format!(r#"{{"type":"stdout","data":"a",{TIME}}}"#),
        &format!(
            r#"{{"type":"complete","exitCode":7,"end":{{"reason":"eaten","by":"a grue"}},
                "usage":{{"userMs":1,"systemMs":1,"wallMs":1,"maxRssBytes":1,"joules":3}},"result":{{"success":false,
                "exitCode":7,"command":"x","duration":1,"executionId":"x-1","restoredFrom":"tape",{TIME}}},{TIME}}}"#
        )
        .replace('\n', " "),
    ]);
    let client = client("200 OK", "text/event-stream", body).await;
    let mut events = client.execute_stream(&CommandRequest::default()).await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await.unwrap() {
        seen.push(match event {
            ExecuteEvent::Start(_) => "start".to_owned(),
            ExecuteEvent::Stdout(output) => output.data,
            ExecuteEvent::Complete(complete) => {
                assert_eq!(complete.end.reason, EndReason::Unknown);
                complete.exit_code.to_string()
            }
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["start", "a", "7"]);
}

#[tokio::test]
async fn an_unknown_error_ends_a_stream() {
    let body = stream(&[
        &format!(r#"{{"type":"process_info","processId":"x-1","command":"x","status":"paused",{TIME}}}"#),
        &format!(r#"{{"type":"error","error":"no","data":"no","code":"DISK_ON_FIRE",{TIME}}}"#),
    ]);
    let client = client("200 OK", "text/event-stream", body).await;
    let mut events = client.follow("x-1", &FollowOptions::default()).await.unwrap();
    let Some(ProcessEvent::ProcessInfo(info)) = events.next().await.unwrap() else { panic!("no process") };
    assert_eq!(info.status, ProcessStatus::Unknown);
    let Some(ProcessEvent::Error(error)) = events.next().await.unwrap() else { panic!("no error") };
    assert_eq!(error.code, ErrorCode::Unknown);
    assert!(events.next().await.unwrap().is_none());
}
