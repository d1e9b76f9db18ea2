//! Finds the processes of an execution and ends them.
//!
//! # Theory of operation
//!
//! A supervisor is a child subreaper, so all descendants of its commands stay below it, whatever they do to their
//! session, group, environment or parent. Within a session, a [`Tag`] identifies the command of a process. It is
//! stored in an inherited limit that has no effect of its own. [`Scope`] defines a set of processes, [`walk`] finds
//! them, and [`Ending`] ends them.
//!
//! # No other process is signalled
//!
//! A process id may be reused at any time, so nothing is signalled by id. The order is always: open a pidfd, *then*
//! check that the process with that id is in scope, then signal through the pidfd. If the id was reused before the
//! check, the first process has ended and its pidfd delivers nothing. Otherwise the checked process is that of the
//! pidfd. The check itself is reliable:
//!
//! * the tag contains 42 random bits, so a process with it was started by this supervisor's command (or by a process
//!   that could have signalled it itself), and its number is not given to another command while a process carries it
//!   ([`Tags`]);
//! * another supervisor's tag, which is readable and can be copied, extends the scope of a dead supervisor only to
//!   processes that no live supervisor has below it;
//! * a child of the supervisor keeps its id until the supervisor reaps it, which does not happen during a scan;
//! * "child of a member" counts only if the member is alive, according to its pidfd, *after* its id was read as the
//!   parent's: then that id meant the member at that moment.
//!
//! # No process is missed
//!
//! When a parent ends, the kernel gives its children to the supervisor in the same locked step, at the end of its
//! list of children. So a walk that reads that list again at its end, and finds nothing new, has missed only
//! processes that live members have forked since. As long as there are live members, the ending continues.

use std::ffi::CStr;

pub(crate) mod cgroup;
mod kill;
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
pub(crate) use kill::{Ending, FORCE_LIMIT, Step};
pub(crate) use limits::Plan;
pub(crate) use query::{one_of_each, usage_of};
pub(crate) use scope::Scope;
pub(crate) use tag::{Nonce, Tag};
pub(crate) use tags::Tags;
/// The name of a supervisor's process.
pub(crate) const SUPERVISOR: &CStr = c"sandcrab-super";

pub(crate) use waiting::{InputFile, Waiting, waits_for_file, waits_for_input};
