//! [`Tree`]: the watched directories, and the changes that the kernel reports for them.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::filter::Filter;
use super::options::{
    Change, ChangeKind, MAX_WATCHED_DIRECTORIES, ResyncReason, WatchError, WatchEvent, WatchOptions,
};
use super::stream::MAX_QUEUED_EVENTS;
use crate::error::{AtPath, FileError, FileErrorKind};
use crate::write::is_temporary;

/// Size of the buffer for events of the kernel: many events, and always one with the longest name.
const BUFFER_BYTES: usize = 16 << 10;

/// Maximum number of events that one call of [`Tree::read`] takes.
const MAX_READ_EVENTS: usize = 8192;

/// Number of events after the first one of an exchange in which the others are. Those of other files may be between them.
const MAX_EXCHANGE_EVENTS: usize = 16;
/// Time that the kernel gets to queue all events of an exchange.
const EXCHANGE_TIME: std::time::Duration = std::time::Duration::from_millis(1);

/// The watched directories.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
    options: WatchOptions,
    filter: Filter,
    inotify: OwnedFd,
    /// The directories by their watch descriptors.
    directories: HashMap<i32, Directory>,
    /// The watch descriptors of directories by parent and name.
    children: HashMap<(i32, Arc<OsStr>), i32>,
    /// The watch of the root. `None` while the root does not exist.
    root_watch: Option<RootWatch>,
    /// Whether the root is known to be missing, and its loss has been reported.
    is_lost: bool,
    /// Directories that were moved away, until the other event of the move arrives.
    moved: Vec<Moved>,
    /// New directories that had another name already when they were to be watched, by parent and name.
    missed: HashSet<(i32, OsString)>,
    /// The only entry of the root that is watched, and the path under which it is reported.
    only: Option<(OsString, PathBuf)>,
    /// The last move of a temporary file, until its other event arrives.
    replacing: Option<u32>,
    /// Number of calls of [`Tree::settle`].
    round: u64,
}

#[derive(Debug)]
struct Directory {
    /// `None` for the root.
    parent: Option<i32>,
    name: Arc<OsStr>,
    /// Whether it is new, and was moved before all of its content could be reported.
    is_unreported: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RootWatch {
    descriptor: i32,
    /// Device and inode.
    identity: (u64, u64),
}

#[derive(Debug)]
struct Moved {
    cookie: u32,
    descriptor: i32,
    round: u64,
}

/// The result of watching a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Added {
    Watched(i32),
    /// It is excluded or cannot be watched.
    Not,
    /// It does not exist, or not under this name any more.
    Missing,
}

/// The result of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handled {
    Done,
    /// A directory was moved to the place of another one. Whether that one is deleted, or has the place of the first
    /// (`RENAME_EXCHANGE`, as after a restore), the events do not tell. All of its content is new in any case.
    Displaced,
}

/// An event of the kernel.
struct InotifyEvent {
    descriptor: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Option<OsString>,
}

impl Tree {
    /// Watches a directory, and the directories below it if that is requested; or a single file. The file may be replaced
    /// or deleted, so its directory is watched.
    pub(super) fn open(path: &Path, options: &WatchOptions) -> Result<Self, WatchError> {
        let (root, only) = match std::fs::metadata(path).at(path)?.is_dir() {
            true => (path.to_owned(), None),
            false => {
                let file = std::fs::canonicalize(path).at(path)?;
                let (Some(parent), Some(name)) = (file.parent(), file.file_name()) else {
                    return Err(FileError::new(FileErrorKind::NotDirectory, path).into());
                };
                (parent.to_owned(), Some((name.to_owned(), path.to_owned())))
            }
        };
        let root = root.as_path();
        let filter = Filter::new(root, options)?;
        let mut tree = Self {
            root: root.to_owned(),
            options: WatchOptions { is_recursive: options.is_recursive && only.is_none(), ..options.clone() },
            only,
            missed: HashSet::new(),
            filter,
            inotify: instance(root)?,
            directories: HashMap::new(),
            children: HashMap::new(),
            root_watch: None,
            is_lost: false,
            moved: Vec::new(),
            replacing: None,
            round: 0,
        };
        tree.establish()?;
        Ok(tree)
    }

    /// Descriptor that is readable when there are changes.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Whether the root exists.
    pub(super) fn has_root(&self) -> bool {
        self.root_watch.is_some()
    }

    /// Number of watched directories.
    #[cfg(test)]
    pub(super) fn directories(&self) -> usize {
        self.directories.len()
    }

    fn establish(&mut self) -> Result<(), WatchError> {
        let flags = self.flags() - WatchFlags::DONT_FOLLOW;
        let descriptor = inotify::add_watch(&self.inotify, &self.root, flags)
            .map_err(|errno| WatchError::of_watch(&self.root, errno))?;
        let metadata = std::fs::metadata(&self.root).at(&self.root)?;
        self.root_watch = Some(RootWatch { descriptor, identity: (metadata.dev(), metadata.ino()) });
        self.is_lost = false;
        self.directories.insert(
            descriptor,
            Directory { parent: None, name: OsStr::new("").into(), is_unreported: false },
        );
        if self.options.is_recursive {
            // Nothing is new.
            self.add_below(descriptor, false, &mut Vec::new())?;
        }
        Ok(())
    }

    fn flags(&self) -> WatchFlags {
        let mut flags = WatchFlags::CREATE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW
            | WatchFlags::EXCL_UNLINK;
        for kind in &self.options.kinds {
            flags |= match kind {
                ChangeKind::Modify => WatchFlags::MODIFY,
                ChangeKind::Delete => WatchFlags::DELETE,
                ChangeKind::Attrib => WatchFlags::ATTRIB,
                ChangeKind::Create | ChangeKind::MoveFrom | ChangeKind::MoveTo => continue,
            };
        }
        flags
    }

    /// Watches all directories below a watched one. If that is new, reports what it contains as created: it was created before
    /// the watch. The same for directories below whose content could not be reported yet.
    fn add_below(
        &mut self,
        descriptor: i32,
        is_new: bool,
        to: &mut Vec<WatchEvent>,
    ) -> Result<(), WatchError> {
        let mut pending = vec![(descriptor, is_new)];
        while let Some((parent, is_new)) = pending.pop() {
            let Some(path) = self.path_of(parent) else { continue };
            let Some(directory) = self.directories.get_mut(&parent) else { continue };
            let is_new = is_new || directory.is_unreported;
            let entries = match std::fs::read_dir(self.root.join(&path)) {
                Ok(entries) => entries,
                // It has been deleted, or moved: then it is scanned again under its new name.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                    directory.is_unreported = is_new;
                    continue;
                }
                // A directory that cannot be read has no changes to report.
                Err(_) => continue,
            };
            let mut is_incomplete = false;
            for entry in entries.flatten() {
                let is_directory = entry.file_type().is_ok_and(|found| found.is_dir());
                let name = entry.file_name();
                let below = path.join(&name);
                if is_new {
                    if to.len() >= MAX_QUEUED_EVENTS {
                        // A reader would get no more than this in any case.
                        to.clear();
                        to.push(WatchEvent::Resync(ResyncReason::SlowReader));
                    }
                    self.report(ChangeKind::Create, &below, is_directory, 0, to);
                }
                if !is_directory {
                    continue;
                }
                let is_new = is_new || self.missed.remove(&(parent, name.clone()));
                match self.add(parent, &name, &below)? {
                    Added::Watched(added) => pending.push((added, is_new)),
                    Added::Missing if is_new => {
                        // It was moved, or one above it.
                        self.miss(parent, &name, to);
                        is_incomplete = true;
                    }
                    Added::Missing | Added::Not => {}
                }
            }
            if let Some(directory) = self.directories.get_mut(&parent) {
                directory.is_unreported = is_incomplete;
            }
        }
        Ok(())
    }

    /// Watches a directory.
    fn add(&mut self, parent: i32, name: &OsStr, path: &Path) -> Result<Added, WatchError> {
        // What is made in a temporary directory is reported when it has its place.
        let is_temporary = path.parent().is_some_and(|above| above.iter().any(is_temporary));
        if is_temporary || self.filter.excludes(path) {
            return Ok(Added::Not);
        }
        if self.directories.len() >= MAX_WATCHED_DIRECTORIES {
            return Err(WatchError::TooManyDirectories);
        }
        let descriptor = match inotify::add_watch(&self.inotify, self.root.join(path), self.flags()) {
            Ok(descriptor) => descriptor,
            Err(Errno::NOSPC) => return Err(WatchError::NoWatchesLeft),
            Err(Errno::NOENT) => return Ok(Added::Missing),
            Err(Errno::NOTDIR | Errno::ACCESS | Errno::PERM | Errno::LOOP) => return Ok(Added::Not),
            Err(e) => return Err(WatchError::File(FileError::of(&self.root.join(path), e))),
        };
        let name: Arc<OsStr> = name.into();
        self.children.insert((parent, Arc::clone(&name)), descriptor);
        let is_unreported = self.directories.get(&descriptor).is_some_and(|found| found.is_unreported);
        self.directories.insert(descriptor, Directory { parent: Some(parent), name, is_unreported });
        Ok(Added::Watched(descriptor))
    }

    /// The path of a watched directory, relative to the root.
    fn path_of(&self, descriptor: i32) -> Option<PathBuf> {
        let mut names = Vec::new();
        let mut directory = self.directories.get(&descriptor)?;
        while let Some(parent) = directory.parent {
            // Renames that were read too late may have made a cycle.
            if names.len() > self.directories.len() {
                return None;
            }
            names.push(&directory.name);
            directory = self.directories.get(&parent)?;
        }
        Some(names.iter().rev().map(|name| Path::new(&***name)).collect())
    }

    /// Reads changes that the kernel has queued, at most a few thousand. Returns how many events it had.
    ///
    /// Fails if the watch cannot continue.
    pub(super) fn read(&mut self, to: &mut Vec<WatchEvent>) -> Result<usize, WatchError> {
        let mut events = Vec::new();
        let mut buffer = [MaybeUninit::<u8>::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut has_waited = false;
        while events.len() < MAX_READ_EVENTS || !reader.is_buffer_empty() {
            match reader.next() {
                Ok(event) => events.push(InotifyEvent {
                    descriptor: event.wd(),
                    flags: event.events(),
                    cookie: event.cookie(),
                    name: event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned()),
                }),
                // The kernel queues the events of an exchange one by one.
                Err(Errno::AGAIN) if !has_waited && may_be_exchange(&events) => {
                    has_waited = true;
                    std::thread::sleep(EXCHANGE_TIME);
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(WatchError::of_watch(&self.root, errno)),
            }
        }
        let count = events.len();
        if events.iter().any(|event| event.flags.contains(ReadFlags::QUEUE_OVERFLOW)) {
            // Directories may have been created unseen.
            self.start_again(ResyncReason::KernelOverflow, to)?;
            return Ok(count);
        }
        for (index, event) in events.iter().enumerate() {
            if is_exchanged(event, &events[index + 1..]) {
                continue;
            }
            if self.handle(event, to)? == Handled::Displaced {
                self.start_again(ResyncReason::Replaced, to)?;
                // The other events are of the watches before.
                break;
            }
        }
        if self.root_watch.is_none() {
            self.check_root(to)?;
        }
        Ok(count)
    }

    fn handle(&mut self, event: &InotifyEvent, to: &mut Vec<WatchEvent>) -> Result<Handled, WatchError> {
        let Some(name) = &event.name else {
            self.handle_own(event);
            return Ok(Handled::Done);
        };
        let Some(parent) = self.path_of(event.descriptor) else { return Ok(Handled::Done) };
        let path = parent.join(name);
        let is_directory = event.flags.contains(ReadFlags::ISDIR);
        let kinds = [
            (ReadFlags::CREATE, ChangeKind::Create),
            (ReadFlags::MODIFY, ChangeKind::Modify),
            (ReadFlags::DELETE, ChangeKind::Delete),
            (ReadFlags::MOVED_FROM, ChangeKind::MoveFrom),
            (ReadFlags::MOVED_TO, ChangeKind::MoveTo),
            (ReadFlags::ATTRIB, ChangeKind::Attrib),
        ];
        let Some((_, kind)) = kinds.into_iter().find(|(flag, _)| event.flags.contains(*flag)) else {
            return Ok(Handled::Done);
        };
        if let Some((kind, cookie)) = self.without_temporaries(kind, &path, event.cookie, is_directory) {
            self.report(kind, &path, is_directory, cookie, to);
        }
        if !is_directory || !self.options.is_recursive {
            return Ok(Handled::Done);
        }
        match kind {
            ChangeKind::Create => match self.add(event.descriptor, name, &path)? {
                Added::Watched(added) => self.add_below(added, true, to)?,
                Added::Missing => self.miss(event.descriptor, name, to),
                Added::Not => {}
            },
            ChangeKind::MoveFrom => {
                let descriptor = self.children.remove(&(event.descriptor, name.as_os_str().into()));
                self.missed.remove(&(event.descriptor, name.clone()));
                if let Some(descriptor) = descriptor {
                    self.moved.push(Moved { cookie: event.cookie, descriptor, round: self.round });
                }
            }
            ChangeKind::MoveTo => return self.handle_moved_to(event, name, &path, to),
            ChangeKind::Delete => {
                // Its own last event may come later, when no process has it open.
                self.children.remove(&(event.descriptor, name.as_os_str().into()));
                self.missed.remove(&(event.descriptor, name.clone()));
            }
            ChangeKind::Modify | ChangeKind::Attrib => {}
        }
        Ok(Handled::Done)
    }

    /// What a reader sees of an atomic write or copy: not the temporary file. Its move to the name of the file is a
    /// change of the content, that of a directory a creation.
    fn without_temporaries(
        &mut self,
        kind: ChangeKind,
        path: &Path,
        cookie: u32,
        is_directory: bool,
    ) -> Option<(ChangeKind, u32)> {
        if path.iter().any(is_temporary) {
            if kind == ChangeKind::MoveFrom {
                self.replacing = Some(cookie);
            }
            return None;
        }
        if kind == ChangeKind::MoveTo && self.replacing.take_if(|replacing| *replacing == cookie).is_some() {
            return Some((if is_directory { ChangeKind::Create } else { ChangeKind::Modify }, 0));
        }
        Some((kind, cookie))
    }

    /// A new directory has another name already, or is deleted. Most of them are seen again at once.
    fn miss(&mut self, parent: i32, name: &OsString, to: &mut Vec<WatchEvent>) {
        if self.missed.len() >= MAX_READ_EVENTS {
            self.missed.clear();
            to.push(WatchEvent::Resync(ResyncReason::KernelOverflow));
        }
        self.missed.insert((parent, name.clone()));
    }

    /// A directory has been moved here, from within the tree or from elsewhere.
    fn handle_moved_to(
        &mut self,
        event: &InotifyEvent,
        name: &OsString,
        path: &Path,
        to: &mut Vec<WatchEvent>,
    ) -> Result<Handled, WatchError> {
        let position = self.moved.iter().position(|moved| moved.cookie == event.cookie);
        let moved = position.map(|position| self.moved.swap_remove(position));
        let displaced = self.children.get(&(event.descriptor, name.as_os_str().into())).copied();
        if displaced.is_some_and(|displaced| moved.as_ref().map(|moved| moved.descriptor) != Some(displaced))
        {
            return Ok(Handled::Displaced);
        }
        let Some(Moved { descriptor, .. }) = moved else {
            // What it contains was not seen here before. A program may also have created it just now.
            match self.add(event.descriptor, name, path)? {
                Added::Watched(added) => self.add_below(added, true, to)?,
                // It was moved again.
                Added::Missing => self.miss(event.descriptor, name, to),
                Added::Not => {}
            }
            return Ok(Handled::Done);
        };
        if self.filter.excludes(path) {
            self.forget_below(descriptor);
            return Ok(Handled::Done);
        }
        let name: Arc<OsStr> = name.as_os_str().into();
        self.children.insert((event.descriptor, Arc::clone(&name)), descriptor);
        if let Some(directory) = self.directories.get_mut(&descriptor) {
            (directory.parent, directory.name) = (Some(event.descriptor), name);
        }
        // What the glob of an anchored exclusion hid before may be visible here.
        self.add_below(descriptor, false, to)?;
        Ok(Handled::Done)
    }

    /// An event of a watched directory itself.
    fn handle_own(&mut self, event: &InotifyEvent) {
        let is_root = self.root_watch.is_some_and(|root| root.descriptor == event.descriptor);
        let root_is_gone =
            ReadFlags::MOVE_SELF | ReadFlags::DELETE_SELF | ReadFlags::UNMOUNT | ReadFlags::IGNORED;
        if is_root && event.flags.intersects(root_is_gone) {
            self.root_watch = None;
        } else if event.flags.contains(ReadFlags::IGNORED) {
            self.forget(event.descriptor);
        }
    }

    fn forget(&mut self, descriptor: i32) {
        if let Some(Directory { parent: Some(parent), name, .. }) = self.directories.remove(&descriptor) {
            let key = (parent, name);
            // Another directory may have taken the name.
            if self.children.get(&key) == Some(&descriptor) {
                self.children.remove(&key);
            }
        }
    }

    /// Ends the watches of a directory and of all below it.
    fn forget_below(&mut self, top: i32) {
        let is_below = |descriptor: &i32| {
            let mut at = Some(*descriptor);
            // Bounded: renames that were read too late may have made a cycle.
            for _ in 0..=self.directories.len() {
                let Some(descriptor) = at else { return false };
                if descriptor == top {
                    return true;
                }
                at = self.directories.get(&descriptor).and_then(|directory| directory.parent);
            }
            false
        };
        let gone: Vec<i32> = self.directories.keys().copied().filter(is_below).collect();
        for descriptor in gone {
            // It may have been deleted meanwhile.
            let _gone = inotify::remove_watch(&self.inotify, descriptor);
            self.forget(descriptor);
        }
    }

    /// Ends the watches of directories that have left the tree. Call it some time after [`Tree::read`]: the second
    /// event of a move may arrive later than the first.
    pub(super) fn settle(&mut self) {
        self.round += 1;
        let round = self.round;
        let left: Vec<Moved> = self.moved.extract_if(.., |moved| moved.round + 1 < round).collect();
        for moved in left {
            self.forget_below(moved.descriptor);
        }
    }

    /// Finds out whether another directory has taken the place of the root, and watches that one.
    pub(super) fn check_root(&mut self, to: &mut Vec<WatchEvent>) -> Result<(), WatchError> {
        let metadata = std::fs::metadata(&self.root).ok().filter(std::fs::Metadata::is_dir);
        let identity = metadata.map(|metadata| (metadata.dev(), metadata.ino()));
        match (identity, self.root_watch) {
            (Some(identity), Some(root)) if root.identity == identity => Ok(()),
            (Some(_), _) => self.start_again(ResyncReason::Replaced, to),
            (None, _) => {
                self.lose_root(to);
                Ok(())
            }
        }
    }

    /// The root does not exist now.
    fn lose_root(&mut self, to: &mut Vec<WatchEvent>) {
        self.root_watch = None;
        self.directories = HashMap::new();
        self.children = HashMap::new();
        self.moved.clear();
        self.missed.clear();
        if !std::mem::replace(&mut self.is_lost, true) {
            let lost = self.only.as_ref().map_or(PathBuf::new(), |(name, _)| name.into());
            self.report(ChangeKind::Delete, &lost, self.only.is_none(), 0, to);
        }
    }

    /// Watches the tree from its current state on.
    fn start_again(&mut self, reason: ResyncReason, to: &mut Vec<WatchEvent>) -> Result<(), WatchError> {
        self.inotify = instance(&self.root)?;
        self.directories.clear();
        self.children.clear();
        self.moved.clear();
        self.missed.clear();
        self.root_watch = None;
        match self.establish() {
            Ok(()) => to.push(WatchEvent::Resync(reason)),
            // It has vanished again, or is not accessible yet; the next check tries again.
            Err(WatchError::File(FileError {
                kind: FileErrorKind::NotFound | FileErrorKind::NotDirectory | FileErrorKind::PermissionDenied,
                ..
            })) => self.lose_root(to),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn report(
        &self,
        kind: ChangeKind,
        path: &Path,
        is_directory: bool,
        cookie: u32,
        to: &mut Vec<WatchEvent>,
    ) {
        let is_hidden = path.iter().any(is_temporary);
        if !is_hidden && self.options.kinds.contains(&kind) && self.filter.reports(path) {
            // Without a final slash for the root itself.
            let path = match &self.only {
                Some((name, shown)) if path == Path::new(name) => shown.clone(),
                Some(_) => return,
                None if path == Path::new("") => self.root.clone(),
                None => self.root.join(path),
            };
            to.push(WatchEvent::Change(Change { kind, path, is_directory, cookie }));
        }
    }
}

/// Whether the last events may be the first ones of an exchange.
fn may_be_exchange(events: &[InotifyEvent]) -> bool {
    let is_moved_file = |event: &InotifyEvent| {
        event.flags.contains(ReadFlags::MOVED_FROM) && !event.flags.contains(ReadFlags::ISDIR)
    };
    events.iter().rev().take(MAX_EXCHANGE_EVENTS).any(is_moved_file)
}

/// Whether a file is moved away by an atomic write that exchanges it for its new content: it becomes a temporary file, and another
/// one gets its name at once.
fn is_exchanged(event: &InotifyEvent, later: &[InotifyEvent]) -> bool {
    if !event.flags.contains(ReadFlags::MOVED_FROM) || event.flags.contains(ReadFlags::ISDIR) {
        return false;
    }
    let mut arrivals =
        later.iter().take(MAX_EXCHANGE_EVENTS).filter(|later| later.flags.contains(ReadFlags::MOVED_TO));
    let becomes_temporary =
        |to: &InotifyEvent| to.cookie == event.cookie && to.name.as_deref().is_some_and(is_temporary);
    let has_same_name = |to: &InotifyEvent| (to.descriptor, &to.name) == (event.descriptor, &event.name);
    arrivals.any(becomes_temporary) && arrivals.any(has_same_name)
}

fn instance(root: &Path) -> Result<OwnedFd, WatchError> {
    inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
        .map_err(|errno| WatchError::of_instance(root, errno))
}
