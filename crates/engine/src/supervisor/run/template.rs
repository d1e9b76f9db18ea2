//! The shell that the shells of stateless commands are forked from.
//!
//! It has run nothing and never will. Forking it takes a fraction of the time that starting a bash takes, and it serves
//! one run after the other.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::super::core::kill_shell;
use crate::process_tree::{Tag, walk};
use crate::shell::{Birth, Job, Shell};
use crate::sys;

/// How long it is kept while its last fork runs: beside a command that takes long it only takes room.
const KEPT_FOR: Duration = Duration::from_millis(500);

/// A template, or none.
#[derive(Debug, Default)]
pub(super) struct Template {
    shell: Option<Shell>,
    /// When it is ended unless the run is over.
    until: Option<Instant>,
}

impl Template {
    pub(super) fn new(shell: Option<Shell>) -> Self {
        Self { shell, until: None }
    }

    pub(super) fn pid(&self) -> Option<Pid> {
        self.shell.as_ref().map(Shell::pid)
    }

    pub(super) fn is_some(&self) -> bool {
        self.shell.is_some()
    }

    /// Gives up the shell: for a command that it runs itself, or for the next run.
    pub(super) fn take(&mut self) -> Option<Shell> {
        self.until = None;
        self.shell.take()
    }

    /// Forks a shell that runs the job as `bash -c` would. After a failure there is no fork, and perhaps no template
    /// any more.
    pub(super) fn fork(&mut self, job: Job<'_>, tag: Tag, now: Instant) -> io::Result<Shell> {
        let Some(shell) = &mut self.shell else {
            return Err(io::ErrorKind::NotFound.into());
        };
        // It is in the cgroup that its forks are to be in.
        let birth = Birth { tag: tag.limit_value().ok().map(|value| value.soft), cgroup: None };
        let forked = shell.fork(job, birth);
        match &forked {
            Ok(_) => self.until = Some(now + KEPT_FOR),
            // The kernel refused: it can still run the job itself.
            Err(e) if e.raw_os_error().is_some() => {}
            Err(_) => {
                self.end();
                // A fork that came too late to be heard of. This supervisor has no other children yet.
                for pid in walk::children() {
                    drop(sys::send_signal(pid, libc::SIGKILL));
                }
            }
        }
        forked
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.until
    }

    pub(super) fn advance(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            self.end();
        }
    }

    /// Whether this was the template, which has ended.
    pub(super) fn has_ended(&mut self, pid: Pid) -> bool {
        self.shell.take_if(|shell| shell.pid() == pid).is_some()
    }

    /// Ends it, so that everything below this supervisor is the command's.
    pub(super) fn end(&mut self) {
        self.until = None;
        if let Some(shell) = self.shell.take() {
            kill_shell(&shell);
            sys::reap_one(shell.pid());
        }
    }
}
