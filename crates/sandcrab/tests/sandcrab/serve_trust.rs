//! Files that another user owns or can change are refused, because that user could run commands as the
//! server's user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use crate::support::TestDir;

/// The id of another user.
const OTHER: u32 = 54_321;
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn give(path: &Path) {
    chown(path, Some(OTHER), Some(OTHER)).unwrap();
}

/// Checks that a server refuses to start, and names the file.
#[track_caller]
fn refused(place: &TestDir, name: &Path, why: &str) {
    let (code, said) = place.refused(&mut place.command());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains(&name.display().to_string()) && said.contains(why), "{said}");
    assert!(!said.contains(TOKEN), "{said}");
}

#[test]
fn root_state_directory_of_another_user_is_refused() {
    let place = TestDir::new();
    let state = place.state();
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
    write(&state.join("token"), TOKEN, 0o600);
    give(&state);
    give(&state.join("token"));
    refused(&place, &state, "belongs to user 54321");
    // Only the token, or only the directory, belongs to another user.
    chown(&state, Some(0), Some(0)).unwrap();
    refused(&place, &state.join("token"), "belongs to user 54321");
    chown(state.join("token"), Some(0), Some(0)).unwrap();
    place.serve(&[]).stop();
    give(&state);
    refused(&place, &state, "belongs to user 54321");
    chown(&state, Some(0), Some(0)).unwrap();
}

#[test]
fn root_files_of_another_user_are_refused() {
    let place = TestDir::new();
    let serve = place.serve(&[]);
    assert!(serve.ask(&place, "POST /api/env", r#"{"vars":{"A":"1"}}"#).unwrap().contains("200 OK"));
    assert!(serve.ask(&place, "POST /api/execute", r#"{"command":"true"}"#).unwrap().contains("200 OK"));
    serve.stop();
    let state = place.state();
    write(&state.join("snapshots/000000.a"), "", 0o600);
    let names = ["lock", "environment.json", "journals", "supervisors", "snapshots", "journals/000000"];
    for name in names.into_iter().chain(["snapshots/000000.a", "token"]) {
        let path = state.join(name);
        give(&path);
        refused(&place, &path, "belongs to user 54321");
        chown(&path, Some(0), Some(0)).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        fs::set_permissions(&path, Permissions::from_mode(mode | 0o020)).unwrap();
        refused(&place, &path, "other users can write");
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    place.serve(&[]).stop();
}

#[test]
fn links_in_a_state_directory_are_not_followed() {
    let place = TestDir::new();
    place.serve(&[]).stop();
    let (state, target) = (place.state(), place.file("target"));
    for name in ["lock", "environment.json", "journals", "supervisors", "snapshots"] {
        let (path, aside) = (state.join(name), place.file("aside"));
        if path.exists() {
            fs::rename(&path, &aside).unwrap();
        }
        match name {
            "lock" | "environment.json" => write(&target, "{}", 0o600),
            _ => fs::create_dir(&target).unwrap(),
        }
        symlink(&target, &path).unwrap();
        refused(&place, &path, "");
        fs::remove_file(&path).unwrap();
        if target.is_dir() {
            fs::remove_dir(&target).unwrap();
        } else {
            fs::remove_file(&target).unwrap();
        }
        if aside.exists() {
            fs::rename(&aside, &path).unwrap();
        }
    }
    place.serve(&[]).stop();
}

#[test]
fn state_directory_in_a_writable_directory_is_refused() {
    let place = TestDir::new();
    let parent = place.file("shared");
    fs::create_dir(&parent).unwrap();
    fs::set_permissions(&parent, Permissions::from_mode(0o777)).unwrap();
    let (code, said) = place.refused(place.command().arg("--state-dir").arg(parent.join("state")));
    assert!(
        code == Some(2) && said.contains("other users can write") && said.contains("chmod 755"),
        "{said}"
    );
    fs::set_permissions(&parent, Permissions::from_mode(0o1777)).unwrap();
    let mut command = place.command();
    let serve = crate::support::Serve::start(&place, command.arg("--state-dir").arg(parent.join("state")));
    serve.stop();
}

#[test]
fn writable_configuration_file_is_refused() {
    let place = TestDir::new();
    let folder = place.file("config/sandcrab");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("config.toml");
    write(&path, "no-auth = true\n", 0o666);
    refused(&place, &path, "other users can write");
    write(&path, "no-auth = true\n", 0o644);
    if is_root() {
        give(&path);
        refused(&place, &path, "belongs to user 54321");
        chown(&path, Some(0), Some(0)).unwrap();
        give(&folder);
        refused(&place, &folder, "belongs to user 54321");
        chown(&folder, Some(0), Some(0)).unwrap();
    }
    place.serve(&[]).stop();
}

#[test]
fn root_address_file_of_another_user_is_refused() {
    let place = TestDir::new();
    let state = place.state();
    fs::create_dir(&state).unwrap();
    write(&state.join("address"), "http://127.0.0.1:9\n", 0o600);
    write(&state.join("token"), TOKEN, 0o600);
    give(&state.join("address"));
    let mut command = std::process::Command::new(crate::support::PROGRAM);
    place.prepare(&mut command);
    let (code, said) = place.refused(command.env("SANDCRAB_STATE_DIR", &state).arg("ps"));
    assert!(code == Some(125) && said.contains("belongs to user 54321") && said.contains("--url"), "{said}");
}
