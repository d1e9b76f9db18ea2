//! Starting `sandcrab serve`, and refused starts.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::support::{Serve, TestDir, ended, eventually, is_alive, mode, ping};

#[test]
fn address_is_printed_and_the_token_is_not() {
    let place = TestDir::new();
    let serve = place.serve(&["--log", "trace"]);
    assert!(serve.address.starts_with("http://127.0.0.1:"), "{}", serve.address);
    let token_file = place.state().join("token");
    assert_eq!(serve.line(), format!("token in {} (Authorization: Bearer …)", token_file.display()));
    assert!(serve.answers());
    assert_eq!((mode(&token_file), mode(&place.state())), (0o600, 0o700));
    let token = std::fs::read_to_string(&token_file).unwrap();
    assert_eq!(token.trim().len(), 64);
    serve.signal(Signal::USR1);
    eventually("it writes its state", || serve.log().contains("state of the server").then_some(()));
    assert!(!serve.log().contains(token.trim()));
    serve.stop();
    // The token is the same after a restart.
    place.serve(&[]).stop();
    assert_eq!(std::fs::read_to_string(&token_file).unwrap(), token);
}

#[test]
fn json_log() {
    let place = TestDir::new();
    let serve = place.serve(&["--log-format", "json"]);
    serve.signal(Signal::USR1);
    eventually("it writes its state", || serve.log().contains("state of the server").then_some(()));
    for line in serve.log().lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(entry["message"].is_string(), "{line}");
    }
}

#[test]
fn unix_socket_is_private_replaced_and_removed() {
    let place = TestDir::new();
    let (path, listen) = (place.file("s"), format!("unix:{}", place.file("s").display()));
    let mut serve = place.serve(&["--listen", &listen]);
    assert_eq!(serve.address, listen);
    assert!(serve.answers());
    assert_eq!(mode(&path), 0o600);
    // With another state directory, the conflict is about the socket.
    let mut second = place.command();
    second.args(["--listen", &listen, "--state-dir"]).arg(place.file("other"));
    let (code, said) = place.refused(&mut second);
    assert!(code == Some(2) && said.contains("stop the process that uses it"), "{said}");
    assert!(serve.answers());
    let server = serve.server();
    serve.child.kill().unwrap();
    ended(&mut serve.child);
    eventually("the server is gone", || (!is_alive(server)).then_some(()));
    assert!(path.exists() && ping(&listen).is_none());
    let serve = place.serve(&["--listen", &listen]);
    assert!(serve.answers());
    serve.stop();
    assert!(!path.exists());
}

#[test]
fn second_server_on_a_state_directory_is_refused() {
    let place = TestDir::new();
    let serve = place.serve(&[]);
    let (code, said) = place.refused(&mut place.command());
    assert_eq!(code, Some(2));
    assert!(
        said.contains("another server or program uses") && said.contains("choose another state directory"),
        "{said}"
    );
    assert!(serve.answers());
    serve.stop();
}

#[test]
fn used_port_is_refused() {
    let (place, other) = (TestDir::new(), TestDir::new());
    let serve = other.serve(&[]);
    let address = serve.address.strip_prefix("http://").unwrap();
    let (code, said) = place.refused(place.command().args(["--listen", address]));
    assert_eq!(code, Some(2));
    assert!(said.contains(address) && said.contains("choose another address"), "{said}");
    serve.stop();
}

#[test]
fn readable_token_is_refused() {
    let place = TestDir::new();
    let token = place.file("secret");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef").unwrap();
    std::fs::set_permissions(&token, Permissions::from_mode(0o644)).unwrap();
    let (code, said) = place.refused(place.command().arg("--token-file").arg(&token));
    assert_eq!(code, Some(2));
    assert!(said.contains("chmod 600") && !said.contains("0123456789abcdef"), "{said}");
    std::fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    let serve = Serve::start(&place, place.command().arg("--token-file").arg(&token));
    assert!(serve.line().contains("secret") && !place.state().join("token").exists());
    serve.stop();
}

#[test]
fn no_auth_requires_a_private_address() {
    let place = TestDir::new();
    let (code, said) = place.refused(place.command().args(["--no-auth", "--listen", "0.0.0.0:0"]));
    assert!(code == Some(2) && said.contains("--trust-network"), "{said}");
    let serve = place.serve(&["--no-auth"]);
    assert!(serve.line().contains("no token is required"));
    assert!(serve.answers() && !place.state().join("token").exists());
    serve.stop();
}

#[test]
fn parent_has_one_thread() {
    let place = TestDir::new();
    let serve = place.serve(&[]);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", serve.child.id())).unwrap();
    assert_eq!(tasks.count(), 1);
    serve.stop();
}
