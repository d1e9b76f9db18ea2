//! A supervisor as the owner of one terminal: a program with a pseudo-terminal instead of pipes.
//!
//! - this file: [`Terminal`], the role.
//! - `pty.rs`: opening a pseudo-terminal; `io.rs`: reading from it, and queued input; `requests.rs`: the handlers of
//!   requests; `saver.rs`: saved screens; `unrecorded.rs`: output on a full disk; `program.rs`: the program of a
//!   terminal that starts from the state of a session.
//!
//! `docs/design/terminals.md` describes the design.

mod io;
mod program;
mod pty;
mod requests;
mod saver;
mod unrecorded;

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

pub(super) use io::{TERMINAL_READ, TerminalIo};
pub(super) use program::{STATE_FD, ShellFromState};
pub(super) use saver::Recorded;
pub(super) use unrecorded::Unrecorded;

use super::core::{Core, EndRequest, JobProcesses, scope_in_tree};
use super::job::{Exit, Job};
use super::ready::Ready;
use super::role::Next;
use super::run::process;
use super::shell_input::check_folder;
use crate::end::EndReason;
use crate::journal::{NewJournal, Stream};
use crate::process_tree::{Scope, limits};
use crate::protocol::{Command, Refusal, Stage};
use crate::spawn;
use crate::sys::{self, Reaped};
use pty::Pty;
use saver::ScreenSaver;

/// Time without activity after which unused memory is returned: most terminals are idle most of the time.
const RELEASE_DELAY: Duration = Duration::from_secs(1);

/// Interval between attempts to record a size on a full disk.
const SIZE_RETRY: Duration = Duration::from_secs(1);

/// One terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    slot: u32,
    /// `None` if it was not started.
    saver: Option<ScreenSaver>,
    /// Time of the last activity when unused memory was last returned.
    released: Option<Instant>,
    /// Resource usage of reaped orphans.
    orphans: Exit,
}

impl Terminal {
    /// Starts the program of this supervisor.
    pub(super) fn start(
        core: &mut Core,
        ready: Ready,
        command: Command,
        journal: Option<NewJournal>,
        now: Instant,
    ) -> Self {
        let (mut template, _) = ready.into_parts();
        // It serves no other command, and would only occupy memory.
        template.end();
        core.supply.release();
        if let Some(user) = &command.user {
            core.run_as(user);
        }
        let slot = command.slot;
        let saver = match try_start(core, command, journal, now) {
            Ok(saver) => Some(saver),
            Err(why) => {
                core.not_started(slot, why, now);
                None
            }
        };
        Self { slot, saver, released: None, orphans: Exit::default() }
    }

    pub(super) fn wake_at(&self, core: &Core) -> Option<Instant> {
        let job = core.find(self.slot).filter(|job| job.stage == Stage::Running)?;
        let retry = job.io.terminal().and_then(TerminalIo::retry_at);
        let (_, recorded) = job.recorded();
        if job.unrecorded.is_active() {
            return retry.into_iter().chain(job.unrecorded.wake_at()).min();
        }
        let size = job.unwritten_size().map(|_| Instant::now() + SIZE_RETRY);
        let save = self.saver.as_ref().and_then(|saver| saver.wake_at(recorded, Instant::now()));
        let last = recorded.last_output;
        let release = (self.released != Some(last)).then(|| last + RELEASE_DELAY);
        retry.into_iter().chain(size).chain(save).chain(release).min()
    }

    pub(super) fn advance(&mut self, core: &mut Core, now: Instant) {
        let Core { jobs, buffer, context, .. } = core;
        let Some(job) = jobs.iter_mut().find(|job| job.slot == self.slot) else { return };
        if job.io.terminal().and_then(TerminalIo::retry_at).is_some_and(|at| at <= now) {
            let _ = job.pump(Stream::Stdout, buffer, now);
        }
        let mut has_freed = false;
        if let Some(saver) = &mut self.saver
            && job.stage == Stage::Running
        {
            let _ = job.retry_size();
            if job.unrecorded.is_active() {
                has_freed = keep_unrecorded(job, saver, &context.folders.screens, now);
            }
        }
        if let Some(saver) = &mut self.saver
            && job.stage == Stage::Running
            && !job.unrecorded.is_active()
        {
            let (journal, recorded) = job.recorded();
            has_freed |= saver.advance(journal, &context.folders.screens, recorded, now);
            let last = recorded.last_output;
            if self.released != Some(last) && last + RELEASE_DELAY <= now {
                self.released = Some(last);
                has_freed = true;
            }
            job.keep_uncovered(saver.covered());
        }
        if job.stage == Stage::Running {
            job.update_gate(now);
        }
        if has_freed {
            sys::release_memory();
            sys::release_stack();
        }
    }

    pub(super) fn child_ended(&mut self, core: &mut Core, reaped: &Reaped, now: Instant) {
        let own = |job: &&Job| job.pid == Some(reaped.pid) && job.stage == Stage::Running;
        match core.jobs.iter().find(own).map(|job| job.slot) {
            Some(slot) => self.complete(core, slot, Exit::from(reaped), now),
            None => self.orphans.add_usage(&Exit::from(reaped)),
        }
    }

    pub(super) fn complete(&mut self, core: &mut Core, slot: u32, mut exit: Exit, now: Instant) {
        exit.add_usage(&std::mem::take(&mut self.orphans));
        self.read_last_output(core, slot, now);
        let scope = self.scope_of(core.find(slot));
        core.complete(slot, exit, JobProcesses { scope, shell: None, template: None }, now);
    }

    /// Reads the last output, while the screen can still be saved.
    fn read_last_output(&mut self, core: &mut Core, slot: u32, now: Instant) {
        let Core { jobs, buffer, context, .. } = core;
        let Some(job) = jobs.iter_mut().find(|job| job.slot == slot) else { return };
        if job.drain(buffer, now) {
            job.cause.get_or_insert((EndReason::OutputLimit, libc::SIGKILL));
        }
        let is_recorded = job.write_unrecorded() && !job.unrecorded.is_active();
        let Some(saver) = self.saver.as_mut().filter(|_| !is_recorded) else { return };
        let folder = &context.folders.screens;
        // At most what the journal holds: some milliseconds.
        while !show_unrecorded(job, saver, folder) {}
        if saver.save_shown(folder, job.recorded().1) {
            job.record_gap();
        }
    }

    pub(super) fn end_processes(&self, core: &mut Core, request: EndRequest, now: Instant) {
        let scope = self.scope_of(core.find(request.slot));
        core.begin_ending(request, scope, false, now);
    }

    #[expect(clippy::unused_self, reason = "like the other roles")]
    pub(super) fn scope_of(&self, job: Option<&Job>) -> Scope {
        scope_in_tree(job, None)
    }

    /// It is finished when no process is left. Its supervisor serves no other command.
    #[expect(clippy::unused_self, reason = "like the other roles")]
    pub(super) fn next(&self, core: &Core) -> Next {
        let is_busy = !core.jobs.is_empty() || !core.endings.is_empty() || core.has_children_besides(None);
        if is_busy { Next::Continue } else { Next::End }
    }
}

/// Records output for which there was no space, or shows it on the screen that is saved when there is. Returns whether the
/// emulator was dropped.
fn keep_unrecorded(job: &mut Job, saver: &mut ScreenSaver, folder: &OwnedFd, now: Instant) -> bool {
    let mut has_freed = false;
    if job.unrecorded.take_attempt(now) {
        if job.unrecorded.is_skipping() && saver.save_shown(folder, job.recorded().1) {
            job.record_gap();
            has_freed = true;
        }
        if !job.unrecorded.is_skipping() && job.write_unrecorded() {
            return has_freed;
        }
    }
    if job.unrecorded.has_waited(now) {
        show_unrecorded(job, saver, folder);
    }
    has_freed
}

/// Shows output for which there was no space on the emulated screen. Returns whether that is done.
fn show_unrecorded(job: &mut Job, saver: &mut ScreenSaver, folder: &OwnedFd) -> bool {
    let is_shown = saver.show(job, folder);
    if is_shown {
        job.skip_unrecorded();
    }
    is_shown
}

fn try_start(
    core: &mut Core,
    command: Command,
    journal: Option<NewJournal>,
    now: Instant,
) -> Result<ScreenSaver, Refusal> {
    let size = command.terminal.as_ref().ok_or(Refusal::NotATerminal)?.size;
    if !size.is_valid() {
        return Err(Refusal::Unsupported);
    }
    let plan = limits::plan(&command.limits, &core.context.cgroups, core.commands_are_root())
        .map_err(|e| Refusal::Limit(e.to_string()))?;
    let job = core.new_job(command, journal, now)?;
    let slot = job.slot;
    core.jobs.push(job);
    if plan.needs_cgroup() {
        let cgroup = core.make_cgroup("-limits", &plan.in_cgroup);
        let cgroup = cgroup.map_err(|e| Refusal::os(&e, "make a cgroup for the limits"))?;
        core.job(slot)?.cgroup = Some(cgroup);
    }
    let around = core.context.oom_kills();
    let credentials = core.credentials().cloned();
    let job = core.job(slot)?;
    job.note_oom_kills(around);
    check_folder(job.command.cwd.as_ref(), credentials.as_ref())?;
    let pty = Pty::open(size, credentials.as_ref());
    let pty = pty.map_err(|e| match e {
        // Not of a disk: the kernel limits the number of pseudo-terminals.
        Errno::NOSPC => Refusal::Os {
            errno: libc::EMFILE,
            doing: "open one more pseudo-terminal (kernel.pty.max)".into(),
        },
        other => Refusal::os(&other.into(), "open a terminal (/dev/ptmx)"),
    })?;
    let (io, slave) = TerminalIo::new(pty, size);
    job.io.set_terminal(io);
    job.record_size(size);
    let saver = ScreenSaver::new(slot, job.recorded().0, size);
    job.keep_uncovered(saver.covered());
    process::start(core, slot, spawn::Stdio::Terminal(slave.as_fd()), &plan, now)?;
    Ok(saver)
}
