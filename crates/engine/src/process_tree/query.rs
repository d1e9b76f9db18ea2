//! Lists the processes in a [`Scope`], and sends them a signal without ending them.

use std::collections::HashSet;
use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::member::ScanAction;
use super::members::Members;
use super::scope::{Candidate, Scope};
use super::tag::Tag;
use super::walk::walk;
use crate::end::Usage;
use crate::procfs::{ProcessUsage, Stat};

/// Maximum number of scans while new processes appear.
const MAX_LOOKS: usize = 8;

impl Scope {
    /// The live processes in scope.
    pub(crate) fn members(self) -> Vec<Pid> {
        let mut members = Members::new(self);
        // The children of a parent that ends during a scan appear behind it: scan until nothing new is found, twice.
        let mut quiet = 0;
        for _ in 0..MAX_LOOKS {
            let found = members.look(ScanAction::Look);
            quiet = if found.new == 0 && !found.incomplete { quiet + 1 } else { 0 };
            if quiet == 2 {
                break;
            }
        }
        // A process that was reassigned during the last scan may have been missed by it.
        let there = |pid, start| Stat::of(pid).is_some_and(|stat| stat.start == start && !stat.ended);
        let still = members.iter().filter(|member| there(member.pid, member.start));
        still.map(|member| member.pid).collect()
    }

    /// Sends every process in scope a signal, once. Returns the number of processes.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<usize> {
        let opened: Vec<_> = self
            .members()
            .into_iter()
            .filter_map(|pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?)))
            .collect();
        // A process that is in scope after its pidfd was opened is that of the pidfd.
        let still = self.members();
        let mut reached = 0;
        for (_, fd) in opened.iter().filter(|(pid, _)| still.contains(pid)) {
            match pidfd_send_signal(fd, signal) {
                Ok(()) => reached += 1,
                Err(rustix::io::Errno::SRCH) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(reached)
    }
}

/// One process of each of these scopes, or `None` if it has none: by a few scans of everything below this process,
/// however many scopes there are.
pub(crate) fn one_of_each(scopes: &[Scope]) -> Vec<Option<Pid>> {
    let mut found = vec![None; scopes.len()];
    // As in `members`.
    let mut quiet = 0;
    for _ in 0..MAX_LOOKS {
        let before = found.iter().flatten().count();
        let is_complete = look_for_each(scopes, &mut found);
        let after = found.iter().flatten().count();
        quiet = if after == before && is_complete { quiet + 1 } else { 0 };
        if after == scopes.len() || quiet == 2 {
            break;
        }
    }
    found
}

/// Fills in a process of each scope that has none yet. Returns whether no process was missed.
fn look_for_each(scopes: &[Scope], found: &mut [Option<Pid>]) -> bool {
    let me = getpid();
    let mut members = vec![HashSet::new(); scopes.len()];
    walk(me, &mut |pid| {
        let stat = Stat::of(pid)?;
        if stat.ended {
            return Some(stat);
        }
        let tag = Tag::of(pid);
        for ((scope, found), members) in scopes.iter().zip(&mut *found).zip(&mut members) {
            let parent_is_member = stat.parent.is_some_and(|parent| members.contains(&parent));
            let candidate = Candidate { pid, parent: stat.parent, parent_is_member, start: stat.start, tag };
            if scope.holds(me, &candidate, &[]) {
                members.insert(pid);
                found.get_or_insert(pid);
            }
        }
        Some(stat)
    })
}

/// Resource usage of live processes, and of children they have waited for, so far, without the wall time.
pub(crate) fn usage_of(pids: &[Pid]) -> Usage {
    let mut usage = Usage::default();
    for used in pids.iter().filter_map(|pid| ProcessUsage::of(*pid)) {
        usage.user += used.user;
        usage.system += used.system;
        usage.max_rss_bytes = usage.max_rss_bytes.max(used.resident_bytes);
    }
    usage
}
