//! `service`.

use crate::support::TestServer;

#[test]
fn life_of_a_service() {
    let server = TestServer::new();
    let of =
        |operation: &str, code| server.run(&["service", operation, "web"]).with_code(code).text().to_owned();
    let start = ["service", "start", "--id", "web", "--check", "true", "--interval", "100ms", "--wait"];
    let started = server.run(&[&start[..], &["echo hello; exec sleep 600"]].concat()).with_code(0);
    assert_eq!(started.text(), "web\n");
    assert_eq!(server.run(&["service", "list", "-q"]).with_code(0).text(), "web\n");
    assert!(server.run(&["service", "list"]).with_code(0).text().contains("echo hello"));
    let status = server.run(&["service", "status", "--json", "web"]).with_code(0).json();
    let execution = status["executionId"].as_str().unwrap().to_owned();
    assert!(of("status", 0).contains(&execution));
    assert_eq!(of("health", 0), "web healthy\n");
    assert_eq!(of("logs", 0), "hello\n");
    assert_eq!(server.run(&["service", "logs", "-n", "1", "web"]).with_code(0).text(), "hello\n");

    let restarted = of("restart", 0);
    assert!(restarted.starts_with("web.") && restarted.trim_end() != execution, "{restarted}");
    of("stop", 0);
    of("health", 1);
    let status = server.run(&["service", "status", "--json", "web"]).with_code(0).json();
    assert_eq!(status["state"], "stopped", "{status}");
    of("delete", 0);
    assert_eq!(server.run(&["service", "list", "-q"]).with_code(0).text(), "");
    let none = server.run(&["service", "status", "web"]);
    assert!(none.code != Some(0) && none.stderr.contains("web"), "{none:?}");
}

/// The word is not run as a command.
#[test]
fn stopped_service_is_started_again_by_its_id() {
    let server = TestServer::new();
    let run = |words: &[&str]| server.run(&[&["service"], words].concat());
    run(&["start", "--id", "web", "exec sleep 600"]).with_code(0);
    let running = run(&["start", "web"]).with_code(2);
    assert!(running.stderr.contains("service restart web"), "{running:?}");
    run(&["stop", "web"]).with_code(0);
    let other = run(&["start", "--restart", "always", "web"]).with_code(2);
    assert!(other.stderr.contains("as it was defined"), "{other:?}");
    assert_eq!(run(&["start", "web"]).with_code(0).text(), "web\n");
    let status = run(&["status", "--json", "web"]).with_code(0).json();
    assert_eq!((&status["state"], &status["command"]), (&"running".into(), &"exec sleep 600".into()));
    assert_eq!(run(&["list", "-q"]).with_code(0).text(), "web\n");
    // With an id, a word is a command.
    assert_eq!(run(&["start", "--id", "other", "true"]).with_code(0).text(), "other\n");
}
