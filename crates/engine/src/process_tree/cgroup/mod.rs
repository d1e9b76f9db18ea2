//! Control groups, where there are some to be had: for ending a tree in one stroke, and for limits on
//! a whole tree.
//!
//! They are looked for and used, never required. Everything is made below the cgroup this process
//! is in, so that limits on it (a container's, say) hold for what is made here, and a user with a
//! delegated subtree can do it without being root. Directories are called `sandcrab-<nonce>-<name>`,
//! after the supervisor that owns them.

mod detect;
mod directory;
mod group;
mod mounts;

pub(crate) use detect::{CgroupChoice, Cgroups, Support};
pub(crate) use directory::Directory;
pub(crate) use directory::OomCounter;
pub(crate) use group::Cgroup;
