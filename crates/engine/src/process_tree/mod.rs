//! Who belongs to an execution, and how all of them are ended.
//!
//! # Theory of operation
//!
//! A supervisor is a child subreaper, so everything its commands start stays below it, whatever it
//! does to its session, group, environment or parent. Within a session the question is which
//! command a process belongs to; a [`Tag`] answers it, which is stored in an inherited limit that
//! has no effect of its own. [`Scope`] says which processes are meant, [`walk`] finds them, and
//! [`Ending`] ends them.
//!
//! # Never a stranger
//!
//! A process id may be used again at any time for another process, so nothing is signalled by its
//! id. The order is always: open a pidfd, *then* look whether the process of that id is in scope,
//! then signal through the pidfd. If the id changed hands before the look, the first owner is gone
//! and its pidfd delivers nothing; if it did not, what was looked at is what the pidfd holds. What
//! the look rests on cannot be mistaken either:
//!
//! * the tag holds 42 random bits, so a process that carries it was started by this supervisor's
//!   command (or by somebody who could have signalled it himself), and its number is not given to another command
//!   while a process carries it ([`Tags`]);
//! * a child of the supervisor keeps its id until the supervisor reaps it, which does not happen
//!   during a look;
//! * "child of a member" counts only if the member is seen alive, through its own pidfd, *after* its
//!   id was read as the parent's: then that id meant the member at that moment.
//!
//! # Never a missed one
//!
//! A process that leaves a parent that ends is given to the supervisor in the same locked step, at
//! the end of its list of children. So a walk that reads that list again after everything else,
//! and finds nothing new, has missed nobody but what living members have forked since; and where
//! there are living members the ending goes on.

pub(crate) mod cgroup;
mod ending;
pub(crate) mod limits;
mod member;
mod members;
mod query;
mod scope;
mod tag;
mod tags;
#[cfg(test)]
mod tests;
mod waiting;
pub(crate) mod walk;

pub(crate) use crate::procfs::StartTime;
pub(crate) use cgroup::{Cgroup, CgroupChoice, Cgroups, OomCounter};
pub(crate) use ending::{Ending, FORCE_LIMIT, Step};
pub(crate) use limits::Plan;
pub(crate) use query::{one_of_each, usage_of};
pub(crate) use scope::Scope;
pub(crate) use tag::{Nonce, Tag};
pub(crate) use tags::Tags;
pub(crate) use waiting::{Waiting, waits_for_input};
