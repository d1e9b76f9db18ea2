//! The template shell, from which the shells of stateless commands are forked.
//!
//! It runs no commands. A fork takes a fraction of the time of starting bash, and one template serves many runs.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::core::kill_shell;
use crate::process_tree::{Tag, walk};
use crate::shell::{ForkSetup, Shell, ShellJob};
use crate::sys;

/// Maximum time for which it is kept while its last fork runs: besides a long command it only occupies memory.
const KEPT_FOR: Duration = Duration::from_millis(500);

/// A template, or none.
#[derive(Debug, Default)]
pub(super) struct Template {
    shell: Option<Shell>,
    /// A fork that waits for a command.
    fork: Option<Shell>,
    /// Time at which it is ended unless the run has finished.
    until: Option<Instant>,
    /// Whether its forks run, as far as known. With glibc older than 2.25 they do not.
    forks_live: Option<bool>,
}

impl Template {
    pub(super) fn new(shell: Option<Shell>) -> Self {
        Self { shell, ..Self::default() }
    }

    pub(super) fn pid(&self) -> Option<Pid> {
        self.shell.as_ref().map(Shell::pid)
    }

    /// Its process id, and that of the waiting fork.
    pub(super) fn pids(&self) -> impl Iterator<Item = Pid> {
        self.shell.iter().chain(&self.fork).map(Shell::pid)
    }

    pub(super) fn is_some(&self) -> bool {
        self.shell.is_some()
    }

    /// Whether it can fork shells for commands. If its forks are not known to run, it runs a command itself.
    pub(super) fn can_fork(&self) -> bool {
        self.shell.is_some() && self.forks_live == Some(true)
    }

    /// Ends the shell that would be used next if its limits are not correct: a command may have lowered them, which
    /// must not affect the next one.
    pub(super) fn check(&mut self, is_sound: impl Fn(Pid) -> bool) {
        end(self.fork.take_if(|fork| !is_sound(fork.pid())));
        if self.fork.is_none() && self.pid().is_some_and(|pid| !is_sound(pid)) {
            self.end();
        }
    }

    pub(super) fn shell(&self) -> Option<&Shell> {
        self.shell.as_ref()
    }

    pub(super) fn shell_mut(&mut self) -> Option<&mut Shell> {
        self.shell.as_mut()
    }

    /// Takes the shell: for a command that it runs itself, or for a session.
    pub(super) fn take(&mut self) -> Option<Shell> {
        self.until = None;
        end(self.fork.take());
        self.shell.take()
    }

    /// Takes the shell for a session, if its limits are correct. A fork that waits for a command is left behind, for
    /// [`Template::end_unused`].
    pub(super) fn take_for_session(&mut self, is_sound: impl Fn(Pid) -> bool) -> Option<Shell> {
        self.until = None;
        if self.pid().is_some_and(|pid| !is_sound(pid)) {
            self.end();
        }
        self.shell.take()
    }

    /// Kills what was not used, without waiting: the end of a process takes as long as a short command.
    pub(super) fn end_unused(&mut self) {
        for shell in self.fork.take().iter().chain(&self.shell.take()) {
            kill_shell(shell);
        }
    }

    /// Keeps it for another run.
    pub(super) fn reuse(&mut self) -> Self {
        self.until = None;
        std::mem::take(self)
    }

    /// Forks a shell for the next command in advance.
    pub(super) fn fork_ahead(&mut self) {
        if self.fork.is_none()
            && self.forks_live != Some(false)
            && let Some(shell) = &mut self.shell
        {
            match shell.fork_ahead() {
                Ok(fork) => self.fork = Some(fork),
                // The kernel refused.
                Err(e) if e.raw_os_error().is_some() => {}
                Err(_) => self.end_late(),
            }
        }
    }

    /// Takes the fork that waits for a command, if any.
    pub(super) fn take_fork(&mut self, now: Instant) -> Option<Shell> {
        let mut fork = self.fork.take()?;
        if !fork.is_fork_up() {
            self.forks_live = Some(false);
            end(Some(fork));
            return None;
        }
        self.forks_live = Some(true);
        self.until = Some(now + KEPT_FOR);
        Some(fork)
    }

    /// Forks a shell that runs the job like `bash -c`. After a failure there is no fork, and perhaps no template any
    /// more.
    pub(super) fn fork(&mut self, job: ShellJob<'_>, tag: Tag, now: Instant) -> io::Result<Shell> {
        let Some(shell) = &mut self.shell else {
            return Err(io::ErrorKind::NotFound.into());
        };
        // It is already in the cgroup of its forks.
        let setup = ForkSetup { tag: tag.limit_value().ok().map(|value| value.soft), cgroup: None };
        let forked = shell.fork(job, setup);
        match &forked {
            Ok(_) => self.until = Some(now + KEPT_FOR),
            // The kernel refused: the template can still run the job itself, unless setting its tag failed.
            Err(e) if e.raw_os_error().is_some_and(|errno| errno != libc::EPERM) => {}
            Err(_) => self.end_late(),
        }
        forked
    }

    /// Ends it together with a fork that was reported too late. This supervisor has no other children then.
    fn end_late(&mut self) {
        self.end();
        for pid in walk::children() {
            drop(sys::send_signal(pid, libc::SIGKILL));
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.until
    }

    pub(super) fn advance(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            self.end();
        }
    }

    /// Whether this was the template or its waiting fork, which has ended.
    pub(super) fn has_ended(&mut self, pid: Pid) -> bool {
        let ended = |shell: &mut Shell| shell.pid() == pid;
        if let Some(mut fork) = self.fork.take_if(ended) {
            // It was killed, or never ran.
            self.forks_live = Some(fork.is_fork_up());
            return true;
        }
        self.shell.take_if(ended).is_some()
    }

    /// Ends it, so that everything below this supervisor belongs to the command.
    pub(super) fn end(&mut self) {
        self.until = None;
        end(self.fork.take());
        end(self.shell.take());
    }
}

fn end(shell: Option<Shell>) {
    if let Some(shell) = shell {
        kill_shell(&shell);
        sys::reap_one(shell.pid());
    }
}
