//! One execution of a supervisor: its journal, its deadlines, its end. Its pipes are in [`JobIo`].

mod exit;
mod output;
mod terminal;

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::Pid;

pub(crate) use exit::Exit;
pub(crate) use output::ReadStatus;

use super::job_io::JobIo;
use super::reader_gate::ReaderGate;
use super::stdio::{PipeSupply, Stdio};
use super::terminal::Unrecorded;
use crate::end::{End, EndReason, Leftover, MAX_LEFTOVERS, StateSource, Usage};
use crate::journal::{JournalWriter, Position, kind};
use crate::process_tree::{Cgroup, StartTime, Tag};
use crate::protocol::{Command, Stage, StreamLengths};
use crate::terminal::SizeEvent;
use crate::wire;

/// Time after which an end that the engine has not confirmed is repeated.
const CONFIRM_TIME: Duration = Duration::from_secs(2);

/// A shell that was restored before a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restored {
    /// Age of its state.
    pub(crate) age: Duration,
    pub(crate) from: StateSource,
}

/// A request for reports of growth.
#[derive(Debug, Clone, Copy)]
struct Follow {
    /// The position of which the engine knows.
    seen: u64,
    /// Number of reports that it still wants, at least one.
    times: u32,
}

/// One execution.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) slot: u32,
    pub(crate) command: Command,
    pub(crate) stage: Stage,
    pub(crate) pid: Option<Pid>,
    pub(crate) tag: Tag,
    /// The reason and signal, if the supervisor ended it.
    pub(crate) cause: Option<(EndReason, i32)>,
    pub(crate) restored: Option<Restored>,
    /// Its start time, in clock ticks of the kernel.
    pub(crate) since: Option<StartTime>,
    /// The time at which its program returned, likewise.
    pub(crate) until: Option<StartTime>,
    /// Whether any of its processes ran when its program returned.
    pub(crate) has_left: bool,
    /// A leftover of another command, watched through this pidfd.
    pub(crate) adopted: Option<OwnedFd>,
    /// A cgroup of this command only, for its limits.
    pub(crate) cgroup: Option<Cgroup>,
    /// Number of out-of-memory kills at its start: in its own cgroup, and in the enclosing one.
    oom_kills: (u64, u64),
    /// Its end, pending until its leftovers are ended.
    pub(crate) pending_end: Option<End>,
    /// The reports of growth that the engine wants.
    follow: Option<Follow>,
    pub(crate) io: JobIo,
    /// Its reader, if it waits for one.
    gate: Option<ReaderGate>,
    /// Whether its pipes are not read because its reader is behind.
    pub(super) is_blocked: bool,
    journal: JournalWriter,
    pub(super) started: Instant,
    pub(super) last_output: Instant,
    /// An end to be recorded.
    end_unwritten: Option<End>,
    /// Number of sizes of its terminal so far.
    sizes: u64,
    /// A size that could not be recorded: it is recorded before the next output.
    size_unwritten: Option<SizeEvent>,
    /// Output of its terminal for which there is no space.
    pub(super) unrecorded: Unrecorded,
    /// When the engine was told last that it must record the end.
    handed_over: Option<Instant>,
}

impl Job {
    pub(crate) fn new(mut command: Command, tag: Tag, journal: JournalWriter, now: Instant) -> Self {
        let io = JobIo::new(&mut command.stdin);
        let gate = (command.waits_for_reader == Some(true)).then(|| ReaderGate::new(now));
        Self {
            slot: command.slot,
            command,
            stage: Stage::Queued,
            pid: None,
            tag,
            cause: None,
            restored: None,
            since: None,
            until: None,
            has_left: false,
            adopted: None,
            cgroup: None,
            oom_kills: (0, 0),
            pending_end: None,
            follow: None,
            io,
            gate,
            is_blocked: false,
            journal,
            started: now,
            last_output: now,
            end_unwritten: None,
            sizes: 0,
            size_unwritten: None,
            unrecorded: Unrecorded::default(),
            handed_over: None,
        }
    }

    /// Creates its pipes and returns the command's ends.
    pub(crate) fn open_stdio(&mut self, supply: &mut PipeSupply) -> rustix::io::Result<Stdio> {
        self.io.open(&mut self.command.stdin, supply)
    }

    /// The program has started.
    pub(crate) fn started(&mut self, pid: Pid, now: Instant) {
        self.stage = Stage::Running;
        self.pid = Some(pid);
        self.started = now;
        self.last_output = now;
    }

    /// Records the start of the program. A shell is woken first, so that this runs while it parses the text.
    pub(crate) fn record_start(&mut self, pid: Pid) {
        // If this cannot be recorded, the end can still be.
        drop(self.journal.append_event(kind::STARTED, &wire::to_bytes(&raw(pid))));
    }

    /// Whether no more output can be written to its journal.
    pub(crate) fn is_silent(&self) -> bool {
        self.io.is_silent() && self.end_unwritten.is_none()
    }

    /// Input was given, which counts as activity.
    pub(crate) fn had_input(&mut self, now: Instant) {
        self.last_output = now;
    }

    fn own_oom_kills(&self) -> u64 {
        self.cgroup.as_ref().map_or(0, Cgroup::oom_kills)
    }

    /// Stores the current number of out-of-memory kills, in its own cgroup and in the enclosing one.
    pub(crate) fn note_oom_kills(&mut self, around: u64) {
        self.oom_kills = (self.own_oom_kills(), around);
    }

    /// Whether there were out-of-memory kills since.
    pub(crate) fn ran_out_of_memory(&self, around: u64) -> bool {
        self.own_oom_kills() > self.oom_kills.0 || around > self.oom_kills.1
    }

    /// The end for an exit of the program.
    pub(crate) fn end_of(&self, exit: Exit, mut leftovers: Vec<Leftover>, now: Instant) -> End {
        let reason = match self.cause {
            Some((cause, _)) => cause,
            None if exit.out_of_memory => EndReason::Oom,
            None if exit.signal.is_some() => EndReason::Signaled,
            None => EndReason::Exited,
        };
        let exit_code = match reason {
            EndReason::Timeout | EndReason::IdleTimeout => Some(124),
            // Also if it ended before it could be killed: the result must not depend on which was faster.
            EndReason::OutputLimit => Some(128 + libc::SIGKILL),
            EndReason::Lost => None,
            _ => exit.code.or_else(|| exit.signal.map(|s| 128 + s)),
        };
        End {
            reason,
            exit_code,
            signal: exit.signal,
            usage: Usage {
                user: exit.user,
                system: exit.system,
                max_rss_bytes: exit.max_rss_bytes,
                wall: now.saturating_duration_since(self.started),
            },
            leftover_count: u32::try_from(leftovers.len()).unwrap_or(u32::MAX),
            leftovers: {
                leftovers.truncate(MAX_LEFTOVERS);
                leftovers
            },
            shell_ended: exit.shell_ended,
            restored: self.restored.map(|restored| restored.age),
            restored_from: self.restored.map(|restored| restored.from),
        }
    }

    /// Records the end. If the disk is full, [`Job::retry_end`] tries again.
    pub(crate) fn finish(&mut self, end: &End) {
        self.stage = Stage::Ended;
        drop(self.io.close_stdin());
        if !self.record_end(end) {
            self.end_unwritten = Some(end.clone());
        }
    }

    /// Appends an end. On a full disk it is recorded without the list of leftovers, the only part whose length others
    /// determine. Returns whether it is recorded.
    fn record_end(&mut self, end: &End) -> bool {
        let mut record = |end: &End| self.journal.append_event(kind::ENDED, &wire::to_bytes(end)).is_ok();
        record(end) || record(&End { leftovers: Vec::new(), ..end.clone() })
    }

    /// Tries again to record an end. Returns whether it is recorded.
    pub(crate) fn retry_end(&mut self) -> bool {
        if !self.is_handed_over()
            && let Some(end) = self.end_unwritten.take()
            && !self.record_end(&end)
        {
            self.end_unwritten = Some(end);
        }
        self.end_unwritten.is_none()
    }

    /// Leaves the recording of the end to the engine, and stops writing to the journal. Returns the lengths of both
    /// streams.
    pub(crate) fn hand_over_end(&mut self) -> StreamLengths {
        self.handed_over = Some(Instant::now());
        // Further output would be written concurrently with the engine.
        self.io.close_outputs();
        let Position { stdout, stderr } = self.journal.lengths();
        StreamLengths { stdout, stderr }
    }

    /// The engine has recorded the end.
    pub(crate) fn end_was_recorded(&mut self) {
        if self.is_handed_over() {
            self.end_unwritten = None;
        }
    }

    /// Whether the engine must record the end.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.handed_over.is_some()
    }

    /// Whether the engine must record the end and has not confirmed it in time.
    pub(crate) fn is_unconfirmed(&self, now: Instant) -> bool {
        let is_late = |told: Instant| told + CONFIRM_TIME <= now;
        self.end_unwritten.is_some() && self.handed_over.is_some_and(is_late)
    }

    /// An end that could not be recorded.
    pub(crate) fn unwritten_end(&self) -> Option<End> {
        self.end_unwritten.clone()
    }

    pub(crate) fn has_unwritten_end(&self) -> bool {
        self.end_unwritten.is_some()
    }

    /// Its run time so far.
    pub(crate) fn running_for(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn position(&self) -> u64 {
        self.journal.position()
    }

    /// Number of bytes of standard error in its journal.
    pub(crate) fn stderr_bytes(&self) -> u64 {
        self.journal.lengths().stderr
    }

    /// The engine requests a report when its journal goes beyond a position, and when it grows again, so many times.
    pub(crate) fn follow(&mut self, seen: u64, times: u32) {
        self.follow = (times > 0).then_some(Follow { seen, times });
    }

    /// The new position, if the engine requested a report of it.
    pub(crate) fn take_growth(&mut self) -> Option<u64> {
        let position = self.position();
        let Follow { seen, times } = self.follow.as_mut().filter(|follow| follow.seen < position)?;
        *seen = position;
        *times -= 1;
        self.follow.take_if(|follow| follow.times == 0);
        Some(position)
    }
}

/// A process id as a plain number.
pub(crate) fn raw(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}
