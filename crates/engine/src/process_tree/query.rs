//! Asking who is in a [`Scope`], and sending them a signal without ending them.

use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::members::{Act, Members};
use super::scope::Scope;

impl Scope {
    /// The processes in scope that are alive.
    pub(crate) fn members(self) -> Vec<Pid> {
        let mut members = Members::new(self);
        members.look(Act::Look);
        members.iter().filter(|member| member.alive).map(|member| member.pid).collect()
    }

    /// Sends every process in scope a signal, once. Returns how many it reached.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<usize> {
        let opened: Vec<_> = self
            .members()
            .into_iter()
            .filter_map(|pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?)))
            .collect();
        // Whoever is in scope after its pidfd was opened is the one the pidfd is of.
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
