//! `ls`, `cat`, `write`, `cp`, `mv`, `rm`, `mkdir`, `chmod`, `stat`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Program, TestServer};

#[test]
fn files_are_written_listed_and_deleted() {
    let server = TestServer::new();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let file = at("a/file");
    Program::fed(&mut server.sandcrab(&["write", &file]), b"hello\0\xff\n").finish().with_code(0);
    Program::fed(&mut server.sandcrab(&["write", "--append", &file]), b"more").finish().with_code(0);
    assert_eq!(server.run(&["cat", &file]).with_code(0).stdout, b"hello\0\xff\nmore");
    let content = server.run(&["cat", "--json", &file]).with_code(0).json();
    assert_eq!((&content["encoding"], &content["size"]), (&"base64".into(), &12.into()));
    server.run(&["chmod", "0640", &file]).with_code(0);
    server.run(&["mkdir", "-p", &at("b/c")]).with_code(0);
    server.run(&["mv", &file, &at("b/moved")]).with_code(0);
    server.run(&["cp", &format!(":{}", at("b")), &format!(":{}", at("copy"))]).with_code(0);
    assert_eq!(
        server.run(&["ls", "-R", &at("")]).with_code(0).text(),
        "a\nb\nb/c\nb/moved\ncopy\ncopy/c\ncopy/moved\n"
    );
    let long = server.run(&["ls", "-l", &at("copy")]).with_code(0);
    assert!(long.text().contains("-rw-r-----  12"), "{long:?}");
    let stat = server.run(&["stat", &at("copy/moved")]).with_code(0);
    assert!(stat.text().contains("0640 rw-r-----"), "{stat:?}");
    assert!(server.run(&["rm", &at("copy")]).with_code(125).stderr.contains("directory"));
    server.run(&["rm", "-r", &at("copy"), &at("a")]).with_code(0);
    let list = server.run(&["ls", "--json", &at("")]).with_code(0).json();
    assert_eq!((&list["count"], &list["files"][0]["name"]), (&1.into(), &"b".into()));
    assert!(server.run(&["cat", &at("none")]).with_code(125).stderr.contains("no such file"));
}

#[test]
fn files_are_copied_both_ways() {
    let server = TestServer::new();
    let (local, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = |name: &str| local.path().join(name).to_str().unwrap().to_owned();
    let there = |name: &str| format!(":{}", dir.path().join(name).display());
    let bytes: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(here("large"), &bytes).unwrap();
    fs::set_permissions(here("large"), fs::Permissions::from_mode(0o750)).unwrap();
    // To a directory: the name stays.
    let copied = server.run(&["cp", "--json", &here("large"), &there("")]).with_code(0).json();
    assert_eq!(copied["bytes"], 4_000_000);
    let copy = dir.path().join("large");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o750);
    assert!(fs::read(&copy).unwrap() == bytes);
    server.run(&["cp", &there("large"), &here("back")]).with_code(0);
    assert!(fs::read(here("back")).unwrap() == bytes);
    Program::fed(&mut server.sandcrab(&["cp", "-", &there("deep/from-stdin")]), b"piped")
        .finish()
        .with_code(0);
    assert_eq!(server.run(&["cp", &there("deep/from-stdin"), "-"]).with_code(0).text(), "piped");
    server.run(&["cp", &there("deep/from-stdin"), &here("")]).with_code(0);
    assert_eq!(fs::read(here("from-stdin")).unwrap(), b"piped");
    // A copy that fails leaves nothing behind.
    server.run(&["cp", &there("none"), &here("none")]).with_code(125);
    assert!(
        server.run(&["cp", &here("none"), &there("none")]).with_code(74).stderr.contains("failed to read")
    );
    assert!(server.run(&["cp", &here(""), &there("none")]).with_code(74).stderr.contains("tar c"));
    assert!(server.run(&["cp", "a", "b"]).with_code(2).stderr.contains("colon"));
    assert_eq!(fs::read_dir(local.path()).unwrap().count(), 3);
}

#[test]
fn paths_are_relative_to_a_session() {
    let server = TestServer::new();
    let dir = tempfile::tempdir().unwrap();
    let cwd = dir.path().to_str().unwrap();
    server.run(&["session", "create", "s", "--cwd", cwd]).with_code(0);
    Program::fed(&mut server.sandcrab(&["write", "-s", "s", "here"]), b"x").finish().with_code(0);
    assert_eq!(fs::read(dir.path().join("here")).unwrap(), b"x");
    assert_eq!(server.run(&["ls", "-s", "s"]).with_code(0).text(), "here\n");
}
