//! `ls`, `cat`, `write`, `cp`, `mv`, `rm`, `mkdir`, `chmod`, `stat`.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::support::{Program, TestServer, eventually};

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
    server.run(&["rm", &at("copy")]).with_code(125);
    server.run(&["rm", "-rf", &at("copy")]).with_code(0);
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
    assert!(server.run(&["cp", "a", "b"]).with_code(2).stderr.contains("colon"));
    assert_eq!(fs::read_dir(local.path()).unwrap().count(), 3);
}

#[test]
fn options_of_copies_that_have_no_effect_are_refused() {
    let server = TestServer::new();
    let (local, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = |name: &str| local.path().join(name).to_str().unwrap().to_owned();
    let there = |name: &str| format!(":{}", dir.path().join(name).display());
    fs::write(here("file"), "x").unwrap();
    fs::create_dir(here("folder")).unwrap();
    fs::write(dir.path().join("file"), "x").unwrap();
    for args in [
        ["--mode=0600", &here("folder"), &there("new")],
        ["--mode=0600", &there("file"), &here("new")],
        ["--mode=0600", &there("file"), &there("new")],
        ["--replace", &here("file"), &there("new")],
        ["--replace", &there("file"), &here("new")],
        ["--replace", &there("file"), &there("new")],
    ] {
        let refused = server.run(&[&["cp"][..], &args].concat()).with_code(2);
        assert!(refused.stderr.contains("has no effect on"), "{args:?}: {refused:?}");
    }
    assert!(!local.path().join("new").exists() && !dir.path().join("new").exists());
    server.run(&["start", "--id", "existing", "echo x"]).with_code(0);
    let refused =
        server.run(&["record", "--output", &here("cast"), "--term", "vt100", "existing"]).with_code(2);
    assert!(refused.stderr.contains("have no effect"), "{refused:?}");
    server.run(&["record", "--output", &here("cast"), "existing"]).with_code(0);
}

#[test]
fn folders_are_copied_both_ways() {
    let server = TestServer::new();
    let (local, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = |name: &str| local.path().join(name).to_str().unwrap().to_owned();
    let there = |name: &str| format!(":{}", dir.path().join(name).display());
    fs::create_dir_all(here("folder/sub/empty")).unwrap();
    fs::write(here("folder/sub/file"), vec![b'x'; 700_000]).unwrap();
    fs::write(here("folder/.hidden"), "h").unwrap();
    fs::set_permissions(here("folder/.hidden"), fs::Permissions::from_mode(0o751)).unwrap();
    std::os::unix::fs::symlink("sub/file", here("folder/link")).unwrap();
    let copied = server.run(&["cp", "--json", &here("folder"), &there("")]).with_code(0).json();
    assert_eq!(copied["bytes"], 700_001);
    server.run(&["cp", &here("folder"), &there("x/other")]).with_code(0);
    server.run(&["cp", &there("folder"), &here("back")]).with_code(0);
    for copy in [dir.path().join("folder"), dir.path().join("x/other"), here("back").into()] {
        assert_eq!(fs::read(copy.join("link")).unwrap().len(), 700_000);
        assert_eq!(fs::read_link(copy.join("link")).unwrap().to_str(), Some("sub/file"));
        assert_eq!(fs::metadata(copy.join(".hidden")).unwrap().permissions().mode() & 0o777, 0o751);
        assert!(copy.join("sub/empty").is_dir());
    }
    // A folder with content is replaced only if that is requested.
    fs::write(here("back/mine"), "mine").unwrap();
    for (from, to) in [(there("folder"), here("back/../back")), (here("folder"), there("x"))] {
        let place = |path: &str| path.replace("/back/../back", "/back").replace(":", "");
        fs::create_dir_all(format!("{}/folder/old", place(&to))).unwrap();
        assert!(server.run(&["cp", &from, &to]).with_code(2).stderr.contains("--replace"));
        server.run(&["cp", "--replace", &from, &to]).with_code(0);
        assert!(!std::path::Path::new(&format!("{}/folder/old", place(&to))).exists());
    }
    assert_eq!(fs::read(here("back/mine")).unwrap(), b"mine");
    // A destination with the name of the source is the folder itself.
    fs::write(here("folder/new"), "new").unwrap();
    fs::write(dir.path().join("folder/old"), "old").unwrap();
    server.run(&["cp", "--replace", &here("folder"), &there("folder")]).with_code(0);
    assert!(dir.path().join("folder/new").exists() && !dir.path().join("folder/old").exists());
    assert!(!dir.path().join("folder/folder").exists());
    fs::write(here("folder/old"), "old").unwrap();
    server.run(&["cp", "--replace", &there("folder"), &here("folder")]).with_code(0);
    assert!(!std::path::Path::new(&here("folder/old")).exists());
    assert!(
        server.run(&["cp", &there("none"), &here("none")]).with_code(125).stderr.contains("no such file")
    );
    assert_eq!(fs::read_dir(local.path()).unwrap().count(), 2);
}

/// Devices, links and modes of local files stay.
#[test]
fn local_files_are_replaced_with_care() {
    let server = TestServer::new();
    let (local, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = |name: &str| local.path().join(name).to_str().unwrap().to_owned();
    let there = format!(":{}", dir.path().join("file").display());
    fs::write(dir.path().join("file"), "new").unwrap();
    fs::set_permissions(dir.path().join("file"), fs::Permissions::from_mode(0o4711)).unwrap();
    // A FIFO stands for a device such as /dev/null.
    assert!(std::process::Command::new("mkfifo").arg(here("fifo")).status().unwrap().success());
    let reader = std::thread::spawn({
        let fifo = here("fifo");
        move || fs::read(fifo).unwrap()
    });
    server.run(&["cp", &there, &here("fifo")]).with_code(0);
    assert_eq!(reader.join().unwrap(), b"new");
    fs::write(here("target"), "old").unwrap();
    fs::set_permissions(here("target"), fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("target", here("link")).unwrap();
    server.run(&["cp", &there, &here("link")]).with_code(0);
    assert_eq!(fs::read_link(here("link")).unwrap().to_str(), Some("target"));
    let mode = |name: &str| fs::metadata(here(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((fs::read(here("target")).unwrap(), mode("target")), (b"new".to_vec(), 0o640));
    server.run(&["cp", &there, &here("copy")]).with_code(0);
    assert_eq!(mode("copy") & 0o4700, 0o700);
    std::os::unix::fs::symlink("nowhere", here("dangling")).unwrap();
    assert!(server.run(&["cp", &there, &here("dangling")]).with_code(74).stderr.contains("No such file"));
    assert_eq!(fs::read_dir(local.path()).unwrap().count(), 5);
}

/// A server whose files and folders never arrive completely. Returns its address.
fn stalling_server(stat: String, beginning: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = move |mut connection: TcpStream| {
        let mut request = BufReader::new(connection.try_clone().unwrap());
        let mut line = String::new();
        request.read_line(&mut line).unwrap();
        if line.starts_with("POST /api/stat") {
            let head =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", stat.len());
            connection.write_all(format!("{head}{stat}").as_bytes()).unwrap();
            return;
        }
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n").unwrap();
        connection.write_all(&beginning).unwrap();
        // Until the client leaves.
        while request.read_line(&mut line).is_ok_and(|size| size > 0) {}
    };
    std::thread::spawn(move || {
        listener.incoming().for_each(|connection| {
            let answer = answer.clone();
            std::thread::spawn(move || answer(connection.unwrap()));
        });
    });
    format!("http://{address}")
}

/// A signal during a copy from the sandbox leaves the old file or folder, and nothing else.
#[test]
fn interrupted_copies_leave_nothing() {
    let server = TestServer::new();
    let (local, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(dir.path().join("file"), vec![b'x'; 1 << 20]).unwrap();
    let tar = &mut std::process::Command::new("tar");
    let tar = Program::start(tar.arg("c").current_dir(dir.path()).arg(".")).finish().with_code(0);
    let copy = local.path().join("copy");
    let count = || fs::read_dir(local.path()).unwrap().count();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for (name, signal, code) in [("file", Signal::INT, 130), ("", Signal::INT, 130), ("", Signal::TERM, 143)]
    {
        let stat = server.run(&["stat", "--json", &path(name)]).with_code(0);
        let url = stalling_server(stat.text().to_owned(), tar.stdout[..300_000].to_vec());
        // A file is replaced, a folder is new.
        let old = if name.is_empty() { local.path().join("other") } else { copy.clone() };
        fs::write(&old, "old").unwrap();
        let from = format!(":{}", path(name));
        let options = ["--url", &url, "cp", &from, copy.to_str().unwrap()];
        let program = Program::start(&mut server.sandcrab(&options));
        eventually("the copy has begun", || (count() == 2).then_some(()));
        program.signal(signal);
        let done = program.finish().with_code(code);
        assert!(done.stderr.contains("interrupted"), "{done:?}");
        assert_eq!((fs::read_to_string(&old).unwrap().as_str(), count()), ("old", 1), "{name}");
        fs::remove_file(&old).unwrap();
    }
}

/// Ctrl-C in an editor reaches this program too.
#[test]
fn signals_of_an_editor_do_not_end_the_edit() {
    let server = TestServer::new();
    let dir = tempfile::tempdir().unwrap();
    // Its name is longer than fits into the name of the copy, and ends within a character there.
    let name = format!("{}.txt", "ä".repeat(120));
    let file = dir.path().join(&name);
    let mut command = server.sandcrab(&["edit", file.to_str().unwrap()]);
    command.env("VISUAL", "trap '' INT QUIT; kill -INT $PPID; kill -QUIT $PPID; printf edited >");
    command.env("TMPDIR", dir.path());
    Program::start(&mut command).finish().with_code(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "edited");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn backups_are_created_restored_and_deleted() {
    let server = TestServer::new();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(at("folder/node_modules")).unwrap();
    fs::write(at("folder/file"), "one").unwrap();
    let create = ["backup", "create", &at("folder"), "--name", "first", "--ttl", "2h", "-x", "node_modules"];
    let id = server.run(&create).with_code(0).text().trim().to_owned();
    let list = server.run(&["backup", "list"]).with_code(0);
    assert!(list.text().contains(&id) && list.text().contains("first"), "{list:?}");
    fs::write(at("folder/file"), "two").unwrap();
    server.run(&["backup", "restore", &id]).with_code(0);
    assert_eq!(fs::read(at("folder/file")).unwrap(), b"one");
    assert!(!dir.path().join("folder/node_modules").exists());
    let restored =
        server.run(&["backup", "restore", "--json", &id, "--to", &at("other")]).with_code(0).json();
    assert_eq!((&restored["entries"], &restored["atomic"]), (&2.into(), &true.into()));
    let archive =
        server.run(&["backup", "create", &at("folder"), "--archive", &at("a.tar.zst")]).with_code(0);
    assert_eq!(archive.text().trim(), at("a.tar.zst"));
    server.run(&["backup", "restore", "--archive", &at("a.tar.zst"), "--to", &at("third")]).with_code(0);
    assert_eq!(fs::read(at("third/file")).unwrap(), b"one");
    server.run(&["backup", "restore", "--archive", &at("a.tar.zst")]).with_code(2);
    server.run(&["backup", "delete", &id]).with_code(0);
    assert!(server.run(&["backup", "restore", &id]).with_code(125).stderr.contains("not found"));
    assert_eq!(
        server.run(&["backup", "list", "--json"]).with_code(0).json()["backups"],
        serde_json::json!([])
    );
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

#[test]
fn edit_writes_the_file_back_unless_it_has_changed() {
    let server = TestServer::new();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let name = file.to_str().unwrap();
    let edit = |editor: &str, args: &[&str]| {
        let mut command = server.sandcrab(&[&["edit"], args].concat());
        command.env("VISUAL", editor).env("TMPDIR", dir.path());
        Program::start(&mut command).finish()
    };
    // A new file.
    edit("printf one >", &[name]).with_code(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "one");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
    let json = edit("sed -i s/one/two/", &[name, "--json"]).with_code(0).json();
    assert_eq!((&json["changed"], &json["bytesWritten"]), (&true.into(), &3.into()), "{json}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "two");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o750);
    let json = edit("true", &[name, "--json"]).with_code(0).json();
    assert_eq!(json["changed"], false, "{json}");
    // An editor that fails changes nothing.
    let failed = edit("sed -i s/two/lost/; false", &[name]);
    assert_ne!(failed.code, Some(0), "{failed:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "two");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    // Another program writes the file while the editor is open.
    let both = format!("printf theirs > '{name}'; sed -i s/two/mine/");
    let conflict = edit(&both, &[name]);
    assert_ne!(conflict.code, Some(0), "{conflict:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
    let kept: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).filter(|path| *path != file).collect();
    assert_eq!((kept.len(), fs::read_to_string(&kept[0]).unwrap().as_str()), (1, "mine"));
    assert!(conflict.stderr.contains(kept[0].to_str().unwrap()), "{conflict:?}");
}
