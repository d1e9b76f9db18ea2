//! One execution in a supervisor's hands: its pipes, its journal, its deadlines, its end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, ioctl_fionread, read, write};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::Pid;

use super::stdio::{Pipes, Stdio, Supply};
use crate::end::{End, EndReason, Leftover, MAX_LEFTOVERS, Usage};
use crate::journal::{JournalWriter, Stream, kind};
use crate::memory_file::memory_file;
use crate::process_tree::{Cgroup, StartTime, Tag};
use crate::protocol::{Bytes, Command, Stage, WireStdin};
use crate::shell::{Done, How};
use crate::wire;

/// How much is read from a pipe at a time, and how large a busy pipe is made.
const READ: usize = 256 << 10;
const BUSY_PIPE: usize = 1 << 20;
/// How much is read from a pipe that has not had more.
const SMALL_READ: usize = 4 << 10;
/// A read this long means the pipe was full: the writer is faster than we wake.
const FULL_PIPE: usize = 64 << 10;
/// The most bytes given to standard input that wait for the command to read them.
const MAX_STDIN_BACKLOG: usize = 64 << 20;

/// Standard input that is open for writing.
#[derive(Debug, Default)]
struct StdinPipe {
    /// None as long as the command waits for its turn.
    end: Option<OwnedFd>,
    unwritten: Vec<u8>,
    written: usize,
    /// Requests to answer when so many bytes have been written.
    waiting: Vec<(usize, u64)>,
    accepted: usize,
    close: bool,
}

impl StdinPipe {
    /// The pipe of a standard input that stays open, with the bytes that come first taken out of the command.
    fn of(stdin: &mut WireStdin) -> Option<Self> {
        let unwritten = match stdin {
            WireStdin::Null | WireStdin::Bytes(_) => return None,
            WireStdin::Open => Vec::new(),
            WireStdin::OpenWith(Bytes(first)) => std::mem::take(first),
        };
        Some(Self { accepted: unwritten.len(), unwritten, ..Self::default() })
    }
}

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
    /// Its pipes, if a shell could not be given it.
    pub(crate) unused: Option<Stdio>,
    /// The position beyond which the engine wants to hear of output.
    pub(crate) follow: Option<u64>,
    journal: JournalWriter,
    outputs: [Option<OwnedFd>; 2],
    /// Those that have come to their end, closed when there is time.
    spent: [Option<OwnedFd>; 2],
    /// The command's own ends of its pipes, held until it is over: so that a shell that lets go of
    /// them wakes nobody before it has reported.
    writers: Option<(OwnedFd, OwnedFd)>,
    grown: [bool; 2],
    stdin: Option<StdinPipe>,
    started: Instant,
    last_output: Instant,
    end_unwritten: Option<Vec<u8>>,
}

impl Job {
    pub(crate) fn new(mut command: Command, tag: Tag, journal: JournalWriter, now: Instant) -> Self {
        let stdin = StdinPipe::of(&mut command.stdin);
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
            unused: None,
            follow: None,
            journal,
            outputs: [None, None],
            spent: [None, None],
            writers: None,
            grown: [false; 2],
            stdin,
            started: now,
            last_output: now,
            end_unwritten: None,
        }
    }

    /// Makes the pipes and returns the command's ends of them.
    pub(crate) fn open_stdio(&mut self, supply: &mut Supply) -> rustix::io::Result<Stdio> {
        let Pipes { readers: [out, err], stdout, stderr } = supply.pipes()?;
        let stdin = match std::mem::replace(&mut self.command.stdin, WireStdin::Null) {
            WireStdin::Null => Arc::clone(supply.null()),
            WireStdin::Bytes(Bytes(bytes)) => Arc::new(memory_file("stdin", &[&bytes])?),
            WireStdin::Open | WireStdin::OpenWith(_) => {
                let (reader, end) = pipe_with(PipeFlags::CLOEXEC)?;
                rustix::io::ioctl_fionbio(&end, true)?;
                // What was written while it waited for its turn is there already.
                self.stdin.get_or_insert_default().end = Some(end);
                Arc::new(reader)
            }
        };
        self.outputs = [Some(out), Some(err)];
        Ok(Stdio { stdin, stdout, stderr })
    }

    /// Holds the command's ends of its output until it is over.
    pub(crate) fn hold(&mut self, stdio: Stdio) {
        self.writers = Some((stdio.stdout, stdio.stderr));
    }

    /// Writes something to its standard error, where there is room.
    pub(crate) fn tell_reader(&self, text: &[u8]) {
        if let Some((_, stderr)) = &self.writers
            && rustix::event::poll(&mut [PollFd::new(stderr, PollFlags::OUT)], Some(&Timespec::default()))
                == Ok(1)
        {
            let _ = write(stderr, text);
        }
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

    /// The descriptors to read from, if they are still open.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (Stream, BorrowedFd<'_>)> {
        let streams = [Stream::Stdout, Stream::Stderr];
        streams.into_iter().zip(&self.outputs).filter_map(|(s, fd)| Some((s, fd.as_ref()?.as_fd())))
    }

    /// Whether nothing more can be written to it.
    pub(crate) fn is_silent(&self) -> bool {
        self.outputs.iter().all(Option::is_none) && self.end_unwritten.is_none()
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
        let index = stream as usize;
        while most > 0 {
            let Some(fd) = &self.outputs[index] else {
                return Pumped::Eof;
            };
            let wanted = most.min(READ);
            // Idle supervisors keep a small buffer: a page is enough for most commands.
            if buffer.len() < wanted && (buffer.is_empty() || self.grown[index]) {
                buffer.resize(if self.grown[index] { READ } else { SMALL_READ }, 0);
            }
            let wanted = wanted.min(buffer.len());
            match read(fd, &mut buffer[..wanted]) {
                Ok(0) => {
                    self.spent[index] = self.outputs[index].take();
                    return Pumped::Eof;
                }
                Ok(n) => {
                    most -= n;
                    self.last_output = now;
                    if n == buffer.len() && !self.grown[index] {
                        self.grown[index] = true;
                    } else if n >= FULL_PIPE && self.grown[index] {
                        let _ = fcntl_setpipe_size(fd, BUSY_PIPE);
                    }
                    if self.record(stream, &buffer[..n]) {
                        return Pumped::Limit;
                    }
                    if n < wanted {
                        return Pumped::Open;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Pumped::Open,
                Err(_) => {
                    self.outputs[index] = None;
                    return Pumped::Eof;
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
        self.writers = None;
        let mut limited = false;
        for stream in [Stream::Stdout, Stream::Stderr] {
            // One look is enough for a pipe that is empty, or that nobody else has.
            limited |= self.pump_at_most(stream, buffer, now, SMALL_READ) == Pumped::Limit;
            let Some(fd) = &self.outputs[stream as usize] else {
                continue;
            };
            let waiting = ioctl_fionread(fd).unwrap_or(0);
            let most = usize::try_from(waiting).unwrap_or(usize::MAX);
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
        drop(self.close_stdin());
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

    /// Stops listening to what it left behind.
    pub(crate) fn hang_up(&mut self) {
        self.outputs = [None, None];
        self.writers = None;
        self.unused = None;
    }

    /// How long it has been running.
    pub(crate) fn running_for(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn position(&self) -> u64 {
        self.journal.position()
    }

    /// Whether the engine asked to hear of output up to here, and has not been told.
    pub(crate) fn take_news(&mut self) -> Option<u64> {
        let position = self.position();
        self.follow.take_if(|seen| *seen < position).map(|_| position)
    }

    /// The descriptor to wait on before writing to standard input, if anything is to be written.
    pub(crate) fn stdin_to_write(&self) -> Option<BorrowedFd<'_>> {
        self.stdin_end().filter(|_| self.stdin.as_ref().is_some_and(|s| !s.unwritten.is_empty() || s.close))
    }

    /// Our end of its standard input.
    pub(crate) fn stdin_end(&self) -> Option<BorrowedFd<'_>> {
        self.stdin.as_ref()?.end.as_ref().map(AsFd::as_fd)
    }

    /// Takes bytes for standard input; `false` if it is not open or too much waits already.
    pub(crate) fn give_stdin(&mut self, request: u64, bytes: &[u8], close: bool) -> bool {
        let Some(stdin) = &mut self.stdin else {
            return false;
        };
        if stdin.close || stdin.unwritten.len() + bytes.len() > MAX_STDIN_BACKLOG {
            return false;
        }
        stdin.unwritten.extend_from_slice(bytes);
        stdin.accepted += bytes.len();
        stdin.waiting.push((stdin.accepted, request));
        stdin.close |= close;
        true
    }

    /// Closes standard input. Returns the requests whose bytes were not all written.
    pub(crate) fn close_stdin(&mut self) -> Vec<u64> {
        let waiting = self.stdin.take().map(|stdin| stdin.waiting).unwrap_or_default();
        waiting.into_iter().map(|(_, request)| request).collect()
    }

    /// Writes what it can to standard input. Returns the requests that are done, and those that never
    /// will be because nobody reads any more.
    pub(crate) fn write_stdin(&mut self) -> (Vec<u64>, Vec<u64>) {
        let Some(stdin) = &mut self.stdin else {
            return Default::default();
        };
        let Some(end) = &stdin.end else {
            return Default::default();
        };
        let mut broken = false;
        let mut sent = 0;
        while sent < stdin.unwritten.len() {
            match write(end, &stdin.unwritten[sent..]) {
                Ok(n) => sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        stdin.unwritten.drain(..sent);
        stdin.written += sent;
        let written = stdin.written;
        let (done, waiting) = stdin.waiting.drain(..).partition(|(at, _)| *at <= written);
        stdin.waiting = waiting;
        let numbers = |list: Vec<(usize, u64)>| list.into_iter().map(|(_, r)| r).collect::<Vec<_>>();
        let failed = if broken { std::mem::take(&mut stdin.waiting) } else { Vec::new() };
        if broken || (stdin.close && stdin.unwritten.is_empty()) {
            self.stdin = None;
        }
        (numbers(done), numbers(failed))
    }
}

/// A process id as a plain number.
pub(crate) fn raw(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}
