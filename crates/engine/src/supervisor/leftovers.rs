//! Leftovers of finished executions.
//!
//! A job is closed when its pipes are; a daemon that closed them may run for days. Meanwhile the engine keeps the
//! execution's record, and leftovers can be listed, signalled and ended. There is no polling: one process of each
//! execution is watched, and when it ends, the others are scanned for.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use super::core::Core;
use super::job::{Job, raw};
use super::role::Role;
use crate::end::{Leftover, MAX_LEFTOVERS};
use crate::process_tree::{Scope, StartTime, Tag, one_of_each, walk};
use crate::protocol::{Response, Stage};

/// Interval of scans for leftovers that cannot be watched.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of executions with a watched process, because each needs a descriptor. Leftovers of others are
/// scanned for.
const MAX_WATCHED: usize = 64;

/// The leftovers of one execution.
#[derive(Debug)]
pub(super) struct Leftovers {
    pub(super) slot: u32,
    processes: LeftoverKey,
    /// A process that was alive at the last scan.
    watched: Option<OwnedFd>,
    /// Time of the next scan without a known end.
    look_at: Option<Instant>,
}

/// Identifies the leftovers of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeftoverKey {
    tag: Tag,
    since: Option<StartTime>,
    until: Option<StartTime>,
}

impl LeftoverKey {
    pub(super) fn of(job: &Job) -> Self {
        Self { tag: job.tag, since: job.since, until: job.until }
    }

    /// The scope of these processes. A session's shell has run other commands since; in a run, everything that
    /// belongs to no other execution belongs to it.
    pub(super) fn scope(self, role: &Role) -> Scope {
        let shell = role.shell().map_or_else(getpid, |shell| shell.pid());
        let (since, until) = match role {
            Role::Session(_) => (self.since, self.until),
            Role::Ready(_) | Role::Run(_) | Role::Terminal(_) => (Some(StartTime::EARLIEST), None),
        };
        Scope::Command { tag: self.tag, shell, since, until }
    }
}

impl Leftovers {
    /// The leftovers of a closed job, to be scanned for.
    pub(super) fn of(job: &Job, now: Instant) -> Self {
        Self { slot: job.slot, processes: LeftoverKey::of(job), watched: None, look_at: Some(now) }
    }

    /// The tag of the command that left them.
    pub(super) fn tag(&self) -> Tag {
        self.processes.tag
    }

    pub(super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.watched.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// The watched process has ended.
    pub(super) fn look_soon(&mut self, now: Instant) {
        self.watched = None;
        self.look_at = Some(now);
    }

    fn is_due(&self, now: Instant) -> bool {
        self.look_at.is_some_and(|at| at <= now)
    }

    /// Stores the result of a scan. Returns whether there are leftovers. If the process ends between the scan and
    /// this call, the next scan follows at once.
    fn found(&mut self, one: Option<Pid>, may_watch: bool, now: Instant) -> bool {
        let Some(one) = one else { return false };
        self.watched = may_watch.then(|| pidfd_open(one, PidfdFlags::empty()).ok()).flatten();
        self.look_at = self.watched.is_none().then_some(now + LOOK_INTERVAL);
        true
    }
}

impl Core {
    /// The leftovers of an ended execution, if known.
    pub(super) fn left_by(&self, slot: u32) -> Option<LeftoverKey> {
        let ended = self.find(slot).filter(|job| job.stage == Stage::Ended).map(LeftoverKey::of);
        ended.or_else(|| {
            self.closed_leftovers.iter().find(|left| left.slot == slot).map(|left| left.processes)
        })
    }

    /// Reports executions without leftovers. Scans for all due ones at once.
    pub(super) fn check_leftovers(&mut self, role: &Role, now: Instant) {
        let due = self.closed_leftovers.iter().filter(|left| left.is_due(now));
        let scopes: Vec<_> = due.map(|left| left.processes.scope(role)).collect();
        if scopes.is_empty() {
            return;
        }
        let mut found = one_of_each(&scopes).into_iter();
        let mut watched = self.closed_leftovers.iter().filter(|left| left.watched.is_some()).count();
        let link = &mut self.link;
        self.closed_leftovers.retain_mut(|left| {
            if !left.is_due(now) {
                return true;
            }
            let is_there = left.found(found.next().flatten(), watched < MAX_WATCHED, now);
            watched += usize::from(left.watched.is_some());
            if !is_there {
                link.send(0, &Response::Gone { slot: left.slot });
            }
            is_there
        });
    }

    /// Scans for all leftovers in the next iteration.
    pub(super) fn scan_leftovers_soon(&mut self, now: Instant) {
        self.closed_leftovers.iter_mut().for_each(|left| left.look_soon(now));
    }
}

/// Leftovers with their command lines; a bounded number.
pub(super) fn named(pids: &[Pid]) -> Vec<Leftover> {
    let first = pids.iter().take(MAX_LEFTOVERS);
    first.map(|pid| Leftover { pid: raw(*pid), command: walk::command_line(*pid) }).collect()
}
