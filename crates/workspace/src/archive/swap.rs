//! Replaces the entries of a directory that cannot be replaced itself: a mount point, or one whose parent directory the
//! user may not change. Fills an empty directory ([`fill`]).
//!
//! All old entries are moved to `old` in the temporary directory, then all new ones from `new` to the directory. The
//! names `moving` and `done` record the progress, so that a later process can complete or undo it.
//!
//! Programs may write to the directory meanwhile. What they create is in the way only if it has the name of an entry
//! that is put into its place; then it is moved to `away`. An entry in `old` is complete, so it is never given up: if it
//! cannot be put back, the temporary directory stays ([`holds_old_entries`]).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use rustix::fs::{AtFlags, CWD, RenameFlags};
use rustix::io::Errno;

use super::attributes::with_write_permission;
use crate::copy::{Attributes, copy_tree};
use crate::error::{AtPath, FileError, FileErrorKind};
use crate::remove::discard_tree;
use crate::write::{PathLocks, is_temporary};

/// The new content, in the temporary directory.
pub(crate) const NEW: &str = "new";
/// A symbolic link to the directory whose entries are replaced: this, and the name of the temporary directory. That name
/// is random, so no tree that a user copies to it has such a link, and [`recover`] does not take a copy for a swap.
const TARGET: &str = ".sandcrab-swap-target-";
/// The old content.
const OLD: &str = "old";
/// A copy of an old entry that is not complete yet.
const COPY: &str = "copy";
/// What was in the way of an entry.
const AWAY: &str = "away";
/// It exists while new entries are moved: all old ones are in `old`.
const MOVING: &str = "moving";
/// It exists when all new entries are moved.
const DONE: &str = "done";

/// How often a program may create an entry that is in the way, or remove one.
pub(super) const MAX_TRIES: u32 = 1_000;

/// Held by a swap, so that of two archives for one directory, the content of one stays, and not a mixture.
static SWAPS: PathLocks = PathLocks::new();

/// The two directories of a swap.
struct Swap<'a> {
    temporary: &'a Path,
    target: &'a Path,
    /// New entries that are in the target.
    placed: Vec<OsString>,
    /// Number of entries that were in the way.
    away: u32,
}

/// Replaces the entries of `target` by those of `new` in `temporary`. After an error, the old ones are back, or in the
/// temporary directory.
pub(super) fn swap(temporary: &Path, target: &Path) -> Result<(), FileError> {
    let _other = lock(target);
    Swap::new(temporary, target).run(|| {})?;
    // If this fails, `done` says the same while it exists.
    drop(forget(temporary));
    Ok(())
}

/// Moves the entries of `new` in `temporary` to an empty directory. After an error, they are in `new`. Nothing that a
/// program has created in the directory is replaced, except by [`recover`].
pub(crate) fn fill(temporary: &Path, target: &Path) -> Result<(), FileError> {
    let _other = lock(target);
    Swap::new(temporary, target).fill(|| {})?;
    drop(forget(temporary));
    Ok(())
}

/// The link to the directory whose entries are replaced.
pub(crate) fn target_link(temporary: &Path) -> PathBuf {
    let mut name = OsString::from(TARGET);
    name.push(temporary.file_name().unwrap_or_default());
    temporary.join(name)
}

/// Waits for other swaps of the same directory.
fn lock(target: &Path) -> MutexGuard<'static, ()> {
    let real = fs::canonicalize(target);
    SWAPS.lock(real.as_deref().unwrap_or(target))
}

/// Removes what [`recover`] needs, before the directory is deleted entry by entry: a part of it would look like a swap
/// that must be undone.
fn forget(temporary: &Path) -> Result<(), FileError> {
    match fs::remove_file(target_link(temporary)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(FileError::of(temporary, e)),
        _ => Ok(()),
    }
}

/// Whether the temporary directory contains entries that are not in their place.
pub(super) fn holds_old_entries(temporary: &Path) -> bool {
    let is_done = exists(temporary, DONE).unwrap_or(false);
    // A directory that cannot be read may contain some.
    let has_entries = || match fs::read_dir(temporary.join(OLD)) {
        Ok(mut entries) => entries.next().is_some(),
        Err(e) => e.kind() != std::io::ErrorKind::NotFound,
    };
    !is_done && has_entries()
}

/// Completes or undoes a swap that was interrupted, if the temporary directory is one of a swap. It can be removed then.
pub(crate) fn recover(temporary: &Path) -> Result<(), FileError> {
    let target = match fs::read_link(target_link(temporary)) {
        Ok(target) => target,
        Err(e) => match Errno::from_io_error(&e) {
            // There is no link of this name, or the path would be too long for one.
            Some(Errno::NOENT | Errno::INVAL | Errno::NOTDIR | Errno::NAMETOOLONG) => return Ok(()),
            // It may be a swap, with entries in `old`.
            _ => return Err(FileError::of(temporary, e)),
        },
    };
    let _other = lock(&target);
    if exists(temporary, OLD)? && !exists(temporary, DONE)? {
        let mut swap = Swap::new(temporary, &target);
        if exists(temporary, MOVING)? {
            // All new entries are complete.
            swap.move_in()?;
        } else {
            swap.put_back()?;
        }
    }
    forget(temporary)
}

/// Whether the temporary directory has an entry of this name. An error if that is not known.
fn exists(temporary: &Path, name: &str) -> Result<bool, FileError> {
    match temporary.join(name).symlink_metadata() {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(FileError::of(temporary, e)),
    }
}

impl<'a> Swap<'a> {
    fn new(temporary: &'a Path, target: &'a Path) -> Self {
        Self { temporary, target, placed: Vec::new(), away: 0 }
    }

    /// Makes what [`recover`] needs.
    fn begin(&self) -> Result<(), FileError> {
        std::os::unix::fs::symlink(self.target, target_link(self.temporary)).at(self.target)?;
        fs::create_dir(self.at(OLD)).at(self.target)
    }

    /// `between` runs when the directory was found to be empty.
    fn fill(&mut self, between: impl FnOnce()) -> Result<(), FileError> {
        if !self.names_of_target()?.is_empty() {
            return Err(FileError::new(FileErrorKind::NotEmpty, self.target));
        }
        self.begin()?;
        between();
        fs::create_dir(self.at(MOVING)).at(self.target)?;
        let filled = self.fill_in();
        if filled.is_err() {
            self.take_out();
        }
        filled
    }

    fn fill_in(&mut self) -> Result<(), FileError> {
        let new = self.at(NEW);
        for name in names(&new)? {
            let to = self.target.join(&name);
            rename(&new.join(&name), &to).at(&to)?;
            self.placed.push(name);
        }
        fs::rename(self.at(MOVING), self.at(DONE)).at(self.target)
    }

    /// Moves new entries back to `new`, so that a later process could also complete it. From then on, it undoes it too.
    fn take_out(&mut self) {
        for name in std::mem::take(&mut self.placed) {
            let _ = rename(&self.target.join(&name), &self.at(NEW).join(&name));
        }
        drop(fs::remove_dir(self.at(MOVING)));
    }

    /// `between` runs when the old entries are out.
    fn run(&mut self, between: impl FnOnce()) -> Result<(), FileError> {
        self.begin()?;
        let replaced = self.move_out().and_then(|()| {
            between();
            fs::create_dir(self.at(MOVING)).at(self.target)?;
            self.move_in()
        });
        let Err(error) = replaced else { return Ok(()) };
        self.take_out();
        match self.put_back() {
            Ok(()) => Err(error),
            Err(_) => Err(FileError::new(error.kind, self.at(OLD))),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.temporary.join(name)
    }

    /// The names in the target, without temporary ones: those of this swap, and of operations that are under way.
    fn names_of_target(&self) -> Result<Vec<OsString>, FileError> {
        let mut names = names(self.target)?;
        names.retain(|name| !is_temporary(name) && self.target.join(name) != self.temporary);
        Ok(names)
    }

    fn move_out(&self) -> Result<(), FileError> {
        for name in self.names_of_target()? {
            let (from, to) = (self.target.join(&name), self.at(OLD).join(&name));
            match rename(&from, &to) {
                // A directory of a lower layer of an overlay. The copy is complete before anything is deleted.
                Err(Errno::XDEV) => {
                    let copy = self.at(COPY);
                    copy_tree(&from, &copy, Attributes::WithOwner, &from)?;
                    rename(&copy, &to).at(&from)?;
                    discard_tree(&from)?;
                }
                // A program has deleted it.
                Err(Errno::NOENT) if from.symlink_metadata().is_err() => {}
                moved => moved.at(&from)?,
            }
        }
        Ok(())
    }

    fn move_in(&mut self) -> Result<(), FileError> {
        let new = self.at(NEW);
        for name in names(&new)? {
            self.put(&new, &name)?;
            self.placed.push(name);
        }
        fs::rename(self.at(MOVING), self.at(DONE)).at(self.target)
    }

    /// Puts the old entries into their place, as many as possible.
    fn put_back(&mut self) -> Result<(), FileError> {
        let old = self.at(OLD);
        let mut result = Ok(());
        for name in names(&old)? {
            if let Err(e) = self.put(&old, &name) {
                result = Err(e);
            }
        }
        result
    }

    /// Moves an entry to the target, in place of one that a program has created.
    fn put(&mut self, from: &Path, name: &OsStr) -> Result<(), FileError> {
        let (from, to) = (from.join(name), self.target.join(name));
        for _ in 0..MAX_TRIES {
            match rename(&from, &to) {
                Err(Errno::EXIST) => self.move_away(&to)?,
                done => return done.at(&to),
            }
        }
        Err(FileError::new(FileErrorKind::Busy, &to))
    }

    fn move_away(&mut self, path: &Path) -> Result<(), FileError> {
        let directory = self.at(AWAY);
        if let Err(e) = fs::create_dir(&directory)
            && e.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(FileError::of(path, e));
        }
        loop {
            let to = directory.join(self.away.to_string());
            self.away += 1;
            match rename(path, &to) {
                // From an earlier attempt.
                Err(Errno::EXIST) => {}
                Err(Errno::NOENT) => return Ok(()),
                Err(Errno::XDEV) => return discard_tree(path),
                moved => return moved.at(path),
            }
        }
    }
}

/// The names in a directory.
fn names(directory: &Path) -> Result<Vec<OsString>, FileError> {
    let name = |entry: std::io::Result<fs::DirEntry>| Ok(entry.at(directory)?.file_name());
    fs::read_dir(directory).at(directory)?.map(name).collect()
}

/// Renames without replacing anything.
fn rename(from: &Path, to: &Path) -> Result<(), Errno> {
    with_write_permission(from, to, || {
        match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // The file system does not support the flag.
            Err(Errno::INVAL) => match rustix::fs::statat(CWD, to, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(_) => rustix::fs::renameat(CWD, from, CWD, to),
            },
            renamed => renamed,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A target with `old` entries, and a temporary directory in it with new ones.
    fn staged() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let temporary = folder.path().join(".temporary");
        fs::create_dir_all(temporary.join(NEW)).unwrap();
        for name in ["a", "log"] {
            fs::write(folder.path().join(name), "old").unwrap();
            fs::write(temporary.join(NEW).join(name), "new").unwrap();
        }
        fs::create_dir(folder.path().join("d")).unwrap();
        (folder, temporary)
    }

    fn content(folder: &Path) -> Vec<(String, Option<String>)> {
        let mut found: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_name() != ".temporary")
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).ok()))
            .collect();
        found.sort();
        found
    }

    fn file(name: &str, text: &str) -> (String, Option<String>) {
        (name.to_owned(), Some(text.to_owned()))
    }

    #[test]
    fn entries_that_programs_create_meanwhile_are_not_in_the_way() {
        let (folder, temporary) = staged();
        let mut swap = Swap::new(&temporary, folder.path());
        let create = || {
            fs::write(folder.path().join("log"), "of a program").unwrap();
            fs::write(folder.path().join("more"), "of a program").unwrap();
        };
        swap.run(create).unwrap();
        assert!(!holds_old_entries(&temporary));
        let expected = [file("a", "new"), file("log", "new"), file("more", "of a program")];
        assert_eq!(content(folder.path()), expected);
    }

    /// The temporary directory is deleted entry by entry, in any order, and a kill may interrupt that.
    #[test]
    fn complete_swaps_are_not_undone() {
        let (folder, temporary) = staged();
        swap(&temporary, folder.path()).unwrap();
        assert!(temporary.join(OLD).join("a").exists());
        fs::remove_dir(temporary.join(DONE)).unwrap();
        recover(&temporary).unwrap();
        assert_eq!(content(folder.path()), [file("a", "new"), file("log", "new")]);

        let (folder, temporary) = staged();
        Swap::new(&temporary, folder.path()).run(|| {}).unwrap();
        recover(&temporary).unwrap();
        fs::remove_dir(temporary.join(DONE)).unwrap();
        recover(&temporary).unwrap();
        assert_eq!(content(folder.path()), [file("a", "new"), file("log", "new")]);
    }

    #[test]
    fn old_entries_come_back_after_an_error() {
        let (folder, temporary) = staged();
        let mut swap = Swap::new(&temporary, folder.path());
        let fail = || {
            fs::write(folder.path().join("log"), "of a program").unwrap();
            fs::create_dir_all(folder.path().join("d/other")).unwrap();
            // Then the last step fails, when all new entries are in their place.
            fs::create_dir_all(temporary.join(DONE).join("in the way")).unwrap();
            fs::write(temporary.join(NEW).join("only new"), "new").unwrap();
        };
        swap.run(fail).unwrap_err();
        assert_eq!(fs::read_dir(temporary.join(OLD)).unwrap().count(), 0);
        let expected = [file("a", "old"), ("d".to_owned(), None), file("log", "old")];
        assert_eq!(content(folder.path()), expected);
        assert_eq!(fs::read_dir(folder.path().join("d")).unwrap().count(), 0);
    }

    #[test]
    fn temporary_files_of_other_operations_stay() {
        let (folder, temporary) = staged();
        let other = folder.path().join(".sandcrab-2.tmp");
        fs::create_dir_all(other.join(NEW)).unwrap();
        swap(&temporary, folder.path()).unwrap();
        assert!(other.join(NEW).exists());
    }

    /// Several restores of one directory: in the end it has the content of one of them.
    #[test]
    fn concurrent_swaps_of_one_directory() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let target = folder.path();
                scope.spawn(move || {
                    for turn in 0..20 {
                        let temporary = target.join(format!(".sandcrab-{writer}-{turn}.tmp"));
                        fs::create_dir_all(temporary.join(NEW)).unwrap();
                        for name in 0..10 {
                            fs::write(temporary.join(NEW).join(format!("{writer}-{name}")), "").unwrap();
                        }
                        swap(&temporary, target).unwrap();
                        discard_tree(&temporary).unwrap();
                    }
                });
            }
        });
        let found = content(folder.path());
        assert_eq!(found.len(), 10, "{found:?}");
        assert!(found.iter().all(|(name, _)| name.split('-').next() == found[0].0.split('-').next()));
    }

    /// An empty target, and a temporary directory beside it with new entries.
    fn staged_beside() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (target, temporary) = (folder.path().join("target"), folder.path().join("temporary"));
        fs::create_dir(&target).unwrap();
        fs::create_dir_all(temporary.join(NEW)).unwrap();
        for name in ["a", "b"] {
            fs::write(temporary.join(NEW).join(name), "new").unwrap();
        }
        (folder, target, temporary)
    }

    #[test]
    fn files_that_programs_create_meanwhile_are_not_replaced_in_an_empty_directory() {
        let (_folder, target, temporary) = staged_beside();
        let create = || fs::write(target.join("b"), "of a program").unwrap();
        Swap::new(&temporary, &target).fill(create).unwrap_err();
        assert_eq!(content(&target), [file("b", "of a program")]);
        assert_eq!(content(&temporary.join(NEW)), [file("a", "new"), file("b", "new")]);
        recover(&temporary).unwrap();
        assert_eq!(content(&target), [file("b", "of a program")]);
    }

    /// A process was killed when one of the entries was in its place.
    #[test]
    fn an_empty_directory_is_filled_after_a_kill() {
        let (_folder, target, temporary) = staged_beside();
        let mut swap = Swap::new(&temporary, &target);
        swap.begin().unwrap();
        fs::create_dir(temporary.join(MOVING)).unwrap();
        fs::rename(temporary.join(NEW).join("a"), target.join("a")).unwrap();
        recover(&temporary).unwrap();
        assert_eq!(content(&target), [file("a", "new"), file("b", "new")]);
        assert!(!holds_old_entries(&temporary));
        // Nothing happens before all entries are complete.
        let (_folder, target, temporary) = staged_beside();
        swap = Swap::new(&temporary, &target);
        swap.begin().unwrap();
        recover(&temporary).unwrap();
        assert!(content(&target).is_empty());
    }

    /// A process was killed when the entries in `old` were out, one of them by copying and half deleting it.
    #[test]
    fn old_entries_come_back_after_a_kill() {
        let (folder, temporary) = staged();
        std::os::unix::fs::symlink(folder.path(), target_link(&temporary)).unwrap();
        fs::create_dir_all(temporary.join("old/d/complete")).unwrap();
        fs::rename(folder.path().join("a"), temporary.join("old/a")).unwrap();
        fs::create_dir_all(temporary.join("copy/incomplete")).unwrap();
        assert!(holds_old_entries(&temporary));
        recover(&temporary).unwrap();
        assert!(!holds_old_entries(&temporary));
        assert_eq!(content(folder.path()), [file("a", "old"), ("d".to_owned(), None), file("log", "old")]);
        assert!(folder.path().join("d/complete").exists());
    }

    /// A user copies a directory in which a swap was interrupted, and the server is killed during the copy.
    #[test]
    fn copy_that_looks_like_a_replacement_is_only_removed() {
        let (folder, temporary) = staged();
        Swap::new(&temporary, folder.path()).begin().unwrap();
        fs::rename(folder.path().join("a"), temporary.join("old/a")).unwrap();
        let copy = folder.path().join(".sandcrab-0123456789abcdef.tmp");
        copy_tree(&temporary, &copy, Attributes::WithoutOwner, &copy).unwrap();
        let before = content(folder.path());
        recover(&copy).unwrap();
        assert_eq!(content(folder.path()), before);
        discard_tree(&copy).unwrap();
        // Nor is a link to it, which a move to another file system has copied.
        std::os::unix::fs::symlink(&temporary, &copy).unwrap();
        recover(&copy).unwrap();
        assert!(!folder.path().join("a").exists());
        recover(&temporary).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("a")).unwrap(), "old");
    }

    /// The caller would delete the temporary directory, with the entries in `old`.
    #[test]
    fn root_swap_that_cannot_be_read_now_is_an_error() {
        let (folder, temporary) = staged();
        Swap::new(&temporary, folder.path()).begin().unwrap();
        fs::rename(folder.path().join("a"), temporary.join("old/a")).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o700)).unwrap();
        let user = crate::Identity::of(65534, 65534, &[]);
        user.run(|| recover(&temporary)).unwrap().unwrap_err();
        assert!(user.run(|| holds_old_entries(&temporary)).unwrap());
        assert_eq!(fs::read_to_string(temporary.join("old/a")).unwrap(), "old");
        // A temporary file is not a swap.
        recover(&folder.path().join("log")).unwrap();
    }

    #[test]
    fn new_entries_are_moved_after_a_kill() {
        let (folder, temporary) = staged();
        std::os::unix::fs::symlink(folder.path(), target_link(&temporary)).unwrap();
        fs::create_dir_all(temporary.join(OLD)).unwrap();
        for name in ["a", "d"] {
            fs::rename(folder.path().join(name), temporary.join(OLD).join(name)).unwrap();
        }
        fs::create_dir(temporary.join(MOVING)).unwrap();
        recover(&temporary).unwrap();
        recover(&temporary).unwrap();
        assert!(!holds_old_entries(&temporary));
        assert_eq!(content(folder.path()), [file("a", "new"), file("log", "new")]);
    }
}
