use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;

/// A user that is not this one.
const OTHER: u32 = 54_321;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn folder(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    fn file(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, "content").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }
}

fn give(path: &Path) {
    std::os::unix::fs::lchown(path, Some(OTHER), Some(OTHER)).unwrap();
}

fn refused<T>(result: Result<T, TrustError>) -> String {
    result.map(drop).unwrap_err().to_string()
}

#[test]
fn a_private_folder_is_made_and_opened_again() {
    let place = Place::new();
    let path = place.path("a/b");
    let dir = TrustedDir::open_private(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(dir.read("x", 10).unwrap(), None);
    dir.replace("x", b"one").unwrap();
    dir.replace("x", b"two").unwrap();
    assert_eq!(TrustedDir::open(&path).unwrap().read("x", 10).unwrap().unwrap(), b"two");
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "no draft is left");
}

#[test]
fn a_file_is_overwritten_in_place() {
    let place = Place::new();
    let dir = TrustedDir::open_private(&place.path("state")).unwrap();
    assert!(dir.overwrite("x", b"one").unwrap_err().is_not_found(), "it takes no new space");
    dir.replace("x", b"longer than the next").unwrap();
    dir.overwrite("x", b"next").unwrap();
    dir.rename("x", "y").unwrap();
    assert_eq!((dir.read("x", 10).unwrap(), dir.read("y", 10).unwrap().unwrap()), (None, b"next".to_vec()));
    symlink("y", place.path("state/link")).unwrap();
    assert!(refused(dir.overwrite("link", b"other")).contains("symbolic link"));
}

#[test]
fn an_empty_folder_is_made_private_and_a_full_one_refused() {
    let place = Place::new();
    for mode in [0o755, 0o777, 0o770] {
        let path = place.folder(&format!("{mode:o}"), mode);
        TrustedDir::open_private(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(path.join("file"), "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let message = refused(TrustedDir::open_private(&path));
        assert!(message.contains("run `chmod 700"), "{message}");
    }
}

#[test]
fn root_a_folder_of_another_user_is_refused() {
    let place = Place::new();
    // Even one that is empty and private.
    let path = place.folder("other", 0o700);
    give(&path);
    for result in [TrustedDir::open_private(&path), TrustedDir::open(&path)] {
        let message = refused(result);
        // No command to paste: with `chown -R` on a directory like /tmp or /var/lib it would do much harm.
        let is_safe = message.contains("choose another path") && !message.contains("chown");
        assert!(message.contains("belongs to user 54321") && is_safe, "{message}");
    }
    // And one below a directory of another user, which could replace it.
    let below = place.folder("other/below", 0o700);
    let message = refused(TrustedDir::open_private(&below));
    assert!(message.contains("other belongs to user 54321, who can replace"), "{message}");
    // And one that a link of another user's leads to.
    let own = place.folder("own", 0o700);
    let link = place.path("link");
    symlink(&own, &link).unwrap();
    TrustedDir::open_private(&link).unwrap();
    give(&link);
    assert!(refused(TrustedDir::open_private(&link)).contains("symbolic link"));
}

#[test]
fn parents_that_others_can_write_to_are_refused_but_for_sticky_ones() {
    let place = Place::new();
    for (mode, is_fine) in [(0o755, true), (0o1777, true), (0o777, false), (0o1770, true)] {
        let parent = place.folder(&format!("{mode:o}"), mode);
        let made = TrustedDir::open_private(&parent.join("state"));
        assert_eq!(made.is_ok(), is_fine, "{mode:o}: {made:?}");
        if let Err(error) = made {
            assert!(error.to_string().contains("run `chmod 755"), "{error}");
            assert!(!parent.join("state").exists(), "nothing is made there");
        }
    }
}

#[test]
fn root_parents_of_other_groups_and_directories_of_other_users_are_refused() {
    let place = Place::new();
    let parent = place.folder("group", 0o775);
    chown(&parent, None, Some(OTHER)).unwrap();
    assert!(refused(TrustedDir::open_private(&parent.join("state"))).contains("other users can write"));
    // In a sticky directory another user may have been first.
    let sticky = place.folder("1777", 0o1777);
    let planted = place.folder("1777/planted", 0o700);
    give(&planted);
    assert!(refused(TrustedDir::open_private(&sticky.join("planted"))).contains("belongs to"));
}

#[test]
fn files_of_others_links_and_fifos_are_refused() {
    let place = Place::new();
    let dir = TrustedDir::open_private(&place.path("state")).unwrap();
    let open = |name: &str| dir.open_file(name, OFlags::RDWR | OFlags::CREATE);
    drop(open("own").unwrap());
    place.file("state/shared", 0o620);
    assert!(refused(open("shared")).contains("other users can write"));
    assert!(refused(dir.check_entries()).contains("other users can write"));
    dir.remove("shared").unwrap();
    dir.check_entries().unwrap();
    symlink("own", place.path("state/link")).unwrap();
    assert!(refused(open("link")).contains("symbolic link"));
    rustix::fs::mkfifoat(&dir, "fifo", PRIVATE_FILE).unwrap();
    assert!(refused(open("fifo")).contains("not a regular file"));
    symlink(".", place.path("state/folder")).unwrap();
    assert!(refused(dir.folder("folder")).contains("not a directory"));
}

#[test]
fn root_files_of_other_users_are_refused() {
    let place = Place::new();
    let dir = TrustedDir::open_private(&place.path("state")).unwrap();
    give(&place.file("state/other", 0o600));
    let open = |name: &str| dir.open_file(name, OFlags::RDWR | OFlags::CREATE);
    assert!(refused(open("other")).contains("belongs to user 54321"));
    assert!(refused(dir.read("other", 1)).contains("belongs to user 54321"));
    assert!(refused(dir.check_entries()).contains("54321"));
    give(&place.folder("state/folder-of-another", 0o700));
    assert!(refused(dir.folder("folder-of-another")).contains("belongs to"));
}

#[test]
fn a_file_is_emptied_only_after_it_was_checked() {
    let place = Place::new();
    let path = place.file("file", 0o622);
    let dir = TrustedDir::open(place.0.path()).unwrap();
    let open = || open_own(dir.as_fd(), "file", OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC);
    assert_eq!(open().unwrap_err(), Errno::PERM);
    assert_eq!(fs::read(&path).unwrap(), b"content");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    drop(open().unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"");
}

#[test]
fn a_file_anywhere_is_read_if_no_other_user_can_change_it() {
    let place = Place::new();
    let read = |path: &Path, secrecy| read_trusted(path, secrecy, 100);
    let path = place.file("config", 0o644);
    assert_eq!(read(&path, Secrecy::Public).unwrap(), b"content");
    assert!(refused(read(&path, Secrecy::Secret)).contains("chmod 600"));
    let link = place.path("link");
    symlink("config", &link).unwrap();
    assert_eq!(read(&link, Secrecy::Public).unwrap(), b"content");
    assert!(refused(read(&place.file("shared", 0o664), Secrecy::Public)).contains("chmod 644"));
    assert!(refused(read(place.0.path(), Secrecy::Public)).contains("not a regular file"));
    assert!(read(&place.path("missing"), Secrecy::Public).unwrap_err().is_not_found());
}

#[test]
fn root_a_file_of_another_user_is_not_read() {
    let place = Place::new();
    let read = |path: &Path, secrecy| read_trusted(path, secrecy, 100);
    let path = place.file("config", 0o644);
    give(&path);
    assert!(refused(read(&path, Secrecy::Public)).contains("belongs to user 54321"));
    let folder = place.folder("folder", 0o755);
    let path = place.file("folder/config", 0o600);
    give(&folder);
    assert!(refused(read(&path, Secrecy::Secret)).contains("belongs to user 54321"));
    assert!(refused(create_private(&folder.join("new"), b"x")).contains("belongs to user 54321"));
}

#[test]
fn a_descriptor_can_be_named_through_proc() {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    rustix::io::write(&writer, b"from a pipe").unwrap();
    drop(writer);
    let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
    assert_eq!(read_trusted(Path::new(&path), Secrecy::Public, 100).unwrap(), b"from a pipe");
}

#[test]
fn links_in_a_circle_end() {
    let place = Place::new();
    symlink("b", place.path("a")).unwrap();
    symlink("a", place.path("b")).unwrap();
    assert!(refused(TrustedDir::open_private(&place.path("a/state"))).contains("symbolic link"));
}

#[test]
fn a_replacement_that_fails_leaves_no_draft() {
    let place = Place::new();
    place.folder("taken/below", 0o700);
    let dir = TrustedDir::open(place.0.path()).unwrap();
    dir.replace("taken", b"secret").unwrap_err();
    assert!(!place.path("taken.new").exists());
}
