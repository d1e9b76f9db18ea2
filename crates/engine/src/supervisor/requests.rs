//! What a supervisor does on each request of its engine.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::event_loop::{EndingTask, Purpose, Supervisor};
use super::job::{Job, raw};
use super::link::Incoming;
use crate::end::{EndReason, KillReceipt, Usage};
use crate::journal::{JournalWriter, NewJournal, Slot, kind};
use crate::process_tree::{Ending, Scope, Tag, Waiting, usage_of, waits_for_input};
use crate::procfs;
use crate::protocol::{Answer, Bytes, Command, Envelope, Inspection, Refusal, Request, Role, Stage};
use crate::shell::Shell;

impl Supervisor {
    pub(super) fn handle(&mut self, incoming: Incoming) {
        let Incoming { envelope: Envelope { request, body }, journal } = incoming;
        let now = Instant::now();
        let answer = match body {
            Request::Hello(_) => Some(self.welcome()),
            Request::Start(command) => self.start_command(request, *command, journal, now),
            Request::OpenSession(open) => self.open_session(request, *open, now),
            Request::Kill { slot, signal, grace } => self.kill(request, slot, signal, grace, now),
            Request::Interrupt { signal, grace } => match self.current_slot() {
                Some(slot) => self.kill(request, slot, signal, grace, now),
                None => Some(Answer::Receipt(KillReceipt::default())),
            },
            Request::Signal { slot, signal } => Some(self.signal(slot, signal)),
            Request::WriteStdin { slot, bytes, close } => {
                let job = self.jobs.iter_mut().find(|job| job.slot == slot);
                match job.map(|job| job.give_stdin(request, &bytes.0, close)) {
                    Some(true) => {
                        self.write_stdin(slot);
                        None
                    }
                    Some(false) => Some(Answer::Refused(Refusal::StdinNotOpen)),
                    None => Some(Answer::Refused(Refusal::NoSuchExecution)),
                }
            }
            Request::Follow { slot, position } => {
                if let Some(job) = self.jobs.iter_mut().find(|job| job.slot == slot) {
                    job.follow = Some(position);
                }
                None
            }
            Request::Inspect(slot) => Some(self.inspect(slot)),
            Request::Snapshot => self.queue_snapshot(request),
            Request::Quit => {
                self.quit(request);
                None
            }
            Request::Reset(restore) => self.reset_session(request, restore, now),
            Request::Adopt { slot, pid } => Some(self.adopt(slot, pid, now)),
            Request::SetEnv(changes) => self.queue_env(request, &changes),
        };
        if let Some(answer) = answer {
            self.link.send(request, &answer);
        }
    }

    /// A new job, whose journal is opened if it did not come with it.
    pub(super) fn new_job(
        &mut self,
        command: Command,
        journal: Option<NewJournal>,
        now: Instant,
    ) -> Result<Job, Refusal> {
        let (folder, slot) = (&self.context.folders.journals, Slot(command.slot));
        let mut journal = match journal {
            Some(journal) => JournalWriter::begin(folder, slot, journal),
            None => JournalWriter::open(folder, slot)
                .map_err(|e| Refusal::Os { errno: libc::EIO, doing: format!("open the journal: {e}") })?,
        };
        if command.record_taken == Some(true) {
            journal
                .append_event(kind::TAKEN, &[])
                .map_err(|e| Refusal::Os { errno: libc::EIO, doing: format!("write the journal: {e}") })?;
        }
        self.commands += 1;
        Ok(Job::new(command, Tag::new(self.nonce, self.commands), journal, now))
    }

    fn start_command(
        &mut self,
        request: u64,
        command: Command,
        journal: Option<NewJournal>,
        now: Instant,
    ) -> Option<Answer> {
        match self.role {
            Role::Ready => {
                self.role = Role::Run;
                self.link.send(request, &Answer::Accepted);
                self.start_run(command, journal, now);
                None
            }
            Role::Run => Some(Answer::Refused(Refusal::NotASession)),
            Role::Session(_) => Some(self.queue_command(command, journal, now)),
        }
    }

    fn kill(
        &mut self,
        request: u64,
        slot: u32,
        signal: i32,
        grace: Duration,
        now: Instant,
    ) -> Option<Answer> {
        let Some(signal) = Signal::from_named_raw(signal) else {
            return Some(Answer::Refused(Refusal::Unsupported));
        };
        let Some(job) = self.jobs.iter_mut().find(|job| job.slot == slot) else {
            return Some(Answer::Receipt(KillReceipt::default()));
        };
        match job.stage {
            Stage::Ended => Some(Answer::Receipt(KillReceipt::default())),
            Stage::Queued if self.session.is_some() => {
                job.cause = Some((EndReason::Killed, signal.as_raw()));
                self.end_unstarted(slot, now);
                Some(Answer::Receipt(KillReceipt::default()))
            }
            Stage::Queued | Stage::Running => {
                self.end_processes(slot, EndReason::Killed, signal, grace, Purpose::Kill { request }, now);
                None
            }
        }
    }

    /// Which processes belong to a job.
    pub(super) fn scope_of(&self, slot: u32) -> Scope {
        let job = self.jobs.iter().find(|job| job.slot == slot);
        match (job, self.role) {
            (Some(job), Role::Session(_)) => {
                let shell = self.shell.as_ref().map_or_else(rustix::process::getpid, |s| s.pid());
                Scope::Command { tag: job.tag, shell, since: job.since }
            }
            (Some(job), _) if job.adopted.is_some() => {
                Scope::Command { tag: job.tag, shell: rustix::process::getpid(), since: None }
            }
            _ => Scope::Tree,
        }
    }

    fn signal(&mut self, slot: u32, signal: i32) -> Answer {
        let running = |job: &&Job| job.slot == slot && job.stage == Stage::Running;
        if !self.jobs.iter().any(|job| running(&job)) {
            return Answer::Refused(Refusal::NoSuchExecution);
        }
        let Some(signal) = Signal::from_named_raw(signal) else {
            return Answer::Refused(Refusal::Unsupported);
        };
        match self.scope_of(slot).signal(signal) {
            Ok(_) => Answer::Done,
            Err(e) => Answer::Refused(Refusal::os(&e, "send the signal")),
        }
    }

    fn inspect(&self, slot: u32) -> Answer {
        let mut inspection = Inspection::default();
        if let Some(session) = &self.session {
            session.describe(&mut inspection);
            let shell = self.shell.as_ref().map(Shell::pid);
            inspection.cwd = shell.and_then(|pid| procfs::working_directory(pid).ok()).map(Bytes);
        }
        let running = |job: &&Job| job.slot == slot && job.stage == Stage::Running;
        if let Some(job) = self.jobs.iter().find(running) {
            let mut members = self.scope_of(slot).members();
            inspection.pids = members.iter().map(|pid| raw(*pid)).collect();
            inspection.usage = Some(Usage { wall: job.running_for(), ..usage_of(&members) });
            if self.session.is_some() {
                // The shell may be the one that reads, with `read`.
                members.extend(self.shell.as_ref().map(|shell| shell.pid()));
            }
            inspection.waiting_for_input = match job.stdin_end() {
                None => Some(false),
                Some(stdin) => match waits_for_input(&members, stdin) {
                    Waiting::Yes => Some(true),
                    Waiting::No => Some(false),
                    Waiting::Unknown => None,
                },
            };
        }
        Answer::Inspected(inspection)
    }

    pub(super) fn write_stdin(&mut self, slot: u32) {
        let Some(job) = self.jobs.iter_mut().find(|job| job.slot == slot) else {
            return;
        };
        let (done, failed) = job.write_stdin();
        for request in done {
            self.link.send(request, &Answer::Done);
        }
        for request in failed {
            self.link.send(request, &Answer::Refused(Refusal::StdinNotOpen));
        }
    }

    /// Ends everything below and then the supervisor itself.
    pub(super) fn quit(&mut self, request: u64) {
        self.quitting = true;
        for job in self.jobs.iter_mut().filter(|job| job.stage != Stage::Ended) {
            job.cause.get_or_insert((EndReason::SessionEnded, libc::SIGKILL));
        }
        let ending = Ending::new(Scope::Tree, Signal::KILL, Duration::ZERO, self.cgroup.as_ref());
        let purpose = Purpose::Quit { request };
        self.endings.push(EndingTask { ending, purpose, command: None, wake_at: Instant::now() });
    }

    /// Gives what is still unfinished its end, as the session's end.
    pub(super) fn end_everything(&mut self, now: Instant) {
        let slots: Vec<u32> = self.jobs.iter().map(|job| job.slot).collect();
        for slot in slots {
            self.end_with_session(slot, now);
        }
    }

    fn adopt(&mut self, slot: u32, pid: u32, now: Instant) -> Answer {
        match self.adopt_process(slot, pid, now) {
            Ok(()) => Answer::Done,
            Err(why) => Answer::Refused(why),
        }
    }
}
