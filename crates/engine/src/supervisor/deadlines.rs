//! Timeouts: the deadlines of jobs, the next wake-up of the event loop, and what happens at a deadline.
//!
//! A job whose deadline has passed is ended with its process tree: SIGTERM, a grace period, SIGKILL
//! ([`crate::process_tree`]).

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::core::{EndRequest, Purpose};
use super::event_loop::Supervisor;
use super::job::Job;
use super::leftovers::Leftovers;
use crate::end::EndReason;
use crate::protocol::Stage;
use crate::shell::Shell;

/// Interval between attempts to record an end on a full disk.
const END_RETRY: Duration = Duration::from_millis(500);

impl Job {
    /// Returns the next deadline and its reason: the timeout, or the idle timeout.
    pub(super) fn deadline(&self) -> Option<(Instant, EndReason)> {
        if self.stage != Stage::Running || self.cause.is_some() {
            return None;
        }
        let wall = self.command.timeout.and_then(|t| self.started.checked_add(t));
        // A command that waits for its reader does not count as idle.
        let idle_timeout = self.command.idle_timeout.filter(|_| !self.is_blocked);
        let idle = idle_timeout.and_then(|t| self.last_output.checked_add(t));
        match (wall, idle) {
            (Some(wall), Some(idle)) if idle < wall => Some((idle, EndReason::IdleTimeout)),
            (Some(wall), _) => Some((wall, EndReason::Timeout)),
            (None, Some(idle)) => Some((idle, EndReason::IdleTimeout)),
            (None, None) => None,
        }
    }
}

impl Supervisor {
    /// Returns the time of the next wake-up.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let core = &self.core;
        let jobs = core.jobs.iter().filter_map(|job| job.deadline().map(|(at, _)| at));
        let endings = core.endings.iter().map(|task| task.wake_at);
        let retry = core.jobs.iter().any(Job::has_unwritten_end).then(|| Instant::now() + END_RETRY);
        let gates = core.jobs.iter().filter_map(Job::gate_expires_at);
        jobs.chain(endings)
            .chain(gates)
            .chain(self.role.wake_at(core))
            .chain(retry)
            .chain(self.orphan_check)
            .chain(core.closed_leftovers.iter().filter_map(Leftovers::wake_at))
            .chain(core.link.wake_at())
            .chain(self.role.shell().and_then(Shell::wake_at))
            .min()
    }

    /// Ends the jobs whose deadline has passed.
    pub(super) fn keep_deadlines(&mut self, now: Instant) {
        let passed: Vec<_> = self
            .core
            .jobs
            .iter()
            .filter_map(|job| job.deadline().filter(|(at, _)| *at <= now).map(|(_, why)| (job.slot, why)))
            .collect();
        for (slot, reason) in passed {
            self.end_for_cause(slot, reason, now);
        }
    }

    /// Ends a running job because of a deadline or a limit.
    pub(super) fn end_for_cause(&mut self, slot: u32, reason: EndReason, now: Instant) {
        let Some(job) = self.core.find(slot) else {
            return;
        };
        let grace = if reason == EndReason::OutputLimit { Duration::ZERO } else { job.command.timeout_grace };
        let signal = match job.io.terminal() {
            _ if grace.is_zero() => Signal::KILL,
            // An interactive shell ignores SIGTERM.
            Some(_) => Signal::HUP,
            None => Signal::TERM,
        };
        let request = EndRequest { slot, reason, signal, grace, purpose: Purpose::Cause };
        self.role.end_processes(&mut self.core, request, now);
    }
}
