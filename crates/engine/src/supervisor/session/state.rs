//! The shell's state: saving it, and bringing a shell back with it.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::super::core::{Core, ShellEnv, kill_shell};
use super::super::job::Exit;
use super::super::setup::setup_text;
use super::{Activity, Queued, STATE_TIMEOUT, Session, State};
use crate::process_tree::{Tag, walk};
use crate::protocol::{Answer, Bytes, Refusal};
use crate::shell::{Driver, Hurry, Shell, Snapshot};

/// How often in a row a shell may die while it comes up.
const MAX_FAILED_STARTS: u32 = 3;

impl Session {
    pub(super) fn take_snapshot(&mut self, core: &mut Core, hurry: Hurry, now: Instant) {
        let Some(shell) = &mut self.shell else { return };
        self.snapshot_due = None;
        // It has been idle for a while, or waits for this: nothing comes next that is in a hurry.
        core.supply.release();
        if shell.snapshot(hurry).is_err() {
            // Not this time; the one before it stands.
            self.dirty = false;
            self.answer_wanted(core);
            return;
        }
        self.dirty = false;
        self.pending = Some(now);
        if core.context.driver == Some(Driver::Portable) {
            self.activity = Activity::Snapshot { until: now + STATE_TIMEOUT };
        }
    }

    pub(super) fn snapshot_arrived(&mut self, core: &mut Core, snapshot: Option<Snapshot>, now: Instant) {
        let taken = self.pending.take().unwrap_or(now);
        match snapshot {
            Some(snapshot) => {
                // In memory it serves this supervisor; on disk, the engine should we be killed.
                let age = now.saturating_duration_since(taken);
                drop(self.file.write(&core.context.folders.snapshots, snapshot.as_bytes(), age));
                self.state = Some(State { snapshot, taken });
            }
            None => {
                self.dirty = self.dirty || self.state.is_none();
                // A reset that is to keep the state cannot be had then; asking again would go on for ever.
                if self.state.is_none()
                    && let Some(reset) = self.reset.take_if(|reset| reset.restore)
                {
                    let why = Refusal::NoShell("the shell did not give its state".into());
                    for request in reset.requests {
                        core.link.send(request, &Answer::Refused(why.clone()));
                    }
                }
            }
        }
        if let Activity::Snapshot { .. } = self.activity {
            self.activity = Activity::Idle;
        }
        let is_awaited = matches!(self.activity, Activity::AwaitingSnapshot { .. });
        self.answer_wanted(core);
        if is_awaited {
            self.dead_shell = None;
            self.bring_up(core, now);
        }
    }

    pub(super) fn answer_wanted(&mut self, core: &mut Core) {
        let text = self.state.as_ref().map(|state| Bytes(state.snapshot.as_bytes().to_vec()));
        for request in std::mem::take(&mut self.wanted) {
            core.link.send(request, &Answer::Snapshot(text.clone()));
        }
    }

    pub(super) fn kill_shell(&self) {
        self.shell.iter().for_each(kill_shell);
    }

    /// A shell that stops itself would never answer again, nor would a fork of it that is stopped while it writes
    /// the state.
    pub(in crate::supervisor) fn continue_stopped_shell(&self, core: &Core) {
        let forks = if self.pending.is_some() { self.snapshot_forks(core) } else { Vec::new() };
        let options = rustix::process::WaitIdOptions::STOPPED | rustix::process::WaitIdOptions::NOHANG;
        for pid in self.shell.as_ref().map(Shell::pid).into_iter().chain(forks) {
            if let Ok(Some(status)) = rustix::process::waitid(rustix::process::WaitId::Pid(pid), options)
                && status.stopped()
            {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::CONT);
            }
        }
    }

    /// The forks of the shell that write its state: the children of ours that are no command's.
    fn snapshot_forks(&self, core: &Core) -> Vec<Pid> {
        let shell = self.shell.as_ref().map(Shell::pid);
        let own =
            |pid: &Pid| Tag::of(*pid).is_some_and(|tag| tag.nonce() == core.nonce && tag.command() == 0);
        walk::children().into_iter().filter(|pid| Some(*pid) != shell && own(pid)).collect()
    }

    /// Ends the forks that have not written the state in time.
    pub(super) fn end_snapshot_forks(&self, core: &Core) {
        for pid in self.snapshot_forks(core) {
            // Our child, not reaped yet, so the number is its own.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// The shell has died, of whatever.
    pub(in crate::supervisor) fn shell_ended(&mut self, core: &mut Core, exit: Exit, now: Instant) {
        let mut shell = self.shell.take();
        if let Some(snapshot) = shell.as_mut().and_then(Shell::last_state) {
            // It was caught on its way out: any other snapshot is older.
            self.pending = None;
            drop(self.file.write(&core.context.folders.snapshots, snapshot.as_bytes(), Duration::ZERO));
            self.state = Some(State { snapshot, taken: now });
        }
        let activity = std::mem::replace(&mut self.activity, Activity::Down);
        match activity {
            Activity::Command { slot, .. } => {
                self.complete_command(core, slot, Exit { shell_ended: true, ..exit }, now);
            }
            Activity::State { .. } => {
                self.failed_starts += 1;
                // A state that cannot be brought back must not keep the session from coming back.
                self.state = None;
            }
            Activity::Env { request, .. } => {
                let why = Refusal::NoShell("it ended while its environment was changed".into());
                core.link.send(request, &Answer::Refused(why));
            }
            _ => {}
        }
        if core.quitting {
            return;
        }
        if self.pending.is_some() && !matches!(activity, Activity::Snapshot { .. }) {
            self.dead_shell = shell;
            self.activity = Activity::AwaitingSnapshot { until: now + STATE_TIMEOUT };
            return;
        }
        self.pending = None;
        self.bring_up(core, now);
    }

    /// Starts a shell if there is none, and gives it the session's state.
    pub(super) fn bring_up(&mut self, core: &mut Core, now: Instant) {
        if self.failed_starts >= MAX_FAILED_STARTS {
            self.give_up(core, &Refusal::NoShell("bash ends before it has its state".into()), now);
            return;
        }
        // However the last shell came to its end: a reset without the state is the end of the state, here and on disk.
        if self.reset.as_ref().is_some_and(|reset| !reset.restore) {
            self.state = None;
            self.file.clear(&core.context.folders.snapshots);
        }
        let first = self.opening.is_some() && self.failed_starts == 0;
        let env = if self.state.is_some() { ShellEnv::Empty } else { ShellEnv::Sandbox };
        if env == ShellEnv::Empty
            && let Some(shell) = self.shell.take()
        {
            // One that was kept ready has the sandbox's environment already.
            kill_shell(&shell);
        }
        if self.shell.is_none() {
            match core.start_shell(env) {
                Ok(shell) => self.shell = Some(shell),
                Err(e) => {
                    self.give_up(core, &no_shell(&e), now);
                    return;
                }
            }
        }
        if !first {
            self.restarts += 1;
            let taken = self.state.as_ref().map_or(self.opened, |state| state.taken);
            if self.reset.is_none() {
                self.restored = Some(now.saturating_duration_since(taken));
            }
            core.link.send(0, &Answer::Restarted(self.restarts));
        }
        self.dirty = false;
        self.snapshot_due = None;
        let until = now + STATE_TIMEOUT;
        if let (Some(state), Some(shell)) = (&self.state, &mut self.shell) {
            self.activity = Activity::State { until };
            if shell.restore(&state.snapshot).is_err() {
                self.kill_shell();
            }
            return;
        }
        let text = setup_text(&self.env, self.cwd.as_ref());
        if text.is_empty() {
            self.activity = Activity::Idle;
            self.shell_up(core);
            return;
        }
        self.activity = Activity::State { until };
        if self.shell.as_mut().is_none_or(|shell| shell.prepare(&text, 0).is_err()) {
            self.kill_shell();
        }
    }

    /// The shell is up and has its state.
    pub(super) fn shell_up(&mut self, core: &mut Core) {
        self.activity = Activity::Idle;
        let reset = self.reset.take();
        // A shell that was asked for is nobody's loss.
        self.shell_ended &= reset.is_none();
        let resets = reset.into_iter().flat_map(|reset| reset.requests);
        for request in self.opening.take().into_iter().chain(resets) {
            core.link.send(request, &Answer::Done);
        }
    }

    /// No shell can be had: everything that waits for one is told, the next request tries again.
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
            core.link.send(request, &Answer::Refused(why.clone()));
        }
    }
}

/// Why a shell could not be started: the kernel's reason, if it was asked.
fn no_shell(error: &io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(_) => Refusal::os(error, "start bash"),
        None => Refusal::NoShell("there is no bash here".into()),
    }
}
