use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, XattrFlags};

use super::*;
use crate::error::FileErrorKind;
use crate::remove::discard_tree;

pub(super) fn options(format: ArchiveFormat) -> PackOptions {
    let compression = (format == ArchiveFormat::TarZst).then(Compression::default);
    PackOptions { compression, ..PackOptions::default() }
}

/// A packed folder.
pub(super) fn packed(folder: &Path, options: &PackOptions) -> Vec<u8> {
    pack(folder, options, Vec::new()).unwrap().output
}

/// Replaces a folder.
pub(super) fn unpacked(archive: &[u8], to: &Path) -> Result<Unpacked, ArchiveError> {
    Target::choose(to, &[], &[])?.unpack(
        std::io::Cursor::new(archive.to_vec()),
        None,
        false,
        &crate::staging::Records::none(),
    )
}

/// A file as it should survive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    content: Vec<u8>,
    links: u64,
    xattr: Option<Vec<u8>>,
}

/// Everything below a folder.
pub(super) fn snapshot(folder: &Path) -> BTreeMap<PathBuf, Found> {
    let mut all = BTreeMap::new();
    let mut below = vec![folder.to_owned()];
    while let Some(path) = below.pop() {
        let found = path.symlink_metadata().unwrap();
        let content = match found.file_type() {
            kind if kind.is_file() => fs::read(&path).unwrap(),
            kind if kind.is_symlink() => fs::read_link(&path).unwrap().into_os_string().into_vec(),
            kind if kind.is_dir() => {
                below.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                b"directory".to_vec()
            }
            _ => b"other".to_vec(),
        };
        let mut value = [0; 100];
        let xattr = rustix::fs::lgetxattr(&path, "user.note", &mut value[..]).ok();
        let is_directory = found.is_dir();
        let one = Found {
            mode: found.mode(),
            owner: (found.uid(), found.gid()),
            modified: (found.mtime(), found.mtime_nsec()),
            content,
            links: if is_directory { 0 } else { found.nlink() },
            xattr: xattr.map(|size| value[..size].to_vec()),
        };
        all.insert(path.strip_prefix(folder).unwrap().to_owned(), one);
    }
    all
}

/// Names in a directory.
pub(super) fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn set_time(path: &Path, seconds: i64, nanoseconds: u32) {
    let times = attributes::timestamps(entry::Time { seconds, nanoseconds });
    rustix::fs::utimensat(CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// A folder with everything that should survive.
fn rich(folder: &Path) {
    let at = |name: &str| folder.join(name);
    fs::create_dir_all(at("deep/er/est")).unwrap();
    fs::create_dir(at("empty")).unwrap();
    fs::write(at("deep/er/file"), vec![b'x'; 700_001]).unwrap();
    fs::write(at("program"), "#!").unwrap();
    fs::set_permissions(at("program"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::write(at("secret"), "").unwrap();
    fs::set_permissions(at("secret"), fs::Permissions::from_mode(0o0)).unwrap();
    symlink("../nowhere", at("deep/dangling")).unwrap();
    symlink("/etc/passwd", at("absolute")).unwrap();
    symlink("x".repeat(1000), at("long link")).unwrap();
    fs::write(at("first"), "linked").unwrap();
    fs::hard_link(at("first"), at("deep/second")).unwrap();
    fs::hard_link(at("first"), at("zzz")).unwrap();
    fs::write(at(&"long".repeat(60)), "x").unwrap();
    fs::create_dir(at(&"dir".repeat(80))).unwrap();
    fs::write(at(&"dir".repeat(80)).join("f".repeat(255)), "x").unwrap();
    fs::write(at("new\nline\ttab \\ 'quote"), "x").unwrap();
    fs::write(folder.join(std::ffi::OsStr::from_bytes(b"\xff\xfe\x01")), "x").unwrap();
    fs::write(folder.join(std::ffi::OsStr::from_bytes(&[0xff; 200])), "x").unwrap();
    rustix::fs::mknodat(CWD, at("fifo"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let sparse = fs::File::create(at("sparse")).unwrap();
    sparse.set_len(50 << 20).unwrap();
    sparse.write_all_at(b"one", 1 << 20).unwrap();
    sparse.write_all_at(b"two", 40 << 20).unwrap();
    fs::File::create(at("hole")).unwrap().set_len(3_000_001).unwrap();
    let _ = rustix::fs::setxattr(at("deep/er/file"), "user.note", b"a\n=\0b", XattrFlags::empty());
    let _ = rustix::fs::setxattr(at("empty"), "user.note", b"directory", XattrFlags::empty());
    set_time(&at("program"), 1, 5);
    set_time(&at("secret"), -2, 500_000_000);
    set_time(&at("absolute"), 1_000_000_000, 123_456_789);
    set_time(&at("deep"), 99, 0);
    fs::set_permissions(at("deep/er/est"), fs::Permissions::from_mode(0o1500)).unwrap();
    fs::set_permissions(at("deep/er"), fs::Permissions::from_mode(0o2550)).unwrap();
    set_time(&at("deep/er"), 7, 7);
    set_time(&at("empty"), 8, 8);
    set_time(folder, 6, 6);
}

#[test]
fn root_everything_survives() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("folder");
    fs::create_dir(&folder).unwrap();
    rich(&folder);
    std::os::unix::fs::chown(folder.join("program"), Some(1234), Some(4321)).unwrap();
    fs::set_permissions(folder.join("program"), fs::Permissions::from_mode(0o4751)).unwrap();
    set_time(&folder.join("program"), 1, 5);
    std::os::unix::fs::lchown(folder.join("absolute"), Some(1234), Some(4321)).unwrap();
    let before = snapshot(&folder);
    assert!(before.len() > 20);
    for format in [ArchiveFormat::Tar, ArchiveFormat::TarZst] {
        let done = pack(&folder, &options(format), Vec::new()).unwrap();
        assert_eq!((done.entries, done.changed, done.skipped), (before.len() as u64, 0, 0));
        assert_eq!(done.size_bytes, done.output.len() as u64);
        assert!(done.content_bytes < 5 << 20, "holes are left out");
        assert_eq!(packed(&folder, &options(format)), done.output, "the same folder is the same archive");
        let copy = scratch.path().join("copy");
        let result = unpacked(&done.output, &copy).unwrap();
        assert_eq!((result.entries, result.is_atomic, result.leftover), (done.entries, true, None));
        for (path, found) in &before {
            assert_eq!(snapshot(&copy).get(path), Some(found), "{path:?}");
        }
        assert_eq!(snapshot(&copy).len(), before.len());
        for name in ["sparse", "hole"] {
            let (old, new) = (folder.join(name).metadata().unwrap(), copy.join(name).metadata().unwrap());
            assert!(new.blocks() <= old.blocks().max(8) * 2, "{name} has holes");
        }
        let inode = |name: &str| copy.join(name).metadata().unwrap().ino();
        assert_eq!((inode("first"), inode("first")), (inode("deep/second"), inode("zzz")));
    }
    assert_eq!(names(scratch.path()), ["copy", "folder"]);
}

#[test]
fn folders_are_replaced_at_once_or_not_at_all() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    fs::create_dir(at("a")).unwrap();
    fs::write(at("a/new"), "new").unwrap();
    let archive = packed(&at("a"), &options(ArchiveFormat::TarZst));
    fs::create_dir_all(at("b/sub")).unwrap();
    fs::write(at("b/sub/old"), "old").unwrap();
    for length in [0, 3, 4, 40, archive.len() / 2, archive.len() - 65, archive.len() - 1] {
        let refused = unpacked(&archive[..length], &at("b"));
        assert!(matches!(refused, Err(ArchiveError::Invalid(_))), "{length}");
        assert_eq!(names(&at("b")), ["sub"]);
    }
    for index in (0..archive.len()).step_by(7).chain(archive.len() - 40..archive.len()) {
        let mut damaged = archive.clone();
        damaged[index] ^= 1;
        let before = fs::read_dir(at("b")).unwrap().count();
        if unpacked(&damaged, &at("c")).is_err() {
            assert!(!at("c").exists());
        } else {
            // Bits that the decoder does not use, in the header of the trailer.
            assert!(index >= archive.len() - 64, "{index} of {}", archive.len());
            fs::remove_dir_all(at("c")).unwrap();
        }
        assert_eq!(fs::read_dir(at("b")).unwrap().count(), before);
    }
    assert_eq!(names(scratch.path()), ["a", "b"]);
    symlink("b", at("link")).unwrap();
    unpacked(&archive, &at("link")).unwrap();
    assert_eq!(
        (names(&at("b")), names(scratch.path())),
        (vec!["new".into()], ["a", "b", "link"].map(Into::into).into())
    );
    unpacked(&archive, &at("x/y/z")).unwrap();
    assert_eq!(names(&at("x/y/z")), ["new"]);
    assert!(
        matches!(unpacked(&archive, &at("b/new")), Err(ArchiveError::File(e)) if e.kind == FileErrorKind::NotDirectory)
    );
    let kept = Target::choose(scratch.path(), &[at("b")], &[]).unwrap_err();
    assert_eq!(kept.kind, FileErrorKind::Protected);
    assert_eq!(Target::choose(Path::new("/"), &[], &[]).unwrap_err().kind, FileErrorKind::Protected);
}

/// The folder appears, vanishes, or becomes a file after the target was chosen.
#[test]
fn others_may_create_and_remove_the_folder_meanwhile() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    fs::create_dir(at("a")).unwrap();
    fs::write(at("a/x"), "new").unwrap();
    let archive = packed(&at("a"), &options(ArchiveFormat::Tar));
    let unpack = |target: Target| {
        target.unpack(std::io::Cursor::new(archive.clone()), None, false, &crate::staging::Records::none())
    };
    let target = Target::choose(&at("b"), &[], &[]).unwrap();
    fs::create_dir(at("b")).unwrap();
    fs::write(at("b/old"), "").unwrap();
    assert!(unpack(target).unwrap().is_atomic);
    assert_eq!(names(&at("b")), ["x"]);
    let target = Target::choose(&at("b"), &[], &[]).unwrap();
    fs::remove_dir_all(at("b")).unwrap();
    assert!(unpack(target).unwrap().is_atomic);
    assert_eq!(names(&at("b")), ["x"]);
    let target = Target::choose(&at("c"), &[], &[]).unwrap();
    fs::write(at("c"), "a file").unwrap();
    let ArchiveError::File(error) = unpack(target).unwrap_err() else { panic!("not about a file") };
    assert_eq!(error.kind, FileErrorKind::NotDirectory);
    assert_eq!(names(scratch.path()), ["a", "b", "c"]);

    let restores = std::thread::scope(|scope| {
        let restores: Vec<_> =
            (0..8).map(|_| scope.spawn(|| unpack(Target::choose(&at("d"), &[], &[]).unwrap()))).collect();
        restores.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(
        restores.iter().all(|one| one.as_ref().is_ok_and(|done| done.leftover.is_none())),
        "{restores:?}"
    );
    assert_eq!(names(&at("d")), ["x"]);
    assert_eq!(names(scratch.path()), ["a", "b", "c", "d"]);
}

#[test]
fn trailer_is_required_where_it_must_be() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("a");
    fs::create_dir(&folder).unwrap();
    let archive = packed(&folder, &options(ArchiveFormat::TarZst));
    let target = Target::choose(&scratch.path().join("b"), &[], &[]).unwrap();
    let unpack = |archive: &[u8], must_have_trailer| {
        target.unpack(
            std::io::Cursor::new(archive.to_vec()),
            Some(ArchiveFormat::TarZst),
            must_have_trailer,
            &crate::staging::Records::none(),
        )
    };
    let without = &archive[..archive.len() - 64];
    assert!(unpack(without, true).unwrap_err().to_string().contains("trailer"));
    assert!(unpack(without, false).is_ok());
    assert!(unpack(&archive, true).is_ok());
}

#[test]
fn fixed_folders_keep_their_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    fs::create_dir(at("a")).unwrap();
    fs::write(at("a/both"), "new").unwrap();
    fs::create_dir_all(at("b/old/er")).unwrap();
    fs::write(at("b/both"), "old").unwrap();
    let inode = at("b").metadata().unwrap().ino();
    let archive = packed(&at("a"), &options(ArchiveFormat::TarZst));
    let target = Target::choose(&at("b"), &[], &[at("b")]).unwrap();
    let done = target
        .unpack(std::io::Cursor::new(archive.clone()), None, true, &crate::staging::Records::none())
        .unwrap();
    assert!(!done.is_atomic);
    assert_eq!(
        (names(&at("b")), fs::read_to_string(at("b/both")).unwrap()),
        (vec!["both".into()], "new".into())
    );
    assert_eq!(at("b").metadata().unwrap().ino(), inode);
    assert!(
        target
            .unpack(
                std::io::Cursor::new(archive[..50].to_vec()),
                None,
                true,
                &crate::staging::Records::none()
            )
            .is_err()
    );
    assert_eq!(names(&at("b")), ["both"]);
}

/// A process may be killed between any two steps.
#[test]
fn interrupted_replacement_is_completed_or_undone() {
    for (stage, expected) in [
        ("new", "old"),
        ("some old", "old"),
        ("all old", "old"),
        ("some new", "new"),
        ("done", "new"),
        ("half deleted", "new"),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        let (folder, temporary) = (scratch.path().join("folder"), scratch.path().join(".sandcrab-1.tmp"));
        let put = |directory: &Path, names: &[&str]| {
            fs::create_dir_all(directory).unwrap();
            for name in names {
                fs::write(directory.join(name), if name.starts_with('o') { "old" } else { "new" }).unwrap();
            }
        };
        let (old, new) = (temporary.join("old"), temporary.join("new"));
        let (in_folder, in_old, in_new, marker): (&[&str], &[&str], &[&str], _) = match stage {
            "new" => (&["o1", "o2"], &[], &["n1", "n2"], None),
            "some old" => (&["o1"], &["o2"], &["n1", "n2"], None),
            "all old" => (&[], &["o1", "o2"], &["n1", "n2"], None),
            "some new" => (&["n1"], &["o1", "o2"], &["n2"], Some("moving")),
            "done" => (&["n1", "n2"], &["o1", "o2"], &[], Some("done")),
            // The directory was being deleted, and `done` was the first entry.
            _ => (&["n1", "n2"], &["o1", "o2"], &[], None),
        };
        put(&folder, in_folder);
        put(&new, in_new);
        if stage != "new" {
            put(&old, in_old);
        }
        if let Some(marker) = marker {
            put(&temporary.join(marker), &[]);
        }
        if !["new", "half deleted"].contains(&stage) {
            symlink(&folder, super::swap::target_link(&temporary)).unwrap();
        }
        recover(&temporary).unwrap();
        recover(&temporary).unwrap();
        discard_tree(&temporary).unwrap();
        let want = if expected == "old" { ["o1", "o2"] } else { ["n1", "n2"] };
        assert_eq!(names(&folder), want, "{stage}");
        assert_eq!(names(scratch.path()), ["folder"], "{stage}");
    }
}

#[test]
fn rules_leave_files_out() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    for file in [
        ".git/HEAD",
        "kept",
        "a.log",
        "sub/b.log",
        "sub/keep.log",
        "node_modules/x",
        "sub/node_modules/y",
        "dist/z",
        "sub/dist/z",
    ] {
        fs::create_dir_all(at(file).parent().unwrap()).unwrap();
        fs::write(at(file), "x").unwrap();
    }
    fs::create_dir(at("state")).unwrap();
    fs::write(at("state/journal"), "x").unwrap();
    fs::write(at(".sandcrab-0123456789abcdef.tmp"), "x").unwrap();
    fs::write(at(".gitignore"), "dist/\n").unwrap();
    let out = tempfile::tempdir().unwrap();
    let list = |excludes: &[&str], respects_gitignore| {
        let options = PackOptions {
            excludes: excludes.iter().map(|&rule| rule.into()).collect(),
            respects_gitignore,
            left_out: vec![at("state")],
            compression: None,
            ..PackOptions::default()
        };
        let target = out.path().join("x");
        unpacked(&packed(scratch.path(), &options), &target).unwrap();
        let mut found: Vec<_> =
            snapshot(&target).into_keys().map(|path| path.to_string_lossy().into_owned()).collect();
        found.retain(|path| target.join(path).is_file());
        found.join(" ")
    };
    let all = ".git/HEAD .gitignore a.log dist/z kept node_modules/x sub/b.log sub/dist/z sub/keep.log sub/node_modules/y";
    assert_eq!(list(&[], false), all);
    assert_eq!(
        list(&["node_modules", "*.log", "!keep.log", "/dist"], false),
        ".git/HEAD .gitignore kept sub/dist/z sub/keep.log"
    );
    assert_eq!(list(&["**/node_modules/**", "*.log"], true), ".git/HEAD .gitignore kept");
    let refused = |excludes: Vec<String>| {
        pack(scratch.path(), &PackOptions { excludes, ..PackOptions::default() }, Vec::new()).unwrap_err()
    };
    assert!(matches!(refused(vec!["a".into(); MAX_EXCLUDES + 1]), ArchiveError::InvalidExclude(_)));
    assert!(matches!(refused(vec!["{a".into()]), ArchiveError::InvalidExclude(_)));
}

/// Runs an action at the first write of this size.
struct At<F: FnMut()>(usize, F, Vec<u8>);

impl<F: FnMut()> Write for At<F> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() == self.0 {
            self.0 = usize::MAX;
            (self.1)();
        }
        self.2.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn files_that_change_while_they_are_packed() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    fs::create_dir(at("folder")).unwrap();
    fs::write(at("folder/m"), vec![b'm'; 1 << 20]).unwrap();
    fs::write(at("folder/vanishes"), "x").unwrap();
    fs::create_dir(at("folder/z")).unwrap();
    fs::write(at("folder/z/x"), "x").unwrap();
    let change = || {
        fs::OpenOptions::new().write(true).open(at("folder/m")).unwrap().set_len(300 << 10).unwrap();
        fs::remove_file(at("folder/vanishes")).unwrap();
        fs::remove_dir_all(at("folder/z")).unwrap();
    };
    let done = pack(&at("folder"), &PackOptions::default(), At(256 << 10, change, Vec::new())).unwrap();
    assert_eq!(done.changed, 1);
    unpacked(&done.output.2, &at("copy")).unwrap();
    let content = fs::read(at("copy/m")).unwrap();
    assert_eq!((content.len(), &content[..300 << 10]), (1 << 20, &[b'm'; 300 << 10][..]));
    assert!(content[300 << 10..].iter().all(|byte| *byte == 0));
    assert!(!at("copy/vanishes").exists() && !at("copy/z").exists());
}

#[test]
fn programs_of_others_read_and_write_the_same() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("folder");
    fs::create_dir(&folder).unwrap();
    rich(&folder);
    for (name, mode) in [("secret", 0o400), ("deep/er", 0o755), ("deep/er/est", 0o755)] {
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    set_time(&folder.join("deep/er"), 7, 7);
    let run = |arguments: &str, folder: &Path| {
        let command = format!("exec tar {arguments}");
        let status = Command::new("sh").args(["-c", &command]).current_dir(folder).status().unwrap();
        assert!(status.success(), "{command}");
    };
    // They read what this crate writes.
    let archive = scratch.path().join("archive");
    fs::write(&archive, packed(&folder, &options(ArchiveFormat::Tar))).unwrap();
    let copy = scratch.path().join("copy");
    fs::create_dir(&copy).unwrap();
    run("--xattrs -xpf ../archive", &copy);
    assert_eq!(snapshot(&copy), snapshot(&folder));
    // This crate reads what they write.
    for (format, has_nanoseconds) in
        [("--format=posix -S --xattrs", true), ("--format=gnu -S", false), ("--format=gnu", false)]
    {
        run(&format!("{format} -cf ../archive ."), &folder);
        unpacked(&fs::read(&archive).unwrap(), &scratch.path().join("back")).unwrap();
        let (mut back, mut before) = (snapshot(&scratch.path().join("back")), snapshot(&folder));
        if !has_nanoseconds {
            for found in back.values_mut().chain(before.values_mut()) {
                (found.modified, found.xattr) = ((0, 0), None);
            }
        }
        assert_eq!(back, before, "{format}");
    }
}

/// As another user than root: what root may not do is left out, and directories that forbid to write are no obstacle.
#[test]
fn root_other_users_unpack_what_they_may() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::create_dir_all(at("folder/closed/below")).unwrap();
    fs::write(at("folder/closed/below/program"), "x").unwrap();
    fs::set_permissions(at("folder/closed/below/program"), fs::Permissions::from_mode(0o6755)).unwrap();
    fs::set_permissions(at("folder/closed/below"), fs::Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(at("folder/closed"), fs::Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(at("folder"), fs::Permissions::from_mode(0o555)).unwrap();
    let archive = packed(&at("folder"), &options(ArchiveFormat::TarZst));
    let user = crate::Identity::of(65534, 65534, &[65534]);
    // Twice, so that a folder is replaced that forbids to write.
    for _ in 0..2 {
        let done = user.run(|| unpacked(&archive, &at("copy"))).unwrap().unwrap();
        assert!(done.leftover.is_none());
        assert_eq!(names(scratch.path()), ["copy", "folder"]);
    }
    let program = at("copy/closed/below/program").metadata().unwrap();
    assert_eq!((program.mode() & 0o7777, program.uid()), (0o755, 65534));
    assert_eq!(at("copy/closed").metadata().unwrap().mode() & 0o7777, 0o555);
    // A folder in a directory of another user keeps its directory.
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(at("copy"), fs::Permissions::from_mode(0o755)).unwrap();
    let done = user.run(|| unpacked(&archive, &at("copy"))).unwrap().unwrap();
    assert!(!done.is_atomic && done.leftover.is_none());
    assert_eq!(
        (names(&at("copy")), names(scratch.path())),
        (vec!["closed".into()], ["copy", "folder"].map(Into::into).into())
    );
    let refused = user.run(|| unpacked(&archive, &at("new"))).unwrap();
    assert!(matches!(refused, Err(ArchiveError::File(e)) if e.kind == FileErrorKind::PermissionDenied));
}

/// Calls a function before the first bytes are written. The names in the folder have been read then.
struct Meanwhile<F>(Vec<u8>, Option<F>);

impl<F: FnOnce()> Write for Meanwhile<F> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Some(change) = self.1.take() {
            change();
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What the walk took for a directory is packed as what it is now, or left out, and nothing from elsewhere is packed.
#[test]
fn directories_that_are_replaced_meanwhile() {
    let replacements: [(&str, &[&str]); 5] = [
        ("ln -s ../outside d", &["a", "d", "e"]),
        // The walk cannot tell its file system.
        ("ln -s d d", &["a", "e"]),
        ("ln -s ../outside/closed d", &["a", "d", "e"]),
        ("echo file >d", &["a", "d", "e"]),
        ("mkfifo d", &["a", "d", "e"]),
    ];
    for (replacement, expected) in replacements {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("folder");
        let shell = |script: &str| {
            assert!(
                Command::new("sh").args(["-ec", script]).current_dir(&folder).status().unwrap().success()
            );
        };
        fs::create_dir(&folder).unwrap();
        shell(
            "mkdir -p d ../outside/closed && echo 1 >a && echo 2 >d/x && echo 3 >e && echo 4 >../outside/x && chmod 0 ../outside/closed",
        );
        let output = Meanwhile(Vec::new(), Some(|| shell(&format!("rm -r d && {replacement}"))));
        let archive = pack(&folder, &PackOptions::default(), output).unwrap().output.0;
        unpacked(&archive, &scratch.path().join("copy")).unwrap();
        assert_eq!(names(&scratch.path().join("copy")), expected, "{replacement}");
        // Otherwise only root could remove it.
        shell("chmod 700 ../outside/closed");
    }
}
