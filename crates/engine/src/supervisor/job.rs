//! One execution of a supervisor: its journal, its deadlines, its end. Its pipes are in [`JobIo`].

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::job_io::{BUSY_PIPE, JobIo, ReadResult, SMALL_READ};
use super::stdio::{PipeSupply, Stdio};
use crate::end::{End, EndReason, Leftover, MAX_LEFTOVERS, Usage};
use crate::journal::{JournalWriter, Stream, kind};
use crate::process_tree::{Cgroup, StartTime, Tag};
use crate::protocol::{Command, Stage};
use crate::shell::{Done, How};
use crate::sys::Reaped;
use crate::wire;

/// How the program itself came to its end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exit {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) max_rss_bytes: u64,
    /// The session's shell ended with it.
    pub(crate) shell_ended: bool,
    /// The kernel killed it for want of memory.
    pub(crate) out_of_memory: bool,
}

impl Exit {
    /// The end of a command that its shell has reported.
    pub(crate) fn of(done: &Done) -> Self {
        let used = done.usage.unwrap_or_default();
        Self {
            code: Some(done.status),
            signal: (done.how == How::Signal).then_some(done.status - 128),
            user: used.user,
            system: used.system,
            max_rss_bytes: used.max_rss_bytes,
            shell_ended: done.how == How::Exit,
            out_of_memory: false,
        }
    }

    /// Whether it was killed, or says that what it waited for was.
    pub(crate) fn is_killed(&self) -> bool {
        self.signal == Some(libc::SIGKILL) || self.code == Some(128 + libc::SIGKILL)
    }

    /// Adds what others have used that belong to it.
    pub(crate) fn add_usage(&mut self, other: &Self) {
        self.user += other.user;
        self.system += other.system;
        self.max_rss_bytes = self.max_rss_bytes.max(other.max_rss_bytes);
    }
}

impl From<&Reaped> for Exit {
    fn from(reaped: &Reaped) -> Self {
        Self {
            code: reaped.code,
            signal: reaped.signal,
            user: reaped.user,
            system: reaped.system,
            max_rss_bytes: reaped.max_rss_bytes,
            shell_ended: false,
            out_of_memory: false,
        }
    }
}

/// What reading a stream brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pumped {
    Open,
    Eof,
    /// The output limit is reached.
    Limit,
}

/// One execution.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) slot: u32,
    pub(crate) command: Command,
    pub(crate) stage: Stage,
    pub(crate) pid: Option<Pid>,
    pub(crate) tag: Tag,
    /// Why the supervisor ended it, if it did, and with which signal.
    pub(crate) cause: Option<(EndReason, i32)>,
    pub(crate) restored: Option<Duration>,
    /// When it started, in the kernel's reckoning.
    pub(crate) since: Option<StartTime>,
    /// A process that another command left behind, watched through this descriptor.
    pub(crate) adopted: Option<OwnedFd>,
    /// A cgroup of this command alone, for its limits.
    pub(crate) cgroup: Option<Cgroup>,
    /// What the kernel had killed for want of memory when it started: in its own cgroup, and around us.
    oom_kills: (u64, u64),
    /// The end it will have when its leftovers are gone.
    pub(crate) pending_end: Option<End>,
    /// The position beyond which the engine wants to hear of output.
    pub(crate) follow: Option<u64>,
    pub(crate) io: JobIo,
    journal: JournalWriter,
    started: Instant,
    last_output: Instant,
    end_unwritten: Option<Vec<u8>>,
}

impl Job {
    pub(crate) fn new(mut command: Command, tag: Tag, journal: JournalWriter, now: Instant) -> Self {
        let io = JobIo::new(&mut command.stdin);
        Self {
            slot: command.slot,
            command,
            stage: Stage::Queued,
            pid: None,
            tag,
            cause: None,
            restored: None,
            since: None,
            adopted: None,
            cgroup: None,
            oom_kills: (0, 0),
            pending_end: None,
            follow: None,
            io,
            journal,
            started: now,
            last_output: now,
            end_unwritten: None,
        }
    }

    /// Makes its pipes and returns the command's ends of them.
    pub(crate) fn open_stdio(&mut self, supply: &mut PipeSupply) -> rustix::io::Result<Stdio> {
        self.io.open(&mut self.command.stdin, supply)
    }

    /// Notes that the program runs.
    pub(crate) fn started(&mut self, pid: Pid, now: Instant) {
        self.stage = Stage::Running;
        self.pid = Some(pid);
        self.started = now;
        self.last_output = now;
    }

    /// Records that the program runs. What it writes is recorded later, by the same hand. A shell is woken first, so
    /// that this is done while it looks at the text.
    pub(crate) fn record_start(&mut self, pid: Pid) {
        // A journal that cannot take this still takes the end, which is what counts.
        drop(self.journal.append_event(kind::STARTED, &wire::to_bytes(&raw(pid))));
    }

    /// Whether nothing more can be written to its journal.
    pub(crate) fn is_silent(&self) -> bool {
        self.io.is_silent() && self.end_unwritten.is_none()
    }

    /// Reads what is there on one stream into the journal.
    pub(crate) fn pump(&mut self, stream: Stream, buffer: &mut Vec<u8>, now: Instant) -> Pumped {
        self.pump_at_most(stream, buffer, now, BUSY_PIPE)
    }

    fn pump_at_most(
        &mut self,
        stream: Stream,
        buffer: &mut Vec<u8>,
        now: Instant,
        mut most: usize,
    ) -> Pumped {
        while most > 0 {
            match self.io.read(stream, buffer, most) {
                ReadResult::Eof => return Pumped::Eof,
                ReadResult::Nothing => return Pumped::Open,
                ReadResult::Bytes { count, more } => {
                    most -= count;
                    self.last_output = now;
                    if self.record(stream, &buffer[..count]) {
                        return Pumped::Limit;
                    }
                    if !more {
                        return Pumped::Open;
                    }
                }
            }
        }
        Pumped::Open
    }

    /// Appends output; says whether the limit is reached.
    fn record(&mut self, stream: Stream, bytes: &[u8]) -> bool {
        let limit = self.command.limits.output_bytes.unwrap_or(u64::MAX);
        let room = limit.saturating_sub(self.journal.position());
        let kept = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
        // What the disk has no room for is counted as a gap by the journal itself.
        drop(self.journal.append_output(stream, &bytes[..kept]));
        kept < bytes.len() && self.stage == Stage::Running
    }

    /// Reads what was in the pipes when the command came to its end: all it wrote itself is there.
    /// Not more than that, or a child that floods the pipe could delay the end for ever. Says whether that reached
    /// the output limit.
    pub(crate) fn drain(&mut self, buffer: &mut Vec<u8>, now: Instant) -> bool {
        self.io.release_writers();
        let mut limited = false;
        for stream in [Stream::Stdout, Stream::Stderr] {
            // One look is enough for a pipe that is empty, or that no other process has.
            limited |= self.pump_at_most(stream, buffer, now, SMALL_READ) == Pumped::Limit;
            let Some(most) = self.io.waiting(stream) else {
                continue;
            };
            if most > 0 {
                limited |= self.pump_at_most(stream, buffer, now, most) == Pumped::Limit;
            }
            // Behind the last byte there may be the end.
            limited |= self.pump_at_most(stream, buffer, now, SMALL_READ) == Pumped::Limit;
        }
        limited
    }

    /// The next moment at which a deadline may pass, and which.
    pub(crate) fn deadline(&self) -> Option<(Instant, EndReason)> {
        if self.stage != Stage::Running || self.cause.is_some() {
            return None;
        }
        let wall = self.command.timeout.and_then(|t| self.started.checked_add(t));
        let idle = self.command.idle_timeout.and_then(|t| self.last_output.checked_add(t));
        match (wall, idle) {
            (Some(wall), Some(idle)) if idle < wall => Some((idle, EndReason::IdleTimeout)),
            (Some(wall), _) => Some((wall, EndReason::Timeout)),
            (None, Some(idle)) => Some((idle, EndReason::IdleTimeout)),
            (None, None) => None,
        }
    }

    fn own_oom_kills(&self) -> u64 {
        self.cgroup.as_ref().map_or(0, Cgroup::oom_kills)
    }

    /// Notes what the kernel has killed for want of memory so far, in its own cgroup and around us.
    pub(crate) fn note_oom_kills(&mut self, around: u64) {
        self.oom_kills = (self.own_oom_kills(), around);
    }

    /// Whether the kernel has killed anything for want of memory since.
    pub(crate) fn ran_out_of_memory(&self, around: u64) -> bool {
        self.own_oom_kills() > self.oom_kills.0 || around > self.oom_kills.1
    }

    /// What its end is, given how the program came to it.
    pub(crate) fn end_of(&self, exit: Exit, mut leftovers: Vec<Leftover>, now: Instant) -> End {
        let reason = match self.cause {
            Some((cause, _)) => cause,
            None if exit.out_of_memory => EndReason::Oom,
            None if exit.signal.is_some() => EndReason::Signaled,
            None => EndReason::Exited,
        };
        let exit_code = match reason {
            EndReason::Timeout | EndReason::IdleTimeout => Some(124),
            // Also if it was over before it could be killed: who is faster must not decide whether it succeeded.
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
            restored: self.restored,
        }
    }

    /// Records the end. If the disk has no room for it, [`Job::retry_end`] tries again.
    pub(crate) fn finish(&mut self, end: &End) {
        self.stage = Stage::Ended;
        drop(self.io.close_stdin());
        self.end_unwritten = Some(wire::to_bytes(end));
        self.retry_end();
    }

    /// Tries to record an end that could not be recorded; says whether it is done.
    pub(crate) fn retry_end(&mut self) -> bool {
        if let Some(end) = &self.end_unwritten
            && self.journal.append_event(kind::ENDED, end).is_ok()
        {
            self.end_unwritten = None;
        }
        self.end_unwritten.is_none()
    }

    pub(crate) fn has_unwritten_end(&self) -> bool {
        self.end_unwritten.is_some()
    }

    /// How long it has been running.
    pub(crate) fn running_for(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn position(&self) -> u64 {
        self.journal.position()
    }

    /// Whether the engine asked to hear of output up to here, and has not been told.
    pub(crate) fn take_growth(&mut self) -> Option<u64> {
        let position = self.position();
        self.follow.take_if(|seen| *seen < position).map(|_| position)
    }
}

/// A process id as a plain number.
pub(crate) fn raw(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}
