use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn save(path: &Path, content: &str, mode: Option<u32>) -> Result<WriteResult, FileError> {
    save_if(path, content, mode, Condition::default())
}

fn save_if(
    path: &Path,
    content: &str,
    mode: Option<u32>,
    condition: Condition,
) -> Result<WriteResult, FileError> {
    let mut new = Replacement::begin(path, mode, condition, &crate::staging::Records::none())?;
    new.write(content.as_bytes())?;
    new.commit()
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// The number of entries of a directory.
fn count(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

#[test]
fn new_and_existing_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b/file");
    let saved = save(&path, "one", None).unwrap();
    assert!(saved.is_atomic && saved.is_new);
    assert_eq!(saved.etag, crate::stat(&path).unwrap().etag.unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    let saved = save(&path, "two", None).unwrap();
    assert!(saved.is_atomic && !saved.is_new);
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode_of(&path)), ("two", 0o750));
    save(&path, "", Some(0o4755)).unwrap();
    assert_eq!((fs::read(&path).unwrap().len(), mode_of(&path)), (0, 0o4755));
    assert_eq!(count(path.parent().unwrap()), 1);
}

#[test]
fn new_files_follow_the_umask() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("like"), "").unwrap();
    save(&directory.path().join("file"), "x", None).unwrap();
    assert_eq!(mode_of(&directory.path().join("file")), mode_of(&directory.path().join("like")));
}

#[test]
fn links_stay_and_extended_attributes_too() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("file"), "old").unwrap();
    let has_xattrs =
        rustix::fs::setxattr(at("file"), "user.note", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
    symlink("file", at("link")).unwrap();
    symlink("deep/new", at("dangling")).unwrap();
    symlink("loop", at("loop")).unwrap();
    save(&at("link"), "new", None).unwrap();
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("file"));
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "new");
    let mut value = [0; 9];
    if has_xattrs {
        assert_eq!(rustix::fs::getxattr(at("file"), "user.note", &mut value[..]), Ok(4));
    }
    assert!(save(&at("dangling"), "x", None).unwrap().is_new);
    assert_eq!(fs::read_to_string(at("deep/new")).unwrap(), "x");
    assert_eq!(save(&at("loop"), "x", None).unwrap_err().kind, FileErrorKind::TooManyLinks);
}

#[test]
fn dropped_replacement_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "old").unwrap();
    let mut new =
        Replacement::begin(&path, None, Condition::default(), &crate::staging::Records::none()).unwrap();
    new.write(b"new").unwrap();
    drop(new);
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), count(directory.path())), ("old", 1));
}

/// The file of temporary names is on a disk of its own.
#[test]
fn full_disk_of_the_records() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "old").unwrap();
    let (records, _) = crate::staging::Records::open(Path::new("/dev/full")).unwrap();
    let mut new = Replacement::begin(&path, None, Condition::default(), &records).unwrap();
    new.write(b"new").unwrap();
    assert_eq!(new.commit().unwrap_err().kind, FileErrorKind::NoSpace);
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), count(directory.path())), ("old", 1));
}

#[test]
fn conditions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let absent = Condition { if_none_match: Some(Tags::Any), ..Condition::default() };
    let with = |tag: &str| Condition { if_match: Some(Tags::List(vec![tag.into()])), ..Condition::default() };
    let first = save_if(&path, "one", None, absent.clone()).unwrap();
    let changed = |condition| save_if(&path, "x", None, condition).unwrap_err().kind;
    assert_eq!(changed(absent), FileErrorKind::Changed);
    assert_eq!(changed(with("\"other\"")), FileErrorKind::Changed);
    // Both begin with the same state, and the second finds that the first was there.
    let mut early =
        Replacement::begin(&path, None, with(&first.etag), &crate::staging::Records::none()).unwrap();
    early.write(b"early").unwrap();
    save_if(&path, "late", None, with(&first.etag)).unwrap();
    assert_eq!(early.commit().unwrap_err().kind, FileErrorKind::Changed);
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), count(directory.path())), ("late", 1));
}

#[test]
fn concurrent_writers_with_one_condition() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let etag = save(&path, "start", None).unwrap().etag;
    let condition = Condition { if_match: Some(Tags::List(vec![etag])), ..Condition::default() };
    let write = || save_if(&path, "x", None, condition.clone()).is_ok();
    let won = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(write)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).filter(|won| *won).count()
    });
    assert_eq!((won, count(directory.path())), (1, 1));
}

/// A file that is a mount point itself, as containers have for `/etc/hosts`.
struct MountedFile(tempfile::TempDir);

impl MountedFile {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Self(folder);
        fs::write(mounted.path(), "hidden").unwrap();
        fs::write(mounted.0.path().join("source"), "start").unwrap();
        let mount = std::process::Command::new("mount")
            .args(["--bind".as_ref(), mounted.0.path().join("source").as_path(), &mounted.path()])
            .status();
        assert!(mount.unwrap().success());
        mounted
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("file")
    }
}

impl Drop for MountedFile {
    fn drop(&mut self) {
        drop(std::process::Command::new("umount").arg(self.path()).status());
    }
}

#[test]
fn root_concurrent_writers_of_a_mounted_file() {
    let mounted = MountedFile::new();
    let path = mounted.path();
    for round in 0..20 {
        let saved = save(&path, &format!("start {round:02}"), None).unwrap();
        assert!(!saved.is_atomic);
        let condition = Condition { if_match: Some(Tags::List(vec![saved.etag])), ..Condition::default() };
        let write =
            |writer: u32| save_if(&path, &format!("after {writer:02}"), None, condition.clone()).is_ok();
        let won: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|writer| scope.spawn(move || (write(writer), writer))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(|(won, _)| *won).collect()
        });
        assert_eq!(won.len(), 1, "round {round}");
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("after {:02}", won[0].1));
    }
    assert_eq!(count(mounted.0.path()), 2);
}

/// Where the clock of a file system is coarse, a second content of the same size has the same times.
#[test]
fn content_that_is_written_in_place_has_a_new_tag() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    let mut new = tempfile::tempfile().unwrap();
    new.write_all(b"new").unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let mut before = file.metadata().unwrap();
    for _ in 0..100 {
        in_place::copy(&new, &file, &before).unwrap();
        let after = file.metadata().unwrap();
        assert_ne!(etag(&before), etag(&after));
        before = after;
    }
}

#[test]
fn what_is_not_a_regular_file() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    rustix::fs::mknodat(CWD, at("fifo"), rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let kind = |path: &Path| save(path, "x", None).unwrap_err().kind;
    assert_eq!(kind(&at("fifo")), FileErrorKind::NotRegular);
    assert_eq!(kind(Path::new("/dev/null")), FileErrorKind::NotRegular);
    assert_eq!(kind(directory.path()), FileErrorKind::IsDirectory);
    assert_eq!(kind(&at("new/")), FileErrorKind::EndsWithSlash);
    assert_eq!(kind(&at("./")), FileErrorKind::IsDirectory);
    assert_eq!(kind(&at("..")), FileErrorKind::IsDirectory);
    assert_eq!(append(&at("fifo"), b"x", None).unwrap_err().kind, FileErrorKind::NotRegular);
    fs::write(at("file"), "").unwrap();
    assert_eq!(kind(&at("file/x")), FileErrorKind::NotDirectory);
}

#[test]
fn files_of_the_kernel_are_written_in_place() {
    let path = Path::new("/proc/self/comm");
    let before = fs::read_to_string(path).unwrap();
    let saved = save(path, "renamed", None).unwrap();
    assert!(!saved.is_atomic);
    assert_eq!(fs::read_to_string(path).unwrap(), "renamed\n");
    save(path, before.trim_end(), None).unwrap();
}

#[test]
fn appending() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/log");
    assert!(append(&path, b"one", Some(0o600)).unwrap().is_new);
    assert!(!append(&path, b" two", None).unwrap().is_new);
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode_of(&path)), ("one two", 0o600));
}

/// A program that runs is replaced, and cannot be appended to.
#[test]
fn running_program() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program");
    fs::copy("/bin/sleep", &path).unwrap();
    let mut child = std::process::Command::new(&path).arg("60").spawn().unwrap();
    assert_eq!(append(&path, b"x", None).unwrap_err().kind, FileErrorKind::Busy);
    let saved = save(&path, "x", None);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(saved.unwrap().is_atomic);
}
