//! [`JobIo`]: the pipes of a job, or its terminal.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, ioctl_fionread, read, write};
use rustix::pipe::fcntl_setpipe_size;

use super::stdio::{PipeSupply, Pipes, Stdio};
use super::terminal::TerminalIo;
use crate::journal::Stream;
use crate::memory_file::memory_file;
use crate::protocol::{Bytes, WireStdin};

/// Size of a read from a pipe, and of a busy pipe.
const READ: usize = 256 << 10;
pub(crate) const BUSY_PIPE: usize = 1 << 20;
/// Size of a read from a pipe that has had little data.
pub(crate) const SMALL_READ: usize = 4 << 10;
/// A read of this size means that the pipe was full: the writer is faster than we wake.
const FULL_PIPE: usize = 64 << 10;
/// Maximum number of pending bytes for standard input.
const MAX_STDIN_BACKLOG: usize = 64 << 20;

/// Maximum number of pending write requests.
const MAX_STDIN_REQUESTS: usize = 10_000;

/// Standard input that is open for writing.
#[derive(Debug, Default)]
struct StdinPipe {
    /// None while the command is queued.
    end: Option<OwnedFd>,
    unwritten: Vec<u8>,
    written: usize,
    /// Requests to answer when this many bytes have been written.
    waiting: Vec<(usize, u64)>,
    accepted: usize,
    close: bool,
}

impl StdinPipe {
    /// The pipe of an open standard input. Moves the initial bytes out of the command.
    fn of(stdin: &mut WireStdin) -> Option<Self> {
        let unwritten = match stdin {
            WireStdin::Null | WireStdin::Bytes(_) => return None,
            WireStdin::Open => Vec::new(),
            WireStdin::OpenWith(Bytes(first)) => std::mem::take(first),
        };
        Some(Self { accepted: unwritten.len(), unwritten, ..Self::default() })
    }
}

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadResult {
    /// This many bytes, and whether more may be available.
    Bytes {
        count: usize,
        more: bool,
    },
    Nothing,
    Eof,
}

/// The pipes of a job.
#[derive(Debug)]
pub(crate) struct JobIo {
    outputs: [Option<OwnedFd>; 2],
    /// Streams at end of file, closed later.
    spent: [Option<OwnedFd>; 2],
    /// The command's ends of its pipes, held until it has ended: so a shell that closes them does not wake us before
    /// its report.
    writers: Option<(OwnedFd, OwnedFd)>,
    /// The command's ends, if they could not be passed to a shell.
    unused: Option<Stdio>,
    /// Streams that have had more than a small read.
    grown: [bool; 2],
    stdin: Option<StdinPipe>,
    /// Its terminal, instead of pipes.
    terminal: Option<TerminalIo>,
}

impl JobIo {
    /// Creates it without pipes. Moves the initial bytes of an open standard input out of the command.
    pub(crate) fn new(stdin: &mut WireStdin) -> Self {
        Self {
            outputs: [None, None],
            spent: [None, None],
            writers: None,
            unused: None,
            grown: [false; 2],
            stdin: StdinPipe::of(stdin),
            terminal: None,
        }
    }

    /// Uses a terminal instead of pipes.
    pub(crate) fn set_terminal(&mut self, terminal: TerminalIo) {
        self.stdin = None;
        self.terminal = Some(terminal);
    }

    pub(crate) fn terminal(&self) -> Option<&TerminalIo> {
        self.terminal.as_ref()
    }

    pub(crate) fn terminal_mut(&mut self) -> Option<&mut TerminalIo> {
        self.terminal.as_mut()
    }

    /// Creates the pipes and returns the command's ends.
    pub(crate) fn open(
        &mut self,
        stdin: &mut WireStdin,
        supply: &mut PipeSupply,
    ) -> rustix::io::Result<Stdio> {
        if let Some(stdio) = self.unused.take() {
            return Ok(stdio);
        }
        let Pipes { readers: [out, err], stdout, stderr } = supply.pipes()?;
        let stdin = match std::mem::replace(stdin, WireStdin::Null) {
            WireStdin::Null => Arc::clone(supply.null()),
            WireStdin::Bytes(Bytes(bytes)) => Arc::new(memory_file("stdin", &[&bytes])?),
            WireStdin::Open | WireStdin::OpenWith(_) => {
                let (reader, end) = supply.input()?;
                // Data written while it was queued is already there.
                self.stdin.get_or_insert_default().end = Some(end);
                Arc::new(reader)
            }
        };
        self.outputs = [Some(out), Some(err)];
        Ok(Stdio { stdin, stdout, stderr })
    }

    /// Keeps the command's ends for the next shell.
    pub(crate) fn keep_unused(&mut self, stdio: Stdio) {
        self.unused = Some(stdio);
    }

    /// Holds the command's ends of its output until it has ended.
    pub(crate) fn hold(&mut self, stdio: Stdio) {
        self.writers = Some((stdio.stdout, stdio.stderr));
    }

    /// Closes them.
    pub(crate) fn release_writers(&mut self) {
        self.writers = None;
    }

    /// Writes a message to its standard error, if there is room.
    pub(crate) fn tell_reader(&self, text: &[u8]) {
        if let Some((_, stderr)) = &self.writers
            && rustix::event::poll(&mut [PollFd::new(stderr, PollFlags::OUT)], Some(&Timespec::default()))
                == Ok(1)
        {
            let _ = write(stderr, text);
        }
    }

    /// The descriptors to read from, if they are still open.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (Stream, BorrowedFd<'_>)> {
        let streams = [Stream::Stdout, Stream::Stderr];
        let terminal = self.terminal.as_ref().and_then(TerminalIo::output).map(|fd| (Stream::Stdout, fd));
        streams
            .into_iter()
            .zip(&self.outputs)
            .filter_map(|(s, fd)| Some((s, fd.as_ref()?.as_fd())))
            .chain(terminal)
    }

    /// Whether no more output can follow.
    pub(crate) fn is_silent(&self) -> bool {
        self.outputs.iter().all(Option::is_none) && self.terminal.as_ref().is_none_or(TerminalIo::is_silent)
    }

    /// Number of available bytes of a stream; `None` at end of file.
    pub(crate) fn waiting(&self, stream: Stream) -> Option<usize> {
        let fd = self.outputs[stream as usize].as_ref()?;
        Some(usize::try_from(ioctl_fionread(fd).unwrap_or(0)).unwrap_or(usize::MAX))
    }

    /// Reads from a stream into the buffer, which grows for a stream with much data.
    pub(crate) fn read(&mut self, stream: Stream, buffer: &mut Vec<u8>, most: usize) -> ReadResult {
        if let Some(terminal) = &mut self.terminal {
            return terminal.read(buffer, most);
        }
        let index = stream as usize;
        loop {
            let Some(fd) = &self.outputs[index] else {
                return ReadResult::Eof;
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
                    return ReadResult::Eof;
                }
                Ok(count) => {
                    if count == buffer.len() && !self.grown[index] {
                        self.grown[index] = true;
                    } else if count >= FULL_PIPE && self.grown[index] {
                        let _ = fcntl_setpipe_size(fd, BUSY_PIPE);
                    }
                    return ReadResult::Bytes { count, more: count == wanted };
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return ReadResult::Nothing,
                Err(_) => {
                    self.outputs[index] = None;
                    return ReadResult::Eof;
                }
            }
        }
    }

    /// Closes the outputs: later output of leftovers is discarded.
    pub(crate) fn close_outputs(&mut self) {
        self.outputs = [None, None];
        self.writers = None;
        self.unused = None;
        if let Some(terminal) = &mut self.terminal {
            terminal.close();
        }
    }

    /// The descriptor to wait on before writing to standard input, if data is pending.
    pub(crate) fn stdin_to_write(&self) -> Option<BorrowedFd<'_>> {
        if let Some(terminal) = &self.terminal {
            return terminal.to_write();
        }
        self.stdin_end().filter(|_| self.stdin.as_ref().is_some_and(|s| !s.unwritten.is_empty() || s.close))
    }

    /// Our end of its standard input.
    pub(crate) fn stdin_end(&self) -> Option<BorrowedFd<'_>> {
        self.stdin.as_ref()?.end.as_ref().map(AsFd::as_fd)
    }

    /// Queues bytes for standard input; `false` if it is not open or too much is pending.
    pub(crate) fn queue_stdin(&mut self, request: u64, bytes: &[u8], close: bool) -> bool {
        let Some(stdin) = &mut self.stdin else {
            return false;
        };
        let is_full = stdin.unwritten.len() + bytes.len() > MAX_STDIN_BACKLOG
            || stdin.waiting.len() >= MAX_STDIN_REQUESTS;
        if stdin.close || is_full {
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

    /// Writes pending data to standard input. Returns the completed requests, and those that failed because the
    /// command has closed it.
    pub(crate) fn write_stdin(&mut self) -> (Vec<u64>, Vec<u64>) {
        if let Some(terminal) = &mut self.terminal {
            terminal.write();
        }
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
