//! Files on full and read-only disks, files of other users, and a server that is killed while it writes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use sandcrab_conformance::http::{Request, Response, TEST_TIMEOUT, Target};
use serde_json::json;

use crate::support::{Disk, HungDisk, ServerProcess, not_run};

/// A user that is otherwise unused.
const USER: u32 = 54321;

async fn put(target: &Target, path: &Path, size: usize) -> Response {
    target
        .send(Request::new("PUT", format!("/api/file?path={}", path.display())).body(vec![b'x'; size]))
        .await
}

fn names(directory: &Path) -> Vec<String> {
    let names =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// Waits for a state of the disk, which sends no event.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {TEST_TIMEOUT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A write that does not fit changes nothing, and leaves nothing behind.
#[tokio::test]
async fn root_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::mount(dir.path().join("disk"), "2m");
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    let file = disk.path.join("file");
    fs::write(&file, "old").unwrap();
    put(target, &file, 5 << 20).await.refused(507, "NO_SPACE");
    let content = "x".repeat(3 << 20);
    target.post("/api/write", json!({"path": file, "content": content})).await.refused(507, "NO_SPACE");
    let large = dir.path().join("large");
    fs::write(&large, &content).unwrap();
    for route in ["/api/copy", "/api/move"] {
        let body = json!({"sourcePath": large, "destinationPath": disk.path.join("large")});
        target.post(route, body).await.refused(507, "NO_SPACE");
    }
    assert_eq!(fs::read_to_string(&large).unwrap().len(), content.len());
    assert_eq!(
        (fs::read_to_string(&file).unwrap().as_str(), names(&disk.path)),
        ("old", vec!["file".into()])
    );
    put(target, &file, 1 << 20).await.ok();

    // Half of the disk is used: the new content of the file does not fit beside the old one.
    fs::write(&file, vec![b'x'; 1_200_000]).unwrap();
    let body = json!({"path": disk.path, "pattern": "^x", "replacement": "y", "regex": true});
    let replaced = target.post("/api/replace", body).await.ok();
    assert_eq!((&replaced["success"], &replaced["skipped"][0]["code"]), (&json!(false), &json!("NO_SPACE")));
    let folder = dir.path().join("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("large"), &content).unwrap();
    let archive = target.get(format!("/api/folder?format=tar&path={}", folder.display())).await;
    assert_eq!(archive.status(), 200);
    for name in ["", "/new"] {
        let path = format!("/api/folder?path={}{name}", disk.path.display());
        let request = Request::new("PUT", path).body(archive.body.clone());
        target.send(request).await.refused(507, "NO_SPACE");
        assert_eq!(names(&disk.path), ["file"]);
        assert_eq!(fs::read(&file).unwrap(), vec![b'x'; 1_200_000]);
    }
    server.stop().await;
}

/// A byte now and then does not hold a permit for ever.
#[tokio::test]
async fn slow_upload_of_a_folder_is_given_up() {
    let server = ServerProcess::start(&["body-timeout-ms=500"]).await;
    let (target, folder) = (&server.target, server.folder().join("folder"));
    let mut connection = target.connect().await;
    let head = format!(
        "PUT /api/folder?path={} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-length: 1000000\r\n\r\n",
        folder.display(),
        target.authority(),
        target.token().unwrap()
    );
    connection.send_bytes(head.as_bytes()).await.unwrap();
    let deadline = Instant::now() + TEST_TIMEOUT;
    let refused = loop {
        assert!(Instant::now() < deadline, "not given up within {TEST_TIMEOUT:?}");
        // The server may have closed the connection.
        drop(connection.send_bytes(b"x").await);
        if let Ok(head) = tokio::time::timeout(Duration::from_millis(50), connection.any_head()).await {
            break head;
        }
    };
    // A byte that arrives after the response resets the connection.
    assert!(refused.is_err() || refused.is_ok_and(|head| head.status == 400));
    assert_eq!(names(server.folder()), ["state"]);
    server.stop().await;
}

#[tokio::test]
async fn root_read_only_disk() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::mount(dir.path().join("disk"), "2m");
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    let file = disk.path.join("file");
    fs::write(&file, "old").unwrap();
    let remount = Command::new("mount").args(["-o", "remount,ro"]).arg(&disk.path).status().unwrap();
    assert!(remount.success());
    put(target, &file, 3).await.refused(403, "READ_ONLY");
    let new = disk.path.join("new");
    for (route, body) in [
        ("/api/write", json!({"path": file, "content": "x"})),
        ("/api/write", json!({"path": new, "content": "x"})),
        ("/api/write", json!({"path": file, "content": "x", "append": true})),
        ("/api/delete", json!({"path": file})),
        ("/api/mkdir", json!({"path": new})),
        ("/api/chmod", json!({"path": file, "mode": "0600"})),
        ("/api/rename", json!({"oldPath": file, "newPath": new})),
        ("/api/copy", json!({"sourcePath": file, "destinationPath": new})),
    ] {
        target.post(route, body).await.refused(403, "READ_ONLY");
    }
    assert_eq!(target.post("/api/read", json!({"path": file})).await.ok()["content"], "old");
    server.stop().await;
}

/// Operations have the permissions of the user of the commands, whatever links a command has made.
#[tokio::test]
async fn root_files_of_another_user() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let state = dir.path().join("state");
    let (secret, open) = (dir.path().join("secret"), dir.path().join("open"));
    fs::write(&secret, "secret").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(&open).unwrap();
    std::os::unix::fs::chown(&open, Some(USER), Some(USER)).unwrap();
    symlink(&secret, open.join("link")).unwrap();
    symlink(dir.path(), open.join("up")).unwrap();
    let server = ServerProcess::start_in(dir, state, &[&format!("run-as={USER}:{USER}")]).await;
    let target = &server.target;
    let link = open.join("link");
    for (route, body) in [
        ("/api/read", json!({"path": link})),
        ("/api/read/stream", json!({"path": link})),
        ("/api/write", json!({"path": link, "content": "x"})),
        ("/api/delete", json!({"path": open.join("up/secret")})),
        ("/api/chmod", json!({"path": link, "mode": "0666"})),
        ("/api/copy", json!({"sourcePath": link, "destinationPath": open.join("copy")})),
        ("/api/mkdir", json!({"path": open.join("up/new")})),
    ] {
        target.post(route, body).await.refused(403, "PERMISSION_DENIED");
    }
    put(target, &link, 3).await.refused(403, "PERMISSION_DENIED");
    target.get(format!("/api/file?path={}", link.display())).await.refused(403, "PERMISSION_DENIED");
    put(target, &open.join("own"), 3).await.ok();
    target.post("/api/write", json!({"path": open.join("deep/own"), "content": "x"})).await.ok();
    for name in ["own", "deep", "deep/own"] {
        assert_eq!(fs::metadata(open.join(name)).unwrap().uid(), USER, "{name}");
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    server.stop().await;
}

/// A server that is killed in the middle of a body leaves the old content, and nothing else.
#[tokio::test]
async fn killed_while_it_writes() {
    let mut server = ServerProcess::start(&[]).await;
    let folder = server.folder().join("files");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("file");
    fs::write(&file, "old").unwrap();
    let half = Request::new("PUT", format!("/api/file?path={}", file.display()))
        .header("content-length", "8388608")
        .body(vec![b'x'; 4 << 20]);
    let mut connection = server.target.connect().await;
    connection.send(&half).await.unwrap();
    until("the server has written some of it", || has_written(server.pid(), &folder)).await;
    server.crash();
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    server.restart().await;
    // Where the file system has no unnamed files, the next server removes the temporary file.
    until("nothing is left behind", || names(&folder) == ["file"]).await;
    put(&server.target, &file, 3).await.ok();
    assert_eq!(fs::read_to_string(&file).unwrap(), "xxx");
    server.stop().await;
}

/// What a killed server has copied is removed by the next one.
#[tokio::test]
async fn killed_while_it_copies() {
    let mut server = ServerProcess::start(&[]).await;
    let folder = server.folder().join("files");
    fs::create_dir_all(folder.join("from/below")).unwrap();
    // Its content has no blocks, but copying it takes long.
    fs::File::create(folder.join("from/below/large")).unwrap().set_len(64 << 30).unwrap();
    let copy = json!({"sourcePath": folder.join("from"), "destinationPath": folder.join("to")});
    let mut connection = server.target.connect().await;
    connection.send(&Request::post("/api/copy", &copy)).await.unwrap();
    until("the copy has begun", || names(&folder).iter().any(|name| name.starts_with(".sandcrab-"))).await;
    server.crash();
    assert!(!folder.join("to").exists());
    server.restart().await;
    until("nothing is left behind", || names(&folder) == ["from"]).await;
    server.stop().await;
}

/// A file system that never answers occupies all threads for files. Everything else works, and operations on other files
/// are refused with an error that tells why.
#[tokio::test]
async fn root_file_system_that_does_not_respond() {
    let server = ServerProcess::start(&[]).await;
    let Some(disk) = HungDisk::mount(server.folder().join("hung")) else {
        not_run("the kernel has no FUSE");
        server.stop().await;
        return;
    };
    let here = server.folder().join("here");
    fs::write(&here, "x").unwrap();
    let moved = server.folder().join("moved");
    fs::write(&moved, "x").unwrap();
    let inside = disk.path.join("file");
    let requests = [
        Request::new("GET", format!("/api/file?path={}", inside.display())),
        Request::new("PUT", format!("/api/file?path={}", inside.display())).body(b"x".to_vec()),
        Request::post("/api/read/stream", &json!({"path": inside})),
        Request::post("/api/list-files", &json!({"path": disk.path})),
        Request::post("/api/search", &json!({"path": disk.path, "pattern": "x"})),
        Request::post("/api/watch", &json!({"path": disk.path})),
        Request::post("/api/stat", &json!({"path": inside})),
        Request::post("/api/move", &json!({"sourcePath": moved, "destinationPath": inside})),
    ];
    let mut hung = Vec::new();
    for request in requests.iter().cycle().take(64) {
        let mut connection = server.target.connect().await;
        connection.send(request).await.unwrap();
        hung.push(connection);
    }
    let stat = || server.target.post("/api/stat", json!({"path": here}));
    // Requests on the hung file system are still being received.
    let refused = loop {
        let response = stat().await;
        if response.status() != 200 {
            break response;
        }
    };
    let error = refused.json();
    assert_eq!((refused.status(), error["code"].as_str()), (429, Some("LIMIT_EXCEEDED")), "{error}");
    assert!(error["suggestion"].as_str().unwrap().contains("mounted file system"), "{error}");
    let done = server.target.post("/api/execute", json!({"command": "echo works"})).await.ok();
    assert_eq!(done["stdout"], "works\n", "{done}");
    drop(disk);
    drop(hung);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while stat().await.status() != 200 {
        assert!(Instant::now() < deadline, "the threads are still occupied");
    }
    server.stop().await;
}

/// Whether a process has an open file with content in this directory, without a name.
fn has_written(pid: u32, folder: &Path) -> bool {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten().any(|entry| {
        let is_there = fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(folder));
        is_there && fs::metadata(entry.path()).is_ok_and(|file| file.len() >= 1 << 20)
    })
}

/// An incomplete body changes nothing.
#[tokio::test]
async fn client_disconnects_while_it_writes() {
    let server = ServerProcess::start(&[]).await;
    let folder = server.folder().join("files");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("file");
    fs::write(&file, "old").unwrap();
    let half = Request::new("PUT", format!("/api/file?path={}", file.display()))
        .header("content-length", "8388608")
        .body(vec![b'x'; 4 << 20]);
    let mut connection = server.target.connect().await;
    connection.send(&half).await.unwrap();
    drop(connection);
    // The connection is gone when the server has dropped the request.
    server.target.until("/api/health", |health| health["counts"]["connections"] == 1).await;
    assert_eq!((fs::read_to_string(&file).unwrap().as_str(), names(&folder)), ("old", vec!["file".into()]));
    server.stop().await;
}

/// Paths are relative to the directory of the session, also after its supervisor was killed.
#[tokio::test]
async fn killed_session_keeps_the_meaning_of_relative_paths() {
    let server = ServerProcess::start(&[]).await;
    let folder = server.folder().join("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("here"), "x").unwrap();
    let session = server.target.make_session(json!({"cwd": folder})).await;
    // The parent of the shell is the supervisor.
    let killed = json!({"command": "kill -9 $PPID; sleep 100", "sessionId": session});
    drop(server.target.post("/api/execute", killed).await);
    let exists = server.target.post("/api/exists", json!({"path": "here", "sessionId": session})).await.ok();
    assert_eq!(exists["exists"], true, "{exists}");
    server.stop().await;
}
