//! The shell's state: saving it, and bringing a shell back with it.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::super::event_loop::Supervisor;
use super::super::job::Exit;
use super::super::run::Start;
use super::super::setup::setup_text;
use super::{Activity, Queued, STATE_PATIENCE, State};
use crate::process_tree::{Tag, walk};
use crate::protocol::{Answer, Bytes, Refusal};
use crate::shell::{Driver, Hurry, Shell, Snapshot};

/// How often in a row a shell may die while it comes up.
const MAX_FAILED_STARTS: u32 = 3;

impl Supervisor {
    pub(super) fn take_snapshot(&mut self, hurry: Hurry, now: Instant) {
        let (Some(session), Some(shell)) = (&mut self.session, &mut self.shell) else {
            return;
        };
        session.snapshot_due = None;
        // It has been idle for a while, or waits for this: nothing comes next that is in a hurry.
        self.supply.let_go();
        if shell.snapshot(hurry).is_err() {
            // Not this time; the one before it stands.
            session.dirty = false;
            self.answer_wanted();
            return;
        }
        session.dirty = false;
        session.pending = Some(now);
        if self.context.driver == Some(Driver::Portable) {
            session.activity = Activity::Snapshot { until: now + STATE_PATIENCE };
        }
    }

    pub(super) fn snapshot_arrived(&mut self, snapshot: Option<Snapshot>, now: Instant) {
        let Some(session) = &mut self.session else {
            return;
        };
        let taken = session.pending.take().unwrap_or(now);
        match snapshot {
            Some(snapshot) => {
                // In memory it serves this supervisor; on disk, the engine should we be killed.
                let age = now.saturating_duration_since(taken);
                drop(session.file.write(&self.context.folders.snapshots, snapshot.as_bytes(), age));
                session.state = Some(State { snapshot, taken });
            }
            None => {
                session.dirty = session.dirty || session.state.is_none();
                // A reset that is to keep the state cannot be had then; asking again would go on for ever.
                if session.state.is_none()
                    && let Some(reset) = session.reset.take_if(|reset| reset.restore)
                {
                    let why = Refusal::NoShell("the shell did not give its state".into());
                    for request in reset.requests {
                        self.link.send(request, &Answer::Refused(why.clone()));
                    }
                }
            }
        }
        let Some(session) = &mut self.session else {
            return;
        };
        if let Activity::Snapshot { .. } = session.activity {
            session.activity = Activity::Idle;
        }
        let last_words = matches!(session.activity, Activity::LastWords { .. });
        self.answer_wanted();
        if last_words {
            if let Some(session) = &mut self.session {
                session.last = None;
            }
            self.bring_up(now);
        }
    }

    pub(super) fn answer_wanted(&mut self) {
        let Some(session) = &mut self.session else {
            return;
        };
        let text = session.state.as_ref().map(|state| Bytes(state.snapshot.as_bytes().to_vec()));
        for request in std::mem::take(&mut session.wanted) {
            self.link.send(request, &Answer::Snapshot(text.clone()));
        }
    }

    pub(in crate::supervisor) fn kill_shell(&mut self) {
        if let Some(shell) = &self.shell {
            // Our child, not reaped yet, so the number is its own.
            let _ = rustix::process::kill_process(shell.pid(), rustix::process::Signal::KILL);
        }
    }

    /// A shell that stops itself would never answer again, nor would a fork of it that is stopped while it writes
    /// the state.
    pub(in crate::supervisor) fn continue_stopped_shell(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let forks = if session.pending.is_some() { self.snapshot_forks() } else { Vec::new() };
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
    fn snapshot_forks(&self) -> Vec<Pid> {
        let shell = self.shell.as_ref().map(Shell::pid);
        let own =
            |pid: &Pid| Tag::of(*pid).is_some_and(|tag| tag.nonce() == self.nonce && tag.command() == 0);
        walk::children().into_iter().filter(|pid| Some(*pid) != shell && own(pid)).collect()
    }

    /// Ends the forks that have not written the state in time.
    pub(super) fn end_snapshot_forks(&self) {
        for pid in self.snapshot_forks() {
            // Our child, not reaped yet, so the number is its own.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// The shell has died, of whatever.
    pub(in crate::supervisor) fn shell_ended(&mut self, exit: Exit, now: Instant) {
        let mut shell = self.shell.take();
        let Some(session) = &mut self.session else {
            return;
        };
        if let Some(snapshot) = shell.as_mut().and_then(Shell::last_state) {
            // It was caught on its way out: any other snapshot is older.
            session.pending = None;
            drop(session.file.write(&self.context.folders.snapshots, snapshot.as_bytes(), Duration::ZERO));
            session.state = Some(State { snapshot, taken: now });
        }
        let activity = std::mem::replace(&mut session.activity, Activity::Down);
        match activity {
            Activity::Command { slot, .. } => {
                self.complete_command(slot, Exit { shell_ended: true, ..exit }, now);
            }
            Activity::State { .. } => {
                session.failed_starts += 1;
                // A state that cannot be brought back must not keep the session from coming back.
                session.state = None;
            }
            Activity::Env { request, .. } => {
                let why = Refusal::NoShell("it ended while its environment was changed".into());
                self.link.send(request, &Answer::Refused(why));
            }
            _ => {}
        }
        if self.quitting {
            return;
        }
        let Some(session) = &mut self.session else {
            return;
        };
        if session.pending.is_some() && !matches!(activity, Activity::Snapshot { .. }) {
            session.last = shell;
            session.activity = Activity::LastWords { until: now + STATE_PATIENCE };
            return;
        }
        session.pending = None;
        self.bring_up(now);
    }

    /// Starts a shell if there is none, and gives it the session's state.
    pub(super) fn bring_up(&mut self, now: Instant) {
        let Some(session) = &mut self.session else {
            return;
        };
        if session.failed_starts >= MAX_FAILED_STARTS {
            self.give_up(&Refusal::NoShell("bash ends before it has its state".into()), now);
            return;
        }
        // However the last shell came to its end: a reset without the state is the end of the state, here and on disk.
        if session.reset.as_ref().is_some_and(|reset| !reset.restore) {
            session.state = None;
            session.file.clear(&self.context.folders.snapshots);
        }
        let first = session.opening.is_some() && session.failed_starts == 0;
        let start = if session.state.is_some() { Start::Empty } else { Start::Fresh };
        if start == Start::Empty && self.shell.is_some() {
            // One that was kept ready has the sandbox's environment already.
            self.drop_ready_shell();
        }
        if self.shell.is_none() {
            match self.start_shell(start) {
                Ok(shell) => self.shell = Some(shell),
                Err(e) => {
                    self.give_up(&no_shell(&e), now);
                    return;
                }
            }
        }
        let Some(session) = &mut self.session else {
            return;
        };
        if !first {
            session.restarts += 1;
            let taken = session.state.as_ref().map_or(session.opened, |state| state.taken);
            if session.reset.is_none() {
                session.restored = Some(now.saturating_duration_since(taken));
            }
            self.link.send(0, &Answer::Restarted(session.restarts));
        }
        session.dirty = false;
        session.snapshot_due = None;
        let until = now + STATE_PATIENCE;
        if let (Some(state), Some(shell)) = (&session.state, &mut self.shell) {
            session.activity = Activity::State { until };
            if shell.restore(&state.snapshot).is_err() {
                self.kill_shell();
            }
            return;
        }
        let text = setup_text(&session.env, session.cwd.as_ref());
        if text.is_empty() {
            session.activity = Activity::Idle;
            self.shell_up();
            return;
        }
        session.activity = Activity::State { until };
        if self.shell.as_mut().is_none_or(|shell| shell.prepare(&text, 0).is_err()) {
            self.kill_shell();
        }
    }

    /// The shell is up and has its state.
    pub(super) fn shell_up(&mut self) {
        let Some(session) = &mut self.session else {
            return;
        };
        session.activity = Activity::Idle;
        let reset = session.reset.take();
        // A shell that was asked for is nobody's loss.
        session.shell_ended &= reset.is_none();
        let resets = reset.into_iter().flat_map(|reset| reset.requests);
        for request in session.opening.take().into_iter().chain(resets) {
            self.link.send(request, &Answer::Done);
        }
    }

    /// No shell can be had: everything that waits for one is told, the next request tries again.
    fn give_up(&mut self, why: &Refusal, now: Instant) {
        let Some(session) = &mut self.session else {
            return;
        };
        session.activity = Activity::Down;
        session.failed_starts = 0;
        let mut requests: Vec<u64> = session.opening.take().into_iter().collect();
        requests.extend(session.reset.take().into_iter().flat_map(|reset| reset.requests));
        requests.append(&mut session.wanted);
        for item in std::mem::take(&mut session.queue) {
            match item {
                Queued::Command(slot) => self.not_started(slot, why.clone(), now),
                Queued::Env { request, .. } | Queued::Snapshot { request } => requests.push(request),
            }
        }
        for request in requests {
            self.link.send(request, &Answer::Refused(why.clone()));
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
