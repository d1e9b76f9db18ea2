//! The role of a supervisor. Each role owns its fields, descriptors and deadlines, handles the exit of its children,
//! and decides when it is finished; the rest is [`Core`].

use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::core::{Core, EndRequest, scope_in_tree};
use super::job::{Exit, Job};
use super::ready::Ready;
use super::run::Run;
use super::session::Session;
use super::terminal::Terminal;
use crate::journal::NewJournal;
use crate::process_tree::Scope;
use crate::protocol::{self, Command, OpenSession, Refusal, Response};
use crate::shell::Shell;
use crate::sys::Reaped;

/// The role of a supervisor.
#[derive(Debug)]
pub(super) enum Role {
    /// It waits for its first request, with a ready shell.
    Ready(Box<Ready>),
    /// It owns one run: a stateless command or a background process.
    Run(Box<Run>),
    /// It owns a session.
    Session(Box<Session>),
    /// It owns a terminal.
    Terminal(Box<Terminal>),
}

/// What follows an iteration of the loop.
#[derive(Debug)]
pub(super) enum Next {
    Continue,
    /// It waits for another request.
    Become(Box<Ready>),
    /// The supervisor exits.
    End,
}

/// Work to do while no client waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Housekeeping {
    /// Whether to close the descriptors of ended jobs.
    pub(super) close: bool,
    /// Whether to create the pipes of the next command.
    pub(super) prepare: bool,
}

impl Role {
    /// The role in the protocol.
    pub(super) fn to_wire(&self) -> protocol::Role {
        match self {
            Self::Ready(_) => protocol::Role::Ready,
            Self::Run(_) => protocol::Role::Run,
            Self::Session(session) => protocol::Role::Session(session.slot()),
            Self::Terminal(_) => protocol::Role::Terminal,
        }
    }

    /// Its shell, if it has one.
    pub(super) fn shell(&self) -> Option<&Shell> {
        match self {
            Self::Ready(ready) => ready.shell(),
            Self::Run(run) => run.shell(),
            Self::Session(session) => session.shell(),
            Self::Terminal(_) => None,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Ready(_))
    }

    /// The session, if the role is one.
    pub(super) fn session(&mut self) -> Result<&mut Session, Refusal> {
        match self {
            Self::Session(session) => Ok(session),
            Self::Ready(_) | Self::Run(_) | Self::Terminal(_) => Err(Refusal::NotASession),
        }
    }

    /// The slot of the running command of a session.
    pub(super) fn current_slot(&self) -> Option<u32> {
        match self {
            Self::Session(session) => session.current(),
            Self::Ready(_) | Self::Run(_) | Self::Terminal(_) => None,
        }
    }

    /// The descriptors to poll for reading, besides those of jobs; [`Role::receive`] reads them.
    pub(super) fn poll_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let more = match self {
            Self::Session(session) => session.dead_shell(),
            Self::Ready(_) | Self::Run(_) | Self::Terminal(_) => None,
        };
        self.shell().into_iter().chain(more).flat_map(Shell::poll_fds)
    }

    /// Its own next deadline.
    pub(super) fn wake_at(&self, core: &Core) -> Option<Instant> {
        match self {
            Self::Ready(_) => None,
            Self::Run(run) => run.wake_at(),
            Self::Session(session) => session.wake_at(),
            Self::Terminal(terminal) => terminal.wake_at(core),
        }
    }

    pub(super) fn housekeeping(&self) -> Housekeeping {
        match self {
            Self::Ready(ready) => Housekeeping { close: true, prepare: ready.is_up() },
            Self::Run(run) => run.housekeeping(),
            Self::Terminal(_) => Housekeeping { close: true, prepare: false },
            Self::Session(session) => session.housekeeping(),
        }
    }

    /// Accepts a command.
    pub(super) fn start(
        &mut self,
        core: &mut Core,
        request: u64,
        command: Command,
        journal: Option<NewJournal>,
        now: Instant,
    ) -> Option<Response> {
        match self {
            Self::Ready(ready) => {
                // A shell that is already up does not inherit them; the job checks those that it needs.
                if !ready.is_up()
                    && let Err(why) = core.check_limits()
                {
                    ready.give_up();
                    return Some(Response::Refused(why));
                }
                let ready = std::mem::take(&mut **ready);
                core.link.send(request, &Response::Accepted);
                if command.terminal.is_some() {
                    *self = Self::Terminal(Box::new(Terminal::start(core, ready, command, journal, now)));
                    return None;
                }
                *self = Self::Run(Box::new(Run::start(core, ready, command, journal, now)));
                None
            }
            Self::Run(_) | Self::Terminal(_) => Some(Response::Refused(Refusal::NotASession)),
            Self::Session(session) => Some(session.queue_command(core, command, journal, now)),
        }
    }

    /// Becomes a session; it replies when its shell is ready.
    pub(super) fn open_session(
        &mut self,
        core: &mut Core,
        request: u64,
        open: OpenSession,
        now: Instant,
    ) -> Result<(), Refusal> {
        let Self::Ready(ready) = self else {
            return Err(Refusal::NotASession);
        };
        core.check_limits().inspect_err(|_| ready.give_up())?;
        Session::check(core, &open)?;
        let ready = std::mem::take(&mut **ready);
        *self = Self::Session(Box::new(Session::open(core, ready, request, open, now)));
        Ok(())
    }

    /// Reads the reports of its shells, or the first of them: the rest makes the next poll return at once.
    pub(super) fn receive_some(&mut self, core: &mut Core, now: Instant) {
        match self {
            Self::Ready(_) | Self::Run(_) | Self::Terminal(_) => self.receive(core, now),
            Self::Session(session) => {
                let _ = session.receive_until_done(core, now);
            }
        }
    }

    /// Reads the reports of its shells.
    pub(super) fn receive(&mut self, core: &mut Core, now: Instant) {
        match self {
            Self::Ready(ready) => ready.receive(core),
            Self::Run(run) => run.receive(core, now),
            Self::Session(session) => session.receive(core, now),
            Self::Terminal(_) => {}
        }
    }

    /// Called before children are reaped: the report of a shell is handled before its death.
    pub(super) fn before_reaping(&mut self, core: &mut Core, now: Instant) {
        self.receive(core, now);
        match self {
            Self::Ready(ready) => continue_stopped(ready.template().pids()),
            // Not the shell of the run, which belongs to the command.
            Self::Run(run) => continue_stopped(run.template().pids()),
            Self::Session(session) => session.continue_stopped_shell(core),
            Self::Terminal(_) => {}
        }
    }

    /// A child has ended: a shell, a command, or an adopted orphan.
    pub(super) fn child_ended(&mut self, core: &mut Core, reaped: &Reaped, now: Instant) {
        match self {
            Self::Ready(ready) => ready.child_ended(core, reaped.pid),
            Self::Run(run) => run.child_ended(core, reaped, now),
            Self::Session(session) => session.child_ended(core, reaped, now),
            Self::Terminal(terminal) => terminal.child_ended(core, reaped, now),
        }
    }

    /// The program of a job has returned.
    pub(super) fn complete(&mut self, core: &mut Core, slot: u32, exit: Exit, now: Instant) {
        match self {
            Self::Ready(_) => {}
            Self::Run(run) => run.complete(core, slot, exit, now),
            Self::Session(session) => session.complete(core, slot, exit, now),
            Self::Terminal(terminal) => terminal.complete(core, slot, exit, now),
        }
    }

    /// Does what is due.
    pub(super) fn advance(&mut self, core: &mut Core, now: Instant) {
        match self {
            Self::Ready(_) => {}
            Self::Run(run) => run.advance(core, now),
            Self::Session(session) => session.advance(core, now),
            Self::Terminal(terminal) => terminal.advance(core, now),
        }
    }

    /// The scope of a job's processes.
    pub(super) fn scope_of(&self, job: Option<&Job>) -> Scope {
        match self {
            Self::Ready(_) => scope_in_tree(job, None),
            Self::Run(run) => run.scope_of(job),
            Self::Session(session) => session.scope_of(job),
            Self::Terminal(terminal) => terminal.scope_of(job),
        }
    }

    /// Starts to end the processes of a running job.
    pub(super) fn end_processes(&mut self, core: &mut Core, request: EndRequest, now: Instant) {
        match self {
            Self::Ready(_) => {}
            Self::Run(run) => run.end_processes(core, request, now),
            Self::Session(session) => session.end_processes(core, request, now),
            Self::Terminal(terminal) => terminal.end_processes(core, request, now),
        }
    }

    /// Signals the shell of a session that runs this command itself, without another process.
    pub(super) fn signal_shell(&self, slot: u32, signal: Signal) {
        if let Self::Session(session) = self {
            session.signal_shell(slot, signal);
        }
    }

    /// Ends processes that belong to no command, before everything is ended.
    pub(super) fn end_template(&mut self) {
        match self {
            Self::Ready(ready) => ready.end_template(),
            Self::Run(run) => run.end_template(),
            Self::Session(_) | Self::Terminal(_) => {}
        }
    }

    /// Prepares the next command when idle.
    pub(super) fn prepare(&mut self) {
        match self {
            Self::Ready(ready) => ready.prepare(),
            Self::Run(_) | Self::Terminal(_) => {}
            Self::Session(session) => session.prepare(),
        }
    }

    /// Whether the shell has not returned from this command yet, so that it may start more processes.
    pub(super) fn is_busy_with(&self, slot: u32) -> bool {
        match self {
            Self::Ready(_) | Self::Run(_) | Self::Terminal(_) => false,
            Self::Session(session) => session.is_busy_with(slot),
        }
    }

    /// A process that may read the standard input of a job besides its own.
    pub(super) fn readers(&self) -> Option<Pid> {
        match self {
            // The shell, with `read`.
            Self::Session(session) => session.shell().map(Shell::pid),
            Self::Ready(_) | Self::Run(_) | Self::Terminal(_) => None,
        }
    }

    /// What follows when this iteration is complete.
    pub(super) fn next(&mut self, core: &mut Core) -> Next {
        match self {
            Self::Ready(ready) => ready.next(core),
            Self::Run(run) => run.next(core),
            Self::Terminal(terminal) => terminal.next(core),
            // A session ends only by request.
            Self::Session(_) => Next::Continue,
        }
    }
}

/// Continues children that a command has stopped, for example with `kill -STOP -1`, although they are not its own.
pub(super) fn continue_stopped(pids: impl IntoIterator<Item = Pid>) {
    for pid in pids {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        if let Ok(Some(status)) = waitid(WaitId::Pid(pid), options)
            && status.stopped()
        {
            let _ = kill_process(pid, Signal::CONT);
        }
    }
}
