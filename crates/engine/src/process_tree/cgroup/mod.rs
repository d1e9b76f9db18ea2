//! Control groups, where available: for ending a tree at once, and for limits on a whole tree.
//!
//! They are detected and used, never required. Everything is created below the cgroup of this process, so its limits
//! (for example a container's) apply, and a user with a delegated subtree does not need root. Directories are named
//! `sandcrab-<nonce>-<name>`, after the supervisor that owns them.

mod detect;
mod directory;
mod group;
mod mounts;

pub(crate) use detect::{CgroupChoice, Cgroups, Support};
pub(crate) use directory::Directory;
pub(crate) use directory::OomCounter;
pub(crate) use group::Cgroup;
