use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::tree::Tree;
use super::*;
use crate::{FileErrorKind, Identity};

/// A watch whose events a test waits for.
struct Observed {
    watch: Watch,
    woken: Receiver<()>,
    root: std::path::PathBuf,
    seen: Vec<WatchEvent>,
    lasts: usize,
}

impl Observed {
    fn new(root: &Path, options: &WatchOptions) -> Self {
        let (wake, woken) = channel();
        let watch = Watch::open(root, options, move || wake.send(()).unwrap_or_default()).unwrap();
        Self { watch, woken, root: root.to_owned(), seen: Vec::new(), lasts: 0 }
    }

    /// Waits for an event, as `kind path`. Directories end with a slash.
    fn wait_for(&mut self, expected: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            while let Some(event) = self.watch.take().unwrap() {
                self.seen.push(event);
            }
            if self.shown().iter().any(|shown| shown == expected) {
                return;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{expected:?} did not come: {:?}", self.shown());
            // The sender lives as long as the thread.
            let _ended = self.woken.recv_timeout(left.min(Duration::from_secs(1)));
        }
    }

    fn shown(&self) -> Vec<String> {
        let show = |event: &WatchEvent| match event {
            WatchEvent::Resync(reason) => format!("resync {reason:?}"),
            WatchEvent::Change(change) => {
                let path = change.path.strip_prefix(&self.root).unwrap().to_string_lossy().into_owned();
                format!("{:?} {path}{}", change.kind, if change.is_directory { "/" } else { "" })
            }
        };
        self.seen.iter().map(show).collect()
    }

    /// Everything that was seen up to the creation of a last file.
    fn all(&mut self) -> Vec<String> {
        self.lasts += 1;
        let last = format!("zz-last-{}", self.lasts);
        fs::write(self.root.join(&last), "").unwrap();
        self.wait_for(&format!("Create {last}"));
        let mut shown = self.shown();
        shown.retain(|shown| !shown.contains("zz-last"));
        self.seen.clear();
        shown
    }
}

#[test]
fn changes_of_files() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fs::create_dir(at("sub")).unwrap();
    fs::write(at("sub/old"), "x").unwrap();
    let mut watch = Observed::new(root.path(), &WatchOptions::default());
    fs::write(at("sub/new"), "text").unwrap();
    watch.wait_for("Modify sub/new");
    fs::rename(at("sub/new"), at("moved")).unwrap();
    watch.wait_for("MoveTo moved");
    fs::remove_file(at("sub/old")).unwrap();
    watch.wait_for("Delete sub/old");
    fs::set_permissions(at("moved"), fs::Permissions::from_mode(0o600)).unwrap();
    let cookies: Vec<_> = watch
        .seen
        .iter()
        .filter_map(|event| match event {
            WatchEvent::Change(change) => Some(change.cookie),
            WatchEvent::Resync(_) => None,
        })
        .filter(|cookie| *cookie != 0)
        .collect();
    assert!(matches!(cookies[..], [from, to] if from == to), "{cookies:?}");
    let expected = ["Create sub/new", "Modify sub/new", "MoveFrom sub/new", "MoveTo moved", "Delete sub/old"];
    assert_eq!(watch.all(), expected);
}

#[test]
fn new_directories_are_watched_with_what_they_contain() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let mut watch = Observed::new(root.path(), &WatchOptions::default());
    for round in 0..20 {
        let top = at(&format!("d{round}"));
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/b/file"), "x").unwrap();
        watch.wait_for(&format!("Create d{round}/a/b/file"));
        fs::write(top.join("a/b/later"), "x").unwrap();
        watch.wait_for(&format!("Create d{round}/a/b/later"));
    }
}

#[test]
fn moved_directories_keep_their_watches() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fs::create_dir_all(at("a/deep")).unwrap();
    fs::create_dir(at("b")).unwrap();
    fs::create_dir_all(outside.path().join("in/deep")).unwrap();
    let mut watch = Observed::new(root.path(), &WatchOptions::default());
    fs::rename(at("a"), at("b/c")).unwrap();
    fs::write(at("b/c/deep/file"), "").unwrap();
    watch.wait_for("Create b/c/deep/file");
    // A directory from elsewhere is watched, one that leaves is not.
    fs::rename(outside.path().join("in"), at("in")).unwrap();
    watch.wait_for("MoveTo in/");
    fs::write(at("in/deep/file"), "").unwrap();
    watch.wait_for("Create in/deep/file");
    fs::rename(at("in"), outside.path().join("out")).unwrap();
    watch.wait_for("MoveFrom in/");
    watch.all();
    watch.all();
    watch.all();
    fs::write(outside.path().join("out/deep/unseen"), "").unwrap();
    assert_eq!(watch.all(), Vec::<String>::new());
}

#[test]
fn atomic_write_is_a_creation_or_a_modification() {
    let root = tempfile::tempdir().unwrap();
    let mut watch = Observed::new(root.path(), &WatchOptions::default());
    let mut etag = None;
    for _ in 0..10 {
        // A write with a condition exchanges the old file for the new one.
        let if_match = etag.take().map(|etag| crate::Tags::List(vec![etag]));
        let condition = crate::Condition { if_match, ..crate::Condition::default() };
        let mut new = crate::Replacement::begin(
            &root.path().join("file"),
            None,
            condition,
            &crate::staging::Records::none(),
        )
        .unwrap();
        new.write(b"text").unwrap();
        etag = Some(new.commit().unwrap().etag);
    }
    let mut seen = watch.all();
    seen.dedup();
    assert_eq!(seen, ["Create file", "Modify file"]);
}

/// Whenever the directories are moved while they are found, their content is reported, under one name or another.
#[test]
fn content_of_new_directories_that_are_renamed_at_any_time_is_reported() {
    const ROUNDS: usize = 100;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_owned();
    let mut tree = Tree::open(&root, &WatchOptions::default()).unwrap();
    let made = root.clone();
    let maker = std::thread::spawn(move || {
        for round in 0..ROUNDS {
            let at = |name: &str| made.join(format!("{round}{name}"));
            fs::create_dir_all(at("/a/b/c")).unwrap();
            fs::write(at(&format!("/a/b/c/file-{round}")), "").unwrap();
            fs::rename(at("/a/b"), at("/a/d")).unwrap();
            fs::rename(at("/a"), at("/e")).unwrap();
            fs::rename(at("/e/d/c"), at("/f")).unwrap();
            fs::rename(at(""), at("-moved")).unwrap();
        }
    });
    let mut seen = Vec::new();
    while !maker.is_finished() {
        seen.extend(read(&mut tree, &root));
    }
    loop {
        let more = read(&mut tree, &root);
        if more.is_empty() {
            break;
        }
        seen.extend(more);
    }
    maker.join().unwrap();
    for round in 0..ROUNDS {
        let name = format!("/file-{round}");
        let is_reported = |change: &String| change.starts_with("resync") || change.ends_with(&name);
        let of_round: Vec<_> = seen.iter().filter(|change| change.contains(&format!(" {round}"))).collect();
        assert!(seen.iter().any(is_reported), "round {round}: {of_round:?}");
    }
}

#[test]
fn globs_and_kinds_select() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    for name in ["node_modules/x", ".git", "src"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    let tree = Tree::open(root.path(), &WatchOptions::default()).unwrap();
    assert_eq!(tree.directories(), 2, "the root and src");
    let mut default = Observed::new(root.path(), &WatchOptions::default());
    let created = WatchOptions {
        include: vec!["*.ts".into(), "zz-last*".into()],
        exclude: Vec::new(),
        kinds: vec![ChangeKind::Create],
        is_recursive: true,
    };
    let mut created = Observed::new(root.path(), &created);
    let flat = WatchOptions { is_recursive: false, ..WatchOptions::default() };
    let mut flat = Observed::new(root.path(), &flat);
    for name in ["node_modules/x/a.ts", ".git/config", "src/b.js", "src/c.ts", "d.ts"] {
        fs::write(at(name), "text").unwrap();
    }
    let all = |watch: &mut Observed| {
        let mut all = watch.all();
        fs::remove_file(at("zz-last-1")).unwrap();
        all.retain(|shown| !shown.starts_with("Delete"));
        all.sort();
        all
    };
    assert_eq!(all(&mut created), ["Create d.ts", "Create node_modules/x/a.ts", "Create src/c.ts"]);
    let expected = [
        "Create d.ts",
        "Create src/b.js",
        "Create src/c.ts",
        "Modify d.ts",
        "Modify src/b.js",
        "Modify src/c.ts",
    ];
    assert_eq!(all(&mut default), expected);
    assert_eq!(all(&mut flat), ["Create d.ts", "Modify d.ts"]);
}

#[test]
fn replaced_root_is_watched_again() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("p/root");
    fs::create_dir_all(&root).unwrap();
    let mut watch = Observed::new(&root, &WatchOptions::default());
    // Deleted and created again.
    fs::remove_dir(&root).unwrap();
    watch.wait_for("Delete /");
    fs::create_dir(&root).unwrap();
    watch.wait_for("resync Replaced");
    fs::write(root.join("a"), "").unwrap();
    watch.wait_for("Create a");
    watch.seen.clear();
    // Exchanged with another one.
    fs::create_dir(parent.path().join("other")).unwrap();
    fs::rename(&root, parent.path().join("old")).unwrap();
    fs::rename(parent.path().join("other"), &root).unwrap();
    watch.wait_for("resync Replaced");
    fs::write(root.join("b"), "").unwrap();
    watch.wait_for("Create b");
    watch.seen.clear();
    // Its parent is moved, which the kernel does not report.
    fs::rename(parent.path().join("p"), parent.path().join("q")).unwrap();
    fs::create_dir_all(&root).unwrap();
    watch.wait_for("resync Replaced");
    fs::write(root.join("c"), "").unwrap();
    watch.wait_for("Create c");
}

#[test]
fn slow_reader_gets_a_resync() {
    let root = tempfile::tempdir().unwrap();
    let mut watch = Observed::new(root.path(), &WatchOptions::default());
    for number in 0..MAX_QUEUED_EVENTS + 100 {
        fs::write(root.path().join(number.to_string()), "").unwrap();
    }
    let end = Instant::now() + Duration::from_secs(60);
    while !watch.watch.next_is_resync() {
        assert!(Instant::now() < end, "no resync");
        let _woken = watch.woken.recv_timeout(Duration::from_millis(100));
    }
    watch.all();
}

#[test]
fn thread_ends_with_the_watch() {
    let root = tempfile::tempdir().unwrap();
    let Observed { watch, woken, .. } = Observed::new(root.path(), &WatchOptions::default());
    drop(watch);
    // The thread owns the sender.
    let ended = woken.recv_timeout(Duration::from_secs(60));
    assert_eq!(ended, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn errors_and_links() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("file"), "").unwrap();
    let fail = |path: &Path| match Watch::open(path, &WatchOptions::default(), || {}) {
        Err(WatchError::File(error)) => error.kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(fail(&root.path().join("none")), FileErrorKind::NotFound);
    assert_eq!(fail(&root.path().join("file/x")), FileErrorKind::NotDirectory);
    fs::create_dir(root.path().join("real")).unwrap();
    symlink("real", root.path().join("link")).unwrap();
    let mut watch = Observed::new(&root.path().join("link"), &WatchOptions::default());
    fs::write(root.path().join("real/a"), "").unwrap();
    watch.wait_for("Create a");
}

#[test]
fn root_thread_has_the_permissions_of_the_user() {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(root.path().join("secret")).unwrap();
    fs::set_permissions(root.path().join("secret"), fs::Permissions::from_mode(0o700)).unwrap();
    let user = Identity::of(65534, 65534, &[65534]);
    let mut watch = user.run(|| Observed::new(root.path(), &WatchOptions::default())).unwrap();
    fs::create_dir_all(root.path().join("later/inner")).unwrap();
    fs::write(root.path().join("secret/a"), "").unwrap();
    let mut seen = watch.all();
    seen.retain(|shown| shown.contains("secret"));
    assert_eq!(seen, Vec::<String>::new());
}

#[test]
fn versions() {
    let root = tempfile::tempdir().unwrap();
    let checks = Checks::new();
    let check = |since: Option<&str>| checks.check(root.path(), &WatchOptions::default(), since).unwrap();
    let first = check(None);
    assert_eq!(first.status, CheckStatus::Unchanged);
    assert!(first.version.starts_with("watch-1-") && first.version.ends_with(":0"), "{first:?}");
    assert_eq!(check(Some(&first.version)), first);
    fs::create_dir(root.path().join("d")).unwrap();
    let second = check(Some(&first.version));
    assert_eq!(second.status, CheckStatus::Changed);
    // The new directory is watched.
    fs::write(root.path().join("d/f"), "").unwrap();
    assert_eq!(check(Some(&second.version)).status, CheckStatus::Changed);
    let now = check(None).version;
    assert_eq!(check(Some(&now)).status, CheckStatus::Unchanged);
    assert_eq!(check(Some(&first.version)).status, CheckStatus::Changed);

    // Another set of options, another process, a dropped version, no version.
    let flat = WatchOptions { is_recursive: false, ..WatchOptions::default() };
    assert_eq!(checks.check(root.path(), &flat, Some(&now)).unwrap().status, CheckStatus::Expired);
    assert_eq!(check(Some("watch-9-1000:5")).status, CheckStatus::Restarted);
    for invalid in ["", "x", "watch-1:1", "watch-1-2:x", "watch--2:1", &format!("{now}9")] {
        let failed = checks.check(root.path(), &WatchOptions::default(), Some(invalid));
        assert!(matches!(failed, Err(CheckError::InvalidVersion)), "{invalid:?} {failed:?}");
    }
    // A replaced directory has changed; one that is gone cannot be checked.
    let now = check(None).version;
    fs::rename(root.path(), root.path().with_extension("old")).unwrap();
    fs::create_dir(root.path()).unwrap();
    fs::remove_dir_all(root.path().with_extension("old")).unwrap();
    assert_eq!(check(Some(&now)).status, CheckStatus::Changed);
    fs::remove_dir(root.path()).unwrap();
    let failed = checks.check(root.path(), &WatchOptions::default(), Some(&now));
    assert!(matches!(failed, Err(CheckError::Watch(WatchError::File(_)))), "{failed:?}");
}

#[test]
fn number_of_kept_versions_is_bounded() {
    let root = tempfile::tempdir().unwrap();
    let checks = Checks::new();
    let check = |number: usize, since: Option<&str>| {
        let path = root.path().join(number.to_string());
        fs::create_dir_all(&path).unwrap();
        checks.check(&path, &WatchOptions::default(), since).unwrap()
    };
    let first = check(0, None);
    let second = check(1, None);
    for number in 2..=MAX_CHECKS {
        check(number, None);
    }
    assert_eq!(check(1, Some(&second.version)).status, CheckStatus::Unchanged);
    assert_eq!(check(0, Some(&first.version)).status, CheckStatus::Expired);
}

/// The changes that a tree reports.
fn read(tree: &mut Tree, root: &Path) -> Vec<String> {
    let mut events = Vec::new();
    tree.read(&mut events).unwrap();
    let changes = events.into_iter().map(|event| match event {
        WatchEvent::Change(change) => {
            format!("{:?} {}", change.kind, change.path.strip_prefix(root).unwrap().display())
        }
        WatchEvent::Resync(reason) => format!("resync {reason:?}"),
    });
    changes.collect()
}

#[test]
fn content_of_a_new_directory_that_is_renamed_at_once_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let mut tree = Tree::open(root, &WatchOptions::default()).unwrap();
    fs::create_dir_all(root.join("new/below")).unwrap();
    fs::write(root.join("new/below/file"), "").unwrap();
    fs::rename(root.join("new"), root.join("renamed")).unwrap();
    fs::rename(root.join("renamed"), root.join("again")).unwrap();
    let changes = read(&mut tree, root);
    for expected in ["Create new", "MoveTo again", "Create again/below", "Create again/below/file"] {
        assert!(changes.iter().any(|change| change == expected), "{expected}: {changes:?}");
    }
    // It is watched.
    fs::write(root.join("again/below/later"), "").unwrap();
    let changes = read(&mut tree, root);
    assert!(changes.contains(&"Create again/below/later".into()), "{changes:?}");
}

#[test]
fn single_files() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let file = root.join("file");
    fs::write(&file, "").unwrap();
    symlink("file", root.join("link")).unwrap();
    for name in ["file", "link"] {
        let mut tree = Tree::open(&root.join(name), &WatchOptions::default()).unwrap();
        fs::write(root.join("other"), "x").unwrap();
        fs::create_dir_all(root.join("directory")).unwrap();
        assert_eq!(read(&mut tree, root), Vec::<String>::new());
        fs::write(&file, "x").unwrap();
        let modified = format!("Modify {name}");
        assert!(read(&mut tree, root).iter().all(|change| *change == modified));
        // Editors replace files.
        fs::write(root.join("new"), "new").unwrap();
        fs::rename(root.join("new"), &file).unwrap();
        assert_eq!(read(&mut tree, root), [format!("MoveTo {name}")]);
        fs::remove_file(&file).unwrap();
        assert_eq!(read(&mut tree, root), [format!("Delete {name}")]);
        fs::write(&file, "").unwrap();
        assert_eq!(read(&mut tree, root)[0], format!("Create {name}"));
    }
    let checks = Checks::new();
    let options = WatchOptions::default();
    let version = checks.check(&file, &options, None).unwrap().version;
    fs::write(root.join("other"), "y").unwrap();
    assert_eq!(checks.check(&file, &options, Some(&version)).unwrap().status, CheckStatus::Unchanged);
    fs::write(&file, "y").unwrap();
    assert_eq!(checks.check(&file, &options, Some(&version)).unwrap().status, CheckStatus::Changed);
}

#[test]
fn failed_checks_drop_no_version() {
    let folder = tempfile::tempdir().unwrap();
    let checks = Checks::new();
    let options = WatchOptions::default();
    let version = checks.check(folder.path(), &options, None).unwrap().version;
    for number in 0..MAX_CHECKS + 1 {
        assert!(checks.check(&folder.path().join(format!("none-{number}")), &options, None).is_err());
        let invalid = WatchOptions { include: vec![format!("[{number}")], ..options.clone() };
        assert!(checks.check(folder.path(), &invalid, None).is_err());
    }
    assert_eq!(checks.check(folder.path(), &options, Some(&version)).unwrap().status, CheckStatus::Unchanged);
}

/// The kernel reports an exchange as two moves, of which the second looks like one of the first directory.
#[test]
fn exchanged_directories_are_watched_under_their_names() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    for name in ["a/in-a", "b/in-b"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    fs::create_dir(outside.path().join("in-c")).unwrap();
    let mut watch = Observed::new(root.path(), &WatchOptions::default());
    let exchange = |one: &Path, other: &Path| {
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, one, rustix::fs::CWD, other, flags).unwrap();
    };
    exchange(&at("a"), &at("b"));
    watch.wait_for("resync Replaced");
    for name in ["a/in-b/new", "b/in-a/new"] {
        fs::write(at(name), "").unwrap();
        watch.wait_for(&format!("Create {name}"));
    }
    watch.seen.clear();
    // With a directory that is not watched. The order of the moves depends on the order of the arguments.
    exchange(outside.path(), &at("a"));
    watch.wait_for("resync Replaced");
    fs::write(outside.path().join("in-b/unseen"), "").unwrap();
    fs::write(at("a/in-c/new"), "").unwrap();
    watch.wait_for("Create a/in-c/new");
    assert!(!watch.all().iter().any(|shown| shown.contains("unseen")));
    exchange(&at("a"), outside.path());
    watch.wait_for("MoveTo a/");
    fs::write(at("a/in-b/last"), "").unwrap();
    watch.wait_for("Create a/in-b/last");
}

#[test]
fn restored_folders_are_watched() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    fs::create_dir_all(at("root/folder/below")).unwrap();
    let archive = crate::pack(&at("root/folder"), &crate::PackOptions::default(), Vec::new()).unwrap().output;
    let restore = |to: &str| {
        let target = crate::Target::choose(&at(to), &[], &[]).unwrap();
        let input = std::io::Cursor::new(archive.clone());
        let done = target.unpack(input, None, false, &crate::Records::none()).unwrap();
        assert!(done.is_atomic && done.leftover.is_none());
    };
    let mut watch = Observed::new(&at("root"), &WatchOptions::default());
    restore("root/folder");
    watch.wait_for("resync Replaced");
    fs::write(at("root/folder/below/new"), "").unwrap();
    watch.wait_for("Create folder/below/new");
    watch.all();
    restore("root/created");
    fs::write(at("root/created/below/new"), "").unwrap();
    watch.wait_for("Create created/below/new");
    // The watch may see the temporary directory when it is gone.
    let first = watch.all().into_iter().next();
    assert!(matches!(first.as_deref(), Some("Create created/" | "MoveTo created/")), "{first:?}");
}
