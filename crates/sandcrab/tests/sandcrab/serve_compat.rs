//! `serve --compat sandbox-sdk`: implied options, and the variables of the reference.

use std::process::Command;

use crate::support::{Serve, TestDir, ask};

/// A server in this mode on a free port. Its command can be changed before the start.
fn serve(place: &TestDir, change: impl FnOnce(&mut Command)) -> Serve {
    let mut command = place.command();
    command.env("SANDCRAB_COMPAT", "sandbox-sdk").env("SANDCRAB_LISTEN", "0.0.0.0:0");
    change(&mut command);
    let mut serve = Serve::start(place, &mut command);
    serve.address = serve.address.replace("0.0.0.0", "127.0.0.1");
    serve
}

fn version(serve: &Serve, token: &str) -> String {
    ask(&serve.address, "GET /api/version", token, "").unwrap()
}

#[test]
fn no_token_is_required_and_a_warning_is_logged() {
    let place = TestDir::new();
    let serve = serve(&place, |_| {});
    assert!(version(&serve, "").contains("\"version\":\"0.12.7\""));
    assert!(serve.log().contains("every machine that can reach 0.0.0.0:"), "{}", serve.log());
    serve.stop();
}

/// The tools for models need the native API, and clients of the reference do not use them.
#[test]
fn tools_are_not_offered() {
    let place = TestDir::new();
    let serve = serve(&place, |_| {});
    let refused = ask(&serve.address, "POST /mcp", "", "{}").unwrap();
    assert!(refused.starts_with("HTTP/1.1 404"), "{refused}");
    serve.stop();
}

#[test]
fn token_is_required_if_configured() {
    let place = TestDir::new();
    let token_file = place.file("own-token");
    let options =
        [vec!["--no-auth=false".to_owned()], vec![format!("--token-file={}", token_file.display())]];
    for options in options {
        let serve = serve(&place, |command| {
            command.args(&options);
        });
        assert!(version(&serve, "").starts_with("HTTP/1.1 401"));
        let file = if token_file.exists() { &token_file } else { &place.state().join("token") };
        let token = std::fs::read_to_string(file).unwrap();
        assert!(version(&serve, token.trim()).starts_with("HTTP/1.1 200"));
        assert!(!serve.log().contains("every machine"), "{}", serve.log());
        serve.stop();
    }
}

#[test]
fn variables_of_the_reference() {
    let place = TestDir::new();
    let serve = serve(&place, |command| {
        command
            .env("SANDBOX_VERSION", "9.8.7")
            .env("CLOUDFLARE_PLACEMENT_ID", "place-1")
            .env("COMMAND_TIMEOUT_MS", "300")
            .env("SANDBOX_LOG_LEVEL", "debug")
            .env("SANDBOX_LOG_FORMAT", "json");
    });
    assert!(version(&serve, "").contains("\"version\":\"9.8.7\""));
    let made = ask(&serve.address, "POST /api/session/create", "", r#"{"id":"s"}"#).unwrap();
    assert!(made.contains("\"containerPlacementId\":\"place-1\""), "{made}");
    let again = ask(&serve.address, "POST /api/session/create", "", r#"{"id":"s"}"#).unwrap();
    assert!(again.starts_with("HTTP/1.1 409") && again.contains("place-1"), "{again}");
    let late = ask(&serve.address, "POST /api/execute", "", r#"{"command":"sleep 60"}"#).unwrap();
    assert!(late.contains("Command timeout after 300ms"), "{late}");
    assert!(
        serve.log().lines().any(|line| line.starts_with('{') && line.contains("DEBUG")),
        "{}",
        serve.log()
    );
    serve.stop();
}
