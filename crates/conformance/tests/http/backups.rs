//! Backups and folders on full and read-only disks, mount points, folders of other users, and a server that is killed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use sandcrab_conformance::http::{Request, TEST_TIMEOUT};
use serde_json::json;

use crate::support::{Disk, ServerProcess};

/// A user that is otherwise unused.
const USER: u32 = 54322;

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Waits for a state of the disk, which sends no event.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {TEST_TIMEOUT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A folder with this many files, whose content cannot be compressed.
fn fill(folder: &Path, files: usize, size: usize) {
    fs::create_dir_all(folder).unwrap();
    let mut state = 1_u64;
    for index in 0..files {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33).to_le_bytes()[0]
        };
        fs::write(folder.join(index.to_string()), (0..size).map(|_| next()).collect::<Vec<_>>()).unwrap();
    }
}

/// What does not fit changes nothing, and leaves nothing behind.
#[tokio::test]
async fn root_full_disk_and_mount_point() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::mount(dir.path().join("disk"), "4m");
    let server = ServerProcess::start(&[]).await;
    let target = &server.target;
    let (large, small) = (dir.path().join("large"), dir.path().join("small"));
    fill(&large, 8, 1 << 20);
    fill(&small, 2, 1000);
    fs::create_dir(disk.path.join("folder")).unwrap();
    fs::write(disk.path.join("folder/old"), "old").unwrap();
    let large = target.post("/api/backup/create", json!({"dir": large})).await.ok();
    let small = target.post("/api/backup/create", json!({"dir": small})).await.ok();
    let restore = async |dir: &Path, backup: &serde_json::Value| {
        target.post("/api/backup/restore", json!({"dir": dir, "id": backup["id"]})).await
    };
    for folder in [disk.path.join("folder"), disk.path.clone()] {
        restore(&folder, &large).await.refused(507, "NO_SPACE");
        assert_eq!(
            (names(&disk.path), names(&disk.path.join("folder"))),
            (vec!["folder".into()], vec!["old".into()])
        );
    }
    // An archive that does not fit.
    let body = json!({"dir": dir.path().join("large"), "archivePath": disk.path.join("archive")});
    target.post("/api/backup/create", body).await.refused(507, "NO_SPACE");
    assert_eq!(names(&disk.path), ["folder"]);
    // A folder that contains a mount point cannot be replaced.
    restore(dir.path(), &small).await.refused(409, "RESOURCE_BUSY");
    assert_eq!(restore(&disk.path.join("folder"), &small).await.ok()["atomic"], true);
    // A mount point stays, and its entries are replaced.
    let inode = fs::metadata(&disk.path).unwrap().ino();
    assert_eq!(restore(&disk.path, &small).await.ok()["atomic"], false);
    assert_eq!(
        (names(&disk.path), fs::metadata(&disk.path).unwrap().ino()),
        (vec!["0".into(), "1".into()], inode)
    );
    let remount = Command::new("mount").args(["-o", "remount,ro"]).arg(&disk.path).status().unwrap();
    assert!(remount.success());
    restore(&disk.path, &small).await.refused(403, "READ_ONLY");
    let body = json!({"dir": dir.path().join("small"), "archivePath": disk.path.join("archive")});
    target.post("/api/backup/create", body).await.refused(403, "READ_ONLY");
    server.stop().await;
}

/// Everything is done with the permissions of the user of the commands.
#[tokio::test]
async fn root_other_user() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let (open, closed) = (dir.path().join("open"), dir.path().join("closed"));
    fill(&open.join("folder"), 2, 100);
    fill(&closed, 1, 100);
    for path in [open.clone(), open.join("folder"), open.join("folder/0"), open.join("folder/1")] {
        std::os::unix::fs::chown(&path, Some(USER), Some(USER)).unwrap();
    }
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    let state = dir.path().join("state");
    let server = ServerProcess::start_in(dir, state.clone(), &[&format!("run-as={USER}:{USER}")]).await;
    let target = &server.target;
    target.post("/api/backup/create", json!({"dir": closed})).await.refused(403, "PERMISSION_DENIED");
    // A failed backup is removed before the answer.
    fill(&open.join("mixed"), 1, 100);
    fs::set_permissions(open.join("mixed/0"), Permissions::from_mode(0o600)).unwrap();
    let body = json!({"dir": open.join("mixed")});
    target.post("/api/backup/create", body).await.refused(403, "PERMISSION_DENIED");
    assert!(names(&state.join("backups")).is_empty());
    let made = target.post("/api/backup/create", json!({"dir": open.join("folder")})).await.ok();
    // The archive belongs to the server: it cannot be changed by commands.
    let archive = state.join("backups").join(format!("{}.tar.zst", made["id"].as_str().unwrap()));
    assert_eq!(
        (fs::metadata(&archive).unwrap().uid(), fs::metadata(&archive).unwrap().mode() & 0o777),
        (0, 0o600)
    );
    let restore =
        async |dir: &Path| target.post("/api/backup/restore", json!({"dir": dir, "id": made["id"]})).await;
    restore(&closed).await.refused(403, "PERMISSION_DENIED");
    restore(&closed.join("below")).await.refused(403, "PERMISSION_DENIED");
    assert_eq!(names(&closed), ["0"]);
    restore(&open.join("copy")).await.ok();
    assert_eq!(fs::metadata(open.join("copy/1")).unwrap().uid(), USER);
    // A file that the user cannot read is named.
    fs::write(open.join("folder/secret"), "x").unwrap();
    fs::set_permissions(open.join("folder/secret"), Permissions::from_mode(0o600)).unwrap();
    let refused = target.post("/api/backup/create", json!({"dir": open.join("folder")})).await;
    assert!(refused.refused(403, "PERMISSION_DENIED")["message"].as_str().unwrap().contains("secret"));
    target.post("/api/backup/create", json!({"dir": open.join("folder"), "excludes": ["secret"]})).await.ok();
    server.stop().await;
}

/// The folder is the old or the new one, and nothing else is left.
#[tokio::test]
async fn killed_while_it_restores() {
    let mut server = ServerProcess::start(&[]).await;
    let folder = server.folder().join("files");
    fill(&folder.join("from"), 3000, 300);
    fs::create_dir(folder.join("to")).unwrap();
    fs::write(folder.join("to/old"), "old").unwrap();
    let made = server.target.post("/api/backup/create", json!({"dir": folder.join("from")})).await.ok();
    let body = json!({"dir": folder.join("to"), "id": made["id"]});
    let mut connection = server.target.connect().await;
    connection.send(&Request::post("/api/backup/restore", &body)).await.unwrap();
    until("the restore has begun", || names(&folder).len() > 2 || names(&folder.join("to")).len() > 1).await;
    server.crash();
    server.restart().await;
    until("nothing is left behind", || names(&folder) == ["from", "to"]).await;
    let found = names(&folder.join("to"));
    assert!(found == ["old"] || found.len() == 3000, "{} files", found.len());
    server.target.post("/api/backup/restore", body).await.ok();
    assert_eq!(names(&folder.join("to")).len(), 3000);
    server.stop().await;
}

/// The mount point stays, so its entries are moved one by one.
#[tokio::test]
async fn root_killed_while_it_replaces_the_entries_of_a_mount_point() {
    const FILES: usize = 5_000;
    let mut server = ServerProcess::start(&[]).await;
    let disk = Disk::mount(server.folder().join("disk"), "64m");
    fill(&server.folder().join("from"), FILES, 10);
    let made =
        server.target.post("/api/backup/create", json!({"dir": server.folder().join("from")})).await.ok();
    for moved in ["old", "moving"] {
        for index in 0..FILES {
            fs::write(disk.path.join(format!("old-{index}")), "").unwrap();
        }
        let body = json!({"dir": disk.path, "id": made["id"]});
        let mut connection = server.target.connect().await;
        connection.send(&Request::post("/api/backup/restore", &body)).await.unwrap();
        let has_begun = || {
            let found = names(&disk.path);
            let temporary = found.iter().find(|name| name.starts_with(".sandcrab-"));
            // A fast server may be done before it is seen.
            let is_done = found.len() >= FILES && !found.iter().any(|name| name.starts_with("old-"));
            is_done || temporary.is_some_and(|name| disk.path.join(name).join(moved).exists())
        };
        until("the entries are being moved", has_begun).await;
        server.crash();
        server.restart().await;
        // At the first request, the entries are in their places.
        server.target.get("/api/backup/list").await.ok();
        let mut found = names(&disk.path);
        found.retain(|name| !name.starts_with(".sandcrab-"));
        assert_eq!(found.len(), FILES, "{moved}");
        let old = found.iter().filter(|name| name.starts_with("old-")).count();
        assert!(old == 0 || old == FILES, "{old}");
        until("nothing is left behind", || names(&disk.path).len() == FILES).await;
        server.target.post("/api/backup/restore", body).await.ok();
        for index in 0..FILES {
            fs::remove_file(disk.path.join(index.to_string())).unwrap();
        }
    }
    // A mount point could not be removed.
    drop(disk);
    server.stop().await;
}

/// The server was killed while it moved entries to a folder. A client that writes at once loses nothing.
#[tokio::test]
async fn interrupted_replacement_is_completed_before_the_first_request() {
    const FILES: usize = 20_000;
    const WRITTEN: usize = 100;
    let mut server = ServerProcess::start(&[]).await;
    server.crash();
    let folder = server.folder().join("folder");
    let temporary = folder.join(".sandcrab-1.tmp");
    fill(&temporary.join("new"), FILES, 1);
    for name in ["old", "moving"] {
        fs::create_dir(temporary.join(name)).unwrap();
    }
    std::os::unix::fs::symlink(&folder, temporary.join(".sandcrab-swap-target-.sandcrab-1.tmp")).unwrap();
    let (records, _) =
        sandcrab_workspace::staging::Records::open(&server.folder().join("state/staged")).unwrap();
    records.add(&temporary).unwrap().keep();
    server.restart().await;
    for index in 0..WRITTEN {
        let body = json!({"path": folder.join(index.to_string()), "content": "of a client"});
        server.target.post("/api/write", body).await.ok();
    }
    until("the temporary directory is removed", || !temporary.exists()).await;
    for index in 0..WRITTEN {
        assert_eq!(fs::read_to_string(folder.join(index.to_string())).unwrap(), "of a client");
    }
    assert_eq!(names(&folder).len(), FILES);
    server.stop().await;
}

#[tokio::test]
async fn killed_while_it_creates_a_backup() {
    let mut server = ServerProcess::start(&[]).await;
    let (folder, backups) = (server.folder().join("files"), server.folder().join("state/backups"));
    fill(&folder, 3000, 300);
    let body = json!({"dir": folder});
    let mut connection = server.target.connect().await;
    connection.send(&Request::post("/api/backup/create", &body)).await.unwrap();
    until("the backup has begun", || !names(&backups).is_empty()).await;
    server.crash();
    server.restart().await;
    let list = server.target.get("/api/backup/list").await.ok();
    let count = list["backups"].as_array().unwrap().len();
    // Each backup that is listed has an archive and a record.
    assert_eq!(names(&backups).len(), 2 * count, "{:?}", names(&backups));
    let made = server.target.post("/api/backup/create", body).await.ok();
    server
        .target
        .post("/api/backup/restore", json!({"dir": folder.join("copy"), "id": made["id"]}))
        .await
        .ok();
    server.stop().await;
}

/// Large archives need a bounded amount of memory.
#[tokio::test]
async fn memory_is_bounded() {
    let server = ServerProcess::start(&[]).await;
    let folder = server.folder().join("files");
    fill(&folder, 16, 1 << 20);
    for _ in 0..2 {
        let creates = (0..4).map(|_| server.target.post("/api/backup/create", json!({"dir": folder})));
        let made = futures_util::future::join_all(creates).await;
        let restores = made.iter().enumerate().map(|(index, made)| {
            let dir = server.folder().join(format!("copy{index}"));
            server.target.post("/api/backup/restore", json!({"dir": dir, "id": made.ok()["id"]}))
        });
        for done in futures_util::future::join_all(restores).await {
            done.ok();
        }
    }
    let peak = server.peak_bytes() >> 20;
    assert!(peak <= 150, "{peak} MiB");
    server.stop().await;
}
