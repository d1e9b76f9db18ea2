//! [`Cgroups`]: the usable cgroups and their purposes.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, access};

use super::directory::{OomCounter, remove_tree};
use super::group::Cgroup;
use super::mounts::{self, Mount, Version};
use crate::command::Limits;
use crate::process_tree::tag::Nonce;

/// Beginning of the names of cgroups.
const PREFIX: &str = "sandcrab-";

/// Use of cgroups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CgroupChoice {
    /// Any; v2 for ending processes if both exist.
    #[default]
    Auto,
    /// None.
    Off,
    /// v1 only.
    V1,
    /// v2 only.
    V2,
}

/// Purposes for which cgroups can be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Support {
    /// Ending a tree at once.
    pub(crate) kill: bool,
    /// Limiting the memory of a tree.
    pub(crate) memory: bool,
    /// Limiting the number of processes of a tree.
    pub(crate) processes: bool,
}

/// A hierarchy in which cgroups can be created.
#[derive(Debug)]
pub(super) struct Hierarchy {
    pub(super) version: Version,
    /// The directory in which they are created.
    pub(super) own: PathBuf,
    pub(super) support: Support,
}

/// The hierarchies that can be used. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cgroups {
    pub(super) hierarchies: Arc<[Hierarchy]>,
    pub(super) kill: Option<usize>,
    pub(super) memory: Option<usize>,
    pub(super) processes: Option<usize>,
}

impl Cgroups {
    /// Detects them by trying. Costs about a millisecond; supervisors inherit the result.
    pub(crate) fn detect(choice: CgroupChoice) -> Self {
        if choice == CgroupChoice::Off {
            return Self::default();
        }
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let mounts = mounts::parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
        let wanted = |mount: &Mount| match choice {
            CgroupChoice::V1 => mount.version == Version::V1,
            CgroupChoice::V2 => mount.version == Version::V2,
            CgroupChoice::Auto | CgroupChoice::Off => true,
        };
        let hierarchies = mounts.into_iter().filter(wanted).filter_map(|mount| probe(&mount)).collect();
        Self::choose(hierarchies)
    }

    /// Selects a hierarchy for each purpose, v2 first.
    fn choose(mut hierarchies: Vec<Hierarchy>) -> Self {
        hierarchies.sort_by_key(|hierarchy| hierarchy.version == Version::V1);
        let first =
            |can: fn(&Support) -> bool| hierarchies.iter().position(|hierarchy| can(&hierarchy.support));
        Self {
            kill: first(|support| support.kill),
            memory: first(|support| support.memory),
            processes: first(|support| support.processes),
            hierarchies: hierarchies.into(),
        }
    }

    /// The purposes for which they can be used.
    pub(crate) fn support(&self) -> Support {
        Support {
            kill: self.kill.is_some(),
            memory: self.memory.is_some(),
            processes: self.processes.is_some(),
        }
    }

    /// The use for each purpose, for display: (purpose, location).
    pub(crate) fn describe(&self) -> [(&'static str, String); 3] {
        let place = |index: Option<usize>, fallback: &str| {
            index.map_or_else(
                || fallback.to_owned(),
                |index| {
                    let Hierarchy { version, own, .. } = &self.hierarchies[index];
                    let version = if *version == Version::V1 { "cgroup v1" } else { "cgroup v2" };
                    format!("{version} at {}", own.display())
                },
            )
        };
        [
            ("kill", place(self.kill, "pidfds only")),
            ("memory limit", place(self.memory, "address space of each process only")),
            ("process limit", place(self.processes, "by user only, not for root")),
        ]
    }

    /// Creates a cgroup for ending and for the given limits. The caller has checked with
    /// [`plan`](crate::process_tree::limits::plan) that these are available.
    pub(crate) fn create(&self, nonce: Nonce, name: &str, limits: &Limits) -> io::Result<Cgroup> {
        Cgroup::create(self.clone(), format!("{}{name}", prefix(nonce)), limits)
    }

    /// The counter of out-of-memory kills in the cgroup of this process: a container's own limit. With v2 it includes
    /// those in cgroups below.
    pub(crate) fn ambient_oom_kills() -> Option<OomCounter> {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let mounts = mounts::parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
        mounts.iter().find_map(|mount| OomCounter::open(&mount.own, mount.version))
    }

    /// Removes the empty cgroups of dead supervisors. Returns the number of remaining ones.
    pub(crate) fn sweep(&self, dead: &HashSet<Nonce>) -> usize {
        let mut left = 0;
        for hierarchy in self.hierarchies.iter() {
            let Ok(entries) = fs::read_dir(&hierarchy.own) else {
                continue;
            };
            for entry in entries.flatten() {
                if owner(&entry.file_name()).is_some_and(|nonce| dead.contains(&nonce)) {
                    left += usize::from(remove_tree(&entry.path()).is_err());
                }
            }
        }
        left
    }
}

fn prefix(nonce: Nonce) -> String {
    format!("{PREFIX}{nonce}-")
}

/// The supervisor whose cgroup has this name.
fn owner(name: &OsStr) -> Option<Nonce> {
    let (nonce, _) = name.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
    let nonce = Nonce::from_value(u64::from_str_radix(nonce, 16).ok()?)?;
    name.to_str()?.starts_with(&prefix(nonce)).then_some(nonce)
}

/// Creates a cgroup in a hierarchy and checks what it supports.
fn probe(mount: &Mount) -> Option<Hierarchy> {
    let own = &mount.own;
    // Moving a process needs write permission here, too.
    access(own.join("cgroup.procs"), Access::WRITE_OK).ok()?;
    if mount.version == Version::V1
        && !mount.controllers.iter().any(|name| matches!(name.as_str(), "freezer" | "memory" | "pids"))
    {
        return None;
    }
    if mount.version == Version::V2 {
        enable(own);
    }
    let directory = own.join(format!("{}probe", prefix(Nonce::random())));
    fs::create_dir(&directory).ok()?;
    let has = |file: &str| access(directory.join(file), Access::WRITE_OK).is_ok();
    let support = match mount.version {
        // A threaded or invalid cgroup accepts no processes.
        Version::V2 if !is_domain(&directory) => Support::default(),
        Version::V2 => {
            Support { kill: has("cgroup.kill"), memory: has("memory.max"), processes: has("pids.max") }
        }
        Version::V1 => Support {
            kill: has("freezer.state"),
            memory: has("memory.limit_in_bytes"),
            processes: has("pids.max"),
        },
    };
    let removed = fs::remove_dir(&directory).is_ok();
    (removed && support != Support::default()).then(|| Hierarchy {
        version: mount.version,
        own: own.clone(),
        support,
    })
}

fn is_domain(directory: &Path) -> bool {
    fs::read_to_string(directory.join("cgroup.type")).is_ok_and(|kind| kind.trim() == "domain")
}

/// Enables the controllers for limits. The kernel refuses this if the cgroup has processes of its own and is not the
/// root; those limits are then not available here.
fn enable(own: &Path) {
    let available = fs::read_to_string(own.join("cgroup.controllers")).unwrap_or_default();
    let enabled = fs::read_to_string(own.join("cgroup.subtree_control")).unwrap_or_default();
    for name in ["memory", "pids"] {
        let lists = |text: &str| text.split_ascii_whitespace().any(|word| word == name);
        if lists(&available) && !lists(&enabled) {
            let _refused = fs::write(own.join("cgroup.subtree_control"), format!("+{name}"));
        }
    }
}

#[cfg(test)]
impl Cgroups {
    /// Simulated cgroups.
    pub(crate) fn pretend(support: Support) -> Self {
        Self::choose(vec![Hierarchy { version: Version::V1, own: "/nowhere".into(), support }])
    }
}
