//! Completeness: the suite contains every error code and every route.

use std::path::Path;

use sandcrab_api::ErrorCode;

use crate::support::ServerProcess;

/// Codes that no request can provoke on a working machine: internal errors, a missing shell, a supervisor
/// that is killed while it starts a command or has an older version, and codes for files.
const NOT_PROVOKED: [ErrorCode; 6] = [
    ErrorCode::InternalError,
    // Not an HTTP response; `websocket::cancel` expects it.
    ErrorCode::RequestCancelled,
    ErrorCode::NoShell,
    ErrorCode::ExecutionLost,
    ErrorCode::NotSupported,
    ErrorCode::FileNotFound,
];

fn sources() -> String {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [crate_dir.join("src/cases"), crate_dir.join("tests/http")];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten());
    let files =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "rs"));
    files.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn every_error_code_is_tested() {
    let sources = sources();
    let missing: Vec<_> = ErrorCode::ALL
        .iter()
        .filter(|code| {
            !NOT_PROVOKED.contains(code) && !sources.contains(&format!("{}, \"{code}\"", code.status()))
        })
        .collect();
    assert!(missing.is_empty(), "no case is refused with {missing:?}");
}

#[tokio::test]
async fn every_route_is_tested() {
    let server = ServerProcess::start(&[]).await;
    let document = server.target.get("/openapi.json").await.ok();
    let sources = sources();
    // `/api/session/{id}` also occurs as `{session}`, after the name of the variable.
    let names = |path: &str| {
        [path.to_owned(), path.replace("{id}", "{session}"), path.replace("{id}", "{id}/{action}")]
    };
    let paths = document["paths"].as_object().unwrap();
    let missing: Vec<_> =
        paths.keys().filter(|path| !names(path).iter().any(|name| sources.contains(name))).collect();
    assert!(missing.is_empty(), "no case asks {missing:?}");
    server.stop().await;
}
