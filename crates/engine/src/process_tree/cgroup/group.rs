//! [`Cgroup`]: the cgroup of an execution, in as many hierarchies as it needs.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::process::Pid;

use super::detect::Cgroups;
use super::directory::{Directory, OomCounter, remove_tree};
use crate::command::Limits;

/// The cgroup of an execution: one directory for ending it, and others for its limits if these are in other
/// hierarchies.
///
/// Dropping it keeps the directories, because they may contain processes. [`remove`](Self::remove) removes them, or
/// [`Cgroups::sweep`] does later.
#[derive(Debug)]
pub(crate) struct Cgroup {
    cgroups: Cgroups,
    name: String,
    /// By hierarchy.
    directories: Vec<(usize, Arc<Directory>)>,
}

impl Cgroup {
    pub(super) fn create(cgroups: Cgroups, name: String, limits: &Limits) -> io::Result<Self> {
        let kill = cgroups.kill;
        let mut group = Self { cgroups, name, directories: Vec::new() };
        let made = kill.map_or(Ok(()), |index| group.directory(index).map(drop));
        if let Err(error) = made.and_then(|()| group.add_limits(limits)) {
            let _left_for_sweep = group.remove();
            return Err(error);
        }
        Ok(group)
    }

    /// The directory in a hierarchy; created if it does not exist.
    fn directory(&mut self, index: usize) -> io::Result<Arc<Directory>> {
        if let Some((_, directory)) = self.directories.iter().find(|(at, _)| *at == index) {
            return Ok(Arc::clone(directory));
        }
        let hierarchy = &self.cgroups.hierarchies[index];
        let directory = Arc::new(Directory::create(hierarchy.version, hierarchy.own.join(&self.name))?);
        // A process in this cgroup must be in it in all hierarchies.
        if let Some((_, first)) = self.directories.first() {
            for pid in first.members() {
                match directory.add(pid.as_raw_nonzero().get()) {
                    // It has ended since.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    other => other?,
                }
            }
        }
        self.directories.push((index, Arc::clone(&directory)));
        Ok(directory)
    }

    /// Sets those of the given limits that a cgroup enforces here. They also apply to processes that are already in
    /// it.
    pub(crate) fn add_limits(&mut self, limits: &Limits) -> io::Result<()> {
        if let (Some(bytes), Some(index)) = (limits.memory_bytes, self.cgroups.memory) {
            self.directory(index)?.limit_memory(bytes)?;
        }
        if let (Some(count), Some(index)) = (limits.processes, self.cgroups.processes) {
            self.directory(index)?.limit_processes(count)?;
        }
        Ok(())
    }

    /// The files through which a forked child joins it, by writing `0`.
    pub(crate) fn join_files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.directories.iter().map(|(_, directory)| directory.procs())
    }

    /// The directory to fork into, if it is of version 2 and the only one.
    pub(crate) fn fork_target(&self) -> Option<OwnedFd> {
        let [(_, directory)] = self.directories.as_slice() else { return None };
        if !directory.takes_forks() {
            return None;
        }
        std::fs::File::open(&directory.path).ok().map(Into::into)
    }

    /// Moves a child of this process into it, with all its threads.
    pub(crate) fn add(&self, pid: Pid) -> io::Result<()> {
        self.directories.iter().try_for_each(|(_, directory)| directory.add(pid.as_raw_nonzero().get()))
    }

    /// Moves a process out of it, to the cgroup of this process.
    pub(crate) fn release(&self, pid: Pid) -> io::Result<()> {
        let own = |index: usize| self.cgroups.hierarchies[index].own.join("cgroup.procs");
        let mut directories = self.directories.iter();
        directories.try_for_each(|(index, _)| std::fs::write(own(*index), pid.to_string()))
    }

    /// The processes in it.
    #[cfg(test)]
    pub(crate) fn members(&self) -> Vec<Pid> {
        self.directories.first().map(|(_, directory)| directory.members()).unwrap_or_default()
    }

    /// Number of its processes that the kernel has killed because memory was exhausted; 0 without a memory limit.
    pub(crate) fn oom_kills(&self) -> u64 {
        let mut memory = self.directories.iter().filter(|(index, _)| Some(*index) == self.cgroups.memory);
        let counter = memory.find_map(|(_, directory)| OomCounter::open(&directory.path, directory.version));
        counter.and_then(|counter| counter.read()).unwrap_or(0)
    }

    /// The directory for ending, which an [`Ending`](crate::process_tree::Ending) may keep longer than this.
    pub(crate) fn kill_directory(&self) -> Option<Arc<Directory>> {
        let found = self.directories.iter().find(|(index, _)| Some(*index) == self.cgroups.kill)?;
        Some(Arc::clone(&found.1))
    }

    /// Removes the directories. Fails while it contains processes, and for a moment after they have ended; then it
    /// must be called again later.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        self.directories.retain(|(_, directory)| match remove_tree(&directory.path) {
            Ok(()) => false,
            Err(error) => {
                result = Err(error);
                true
            }
        });
        result
    }
}
