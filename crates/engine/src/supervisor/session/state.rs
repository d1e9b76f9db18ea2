//! The shell's state: saving and restoring it.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use rustix::process::Pid;

use super::super::context::apply;
use super::super::core::{Core, ShellEnv, kill_shell};
use super::super::job::{Exit, Restored};
use super::super::role::continue_stopped;
use super::super::setup::setup_text;
use super::super::shell_input::takes_changes;
use super::turn::is_hung_up;
use super::{Activity, Queued, STATE_TIMEOUT, Session};
use crate::end::StateSource;
use crate::process_tree::{Tag, walk};
use crate::protocol::{Bytes, Refusal, Response, STATE_TOO_LARGE, Variable};
use crate::shell::{Driver, Shell, Snapshot, SnapshotError, Urgency};

/// Maximum number of consecutive deaths of a shell while it starts.
const MAX_FAILED_STARTS: u32 = 3;
/// Number of attempts with the saved state: another process may have killed the shell. A state with which every shell
/// dies is dropped, so that the session can start again.
const MAX_RESTORES: u32 = 2;

impl Session {
    /// Requests the current state from the shell.
    pub(super) fn take_snapshot(&mut self, core: &mut Core, now: Instant) {
        let Some(shell) = &mut self.shell else { return };
        leave_last_command(core, shell);
        let asked = shell.snapshot(Urgency::High);
        self.snapshot_asked(core, &asked, now);
    }

    /// Requests the state from the shell, unless it is already saved.
    pub(super) fn save_changes(&mut self, core: &mut Core, urgency: Urgency, now: Instant) {
        let Some(shell) = &mut self.shell else { return };
        leave_last_command(core, shell);
        let asked = if self.saved.may_be_unchanged() {
            shell.snapshot_if_changed(urgency)
        } else {
            shell.snapshot(urgency)
        };
        self.snapshot_asked(core, &asked, now);
    }

    fn snapshot_asked(&mut self, core: &mut Core, asked: &io::Result<()>, now: Instant) {
        self.saved.begin(now);
        if asked.is_err() {
            self.snapshot_arrived(core, Err(SnapshotError::Incomplete(0)), now);
        } else if core.context.driver == Some(Driver::Portable) {
            self.activity = Activity::Snapshot { until: now + STATE_TIMEOUT };
        }
    }

    pub(super) fn snapshot_arrived(
        &mut self,
        core: &mut Core,
        taken: Result<Snapshot, SnapshotError>,
        now: Instant,
    ) {
        let (is_taken, is_too_large) = (taken.is_ok(), matches!(taken, Err(SnapshotError::TooLarge)));
        self.saved.arrived(&core.context.folders.snapshots, taken.ok(), now);
        if is_taken {
            self.answer_wanted(core);
        } else if is_too_large {
            let doing = "copy the state of the session".into();
            self.refuse_wanted_because(core, &Refusal::Os { errno: STATE_TOO_LARGE, doing });
        } else {
            self.refuse_wanted(core);
        }
        self.snapshot_over(core, now);
    }

    /// The saved state is the current one. A state that was never saved is that of a new shell; a request for it
    /// needs the text.
    pub(super) fn state_unchanged(&mut self, core: &mut Core, now: Instant) {
        self.saved.unchanged();
        if self.saved.is_current() {
            self.answer_wanted(core);
        } else if !self.wanted.is_empty() && self.shell.is_some() {
            self.take_snapshot(core, now);
            return;
        } else {
            self.refuse_wanted(core);
        }
        self.snapshot_over(core, now);
    }

    fn snapshot_over(&mut self, core: &mut Core, now: Instant) {
        if let Activity::Snapshot { .. } = self.activity {
            self.activity = Activity::Idle;
        }
        if matches!(self.activity, Activity::AwaitingSnapshot { .. }) {
            self.dead_shell = None;
            self.bring_up(core, now);
        }
    }

    pub(super) fn answer_wanted(&mut self, core: &mut Core) {
        let text = self.saved.snapshot().map(|snapshot| Bytes(snapshot.as_bytes().to_vec()));
        for request in std::mem::take(&mut self.wanted) {
            core.link.send(request, &Response::Snapshot(text.clone()));
        }
    }

    /// The current state is not available, and an earlier one was not requested. So a shell to be reset with its
    /// state is kept.
    pub(super) fn refuse_wanted(&mut self, core: &mut Core) {
        let why = if core.own_limits.restore_needed() {
            Refusal::NoShell("the shell did not send its state".into())
        } else {
            Refusal::LimitsLowered
        };
        self.refuse_wanted_because(core, &why);
    }

    fn refuse_wanted_because(&mut self, core: &mut Core, why: &Refusal) {
        let reset = self.reset.take_if(|reset| reset.restore);
        let resets = reset.into_iter().flat_map(|reset| reset.requests);
        for request in std::mem::take(&mut self.wanted).into_iter().chain(resets) {
            core.link.send(request, &Response::Refused(why.clone()));
        }
    }

    pub(super) fn kill_shell(&self) {
        self.shell.iter().for_each(kill_shell);
    }

    /// Continues a shell that has stopped itself, or a stopped fork that writes the state; neither would ever reply.
    pub(in crate::supervisor) fn continue_stopped_shell(&self, core: &Core) {
        let forks = if self.saved.is_pending() { self.snapshot_forks(core) } else { Vec::new() };
        continue_stopped(self.shell.as_ref().map(Shell::pid).into_iter().chain(forks));
    }

    /// The forks of the shell that write its state: our children that belong to no command.
    fn snapshot_forks(&self, core: &Core) -> Vec<Pid> {
        let shell = self.shell.as_ref().map(Shell::pid);
        let own =
            |pid: &Pid| Tag::of(*pid).is_some_and(|tag| tag.nonce() == core.nonce && tag.command() == 0);
        walk::children().into_iter().filter(|pid| Some(*pid) != shell && own(pid)).collect()
    }

    /// Ends the forks that have not written the state in time.
    pub(super) fn end_snapshot_forks(&self, core: &Core) {
        for pid in self.snapshot_forks(core) {
            // It is our child and not reaped, so the process id is valid.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// The shell has died.
    pub(in crate::supervisor) fn shell_ended(&mut self, core: &mut Core, exit: Exit, now: Instant) {
        let mut shell = self.shell.take();
        let last_state = shell.as_mut().and_then(Shell::last_state);
        let activity = std::mem::replace(&mut self.activity, Activity::Down);
        match activity {
            Activity::Command { slot, .. } => {
                self.complete_command(core, slot, Exit { shell_ended: true, ..exit }, now);
            }
            Activity::State { .. } => {
                self.failed_starts += 1;
                if self.failed_starts >= MAX_RESTORES {
                    self.saved.drop_state();
                }
            }
            Activity::Env { request, .. } => {
                let why = Refusal::NoShell("the shell ended while its environment was changed".into());
                core.link.send(request, &Response::Refused(why));
            }
            _ => {}
        }
        if core.quitting {
            return;
        }
        self.died = Some(StateSource::Snapshot);
        if let Some(snapshot) = last_state {
            // Its exit was intercepted: any other snapshot is older.
            self.died = Some(StateSource::Exit);
            self.saved.replace(&core.context.folders.snapshots, snapshot.with_status(exit_status(exit)), now);
            self.answer_wanted(core);
        } else if self.saved.is_pending() && !matches!(activity, Activity::Snapshot { .. }) {
            self.dead_shell = shell;
            self.activity = Activity::AwaitingSnapshot { until: now + STATE_TIMEOUT };
            return;
        }
        self.saved.give_up_pending();
        self.bring_up(core, now);
    }

    /// Starts a shell if there is none, and restores the session's state.
    pub(super) fn bring_up(&mut self, core: &mut Core, now: Instant) {
        if self.failed_starts >= MAX_FAILED_STARTS {
            self.give_up(core, &Refusal::NoShell("bash exits while its state is restored".into()), now);
            return;
        }
        // A reset without the state drops it in memory and on disk, however the last shell ended.
        if self.reset.as_ref().is_some_and(|reset| !reset.restore) {
            self.saved.clear(&core.context.folders.snapshots);
        }
        let first = self.opening.is_some() && self.failed_starts == 0;
        // Variables that bash reads only on start cannot be given to a running shell.
        let own_env = (self.saved.snapshot().is_none() && !takes_changes(&self.env))
            .then(|| apply(core.context.env.clone(), &self.env));
        let env = match &own_env {
            _ if self.saved.snapshot().is_some() => ShellEnv::Empty,
            Some(env) => ShellEnv::Own(env),
            None => ShellEnv::Sandbox,
        };
        if env != ShellEnv::Sandbox
            && let Some(shell) = self.shell.take()
        {
            // A ready shell already has the sandbox's environment.
            kill_shell(&shell);
        }
        if self.shell.is_none() {
            match core.start_shell(env) {
                Ok(shell) => self.shell = Some(shell),
                Err(why) => {
                    self.give_up(core, &why, now);
                    return;
                }
            }
        }
        if !first {
            self.restarts += 1;
            if self.reset.is_none() {
                let from = self.died.take().unwrap_or(StateSource::Snapshot);
                self.restored =
                    Some(Restored { age: now.saturating_duration_since(self.saved.taken()), from });
            }
            core.link.send(0, &Response::Restarted(self.restarts));
        }
        self.saved.restart();
        self.warm_until = None;
        let until = now + STATE_TIMEOUT;
        if let (Some(snapshot), Some(shell)) = (self.saved.snapshot(), &mut self.shell) {
            let given = shell.restore(snapshot);
            self.state_given(core, given, until, now);
            return;
        }
        let text = self.first_text(core, own_env.is_some());
        if text.is_empty() {
            self.activity = Activity::Idle;
            self.shell_up(core);
            return;
        }
        let given = self.shell.as_mut().map_or(Ok(()), |shell| shell.prepare(&text, 0));
        self.state_given(core, given, until, now);
    }

    /// The state was handed to the shell, or could not be. An error of this process (no descriptor, no memory) says
    /// nothing about the state, which is kept for the next request.
    fn state_given(&mut self, core: &mut Core, given: io::Result<()>, until: Instant, now: Instant) {
        match given {
            Ok(()) => self.activity = Activity::State { until },
            Err(e) if is_hung_up(&e) => {
                self.activity = Activity::State { until };
                self.kill_shell();
            }
            Err(e) => self.give_up(core, &Refusal::os(&e, "hand its state to the shell"), now),
        }
    }

    /// The first text of a shell without a saved state: changes to its environment, except those with which it has
    /// started, and the working directory.
    fn first_text(&self, core: &Core, has_env: bool) -> Vec<u8> {
        let is_option = |name: &[u8]| matches!(name, b"SHELLOPTS" | b"BASHOPTS");
        let of_sandbox = core.context.env.iter().filter(|(name, _)| is_option(name.as_bytes()));
        let of_sandbox = of_sandbox.map(|(name, value)| Variable {
            name: Bytes(name.as_bytes().to_vec()),
            value: Some(Bytes(value.as_bytes().to_vec())),
        });
        let own = self.env.iter().filter(|change| !has_env || is_option(&change.name.0)).cloned();
        setup_text(&of_sandbox.chain(own).collect::<Vec<_>>(), self.cwd.as_ref())
    }

    /// The shell is ready and has its state.
    pub(super) fn shell_up(&mut self, core: &mut Core) {
        self.activity = Activity::Idle;
        self.failed_starts = 0;
        let reset = self.reset.take();
        // A requested reset does not count as a lost shell.
        self.shell_ended &= reset.is_none();
        let resets = reset.into_iter().flat_map(|reset| reset.requests);
        for request in self.opening.take().into_iter().chain(resets) {
            core.link.send(request, &Response::Done);
        }
    }

    /// No shell can be started: waiting requests are refused, the next request tries again.
    fn give_up(&mut self, core: &mut Core, why: &Refusal, now: Instant) {
        core.log_failure(&format!("a session has no shell: {why:?}"));
        self.activity = Activity::Down;
        self.failed_starts = 0;
        let mut requests: Vec<u64> = self.opening.take().into_iter().collect();
        requests.extend(self.reset.take().into_iter().flat_map(|reset| reset.requests));
        requests.append(&mut self.wanted);
        for item in std::mem::take(&mut self.queue) {
            match item {
                Queued::Command(slot) => core.not_started(slot, why.clone(), now),
                Queued::Env { request, .. } | Queued::Snapshot { request } => requests.push(request),
            }
        }
        for request in requests {
            core.link.send(request, &Response::Refused(why.clone()));
        }
    }
}

/// The processes that print the state belong to no command: a kill of what the last one has left must spare them. With
/// the loaded driver the shell sees to that itself, without a system call for each command.
fn leave_last_command(core: &Core, shell: &Shell) {
    if core.context.driver == Some(Driver::Portable) {
        // As for the tag of a command, a shell that cannot have one is still known by its ancestry.
        drop(core.tag_of_no_command().set_on(shell.pid()));
    }
}

/// The value of `$?` after a shell that has ended.
fn exit_status(exit: Exit) -> i32 {
    exit.code.or_else(|| exit.signal.map(|signal| 128 + signal)).unwrap_or(0)
}
