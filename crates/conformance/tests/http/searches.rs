//! Searches whose clients do not read.

use std::fmt::Write as _;

use sandcrab_conformance::http::Request;
use serde_json::json;

use crate::support::ServerProcess;

/// Streams whose clients do not read delay no other search.
#[tokio::test]
async fn unread_streams_leave_their_places() {
    let server = ServerProcess::start(&[]).await;
    let folder = server.folder().join("files");
    std::fs::create_dir(&folder).unwrap();
    let mut lines = String::new();
    for number in 0..100_000 {
        writeln!(lines, "needle {number} {}", "x".repeat(100)).unwrap();
    }
    std::fs::write(folder.join("many"), &lines).unwrap();
    std::fs::write(folder.join("one"), "single\n").unwrap();
    let request = json!({"path": folder, "pattern": "needle", "maxMatches": 100_000});
    let stream = Request::post("/api/search", &request).header("accept", "text/event-stream");
    let mut unread = Vec::new();
    for _ in 0..8 {
        let mut connection = server.target.connect().await;
        connection.send(&stream).await.unwrap();
        unread.push(connection);
    }
    for _ in 0..8 {
        let found =
            server.target.post("/api/search", json!({"path": folder, "pattern": "single"})).await.ok();
        assert_eq!(found["matches"][0]["line"], 1, "{found}");
    }
    drop(unread);
    server.stop().await;
}
