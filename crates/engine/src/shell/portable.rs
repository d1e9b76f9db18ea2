//! The portable driver: an interactive bash without a terminal.
//!
//! Bash reads one line per command. The line sources the command's text from a descriptor of the supervisor
//! (`/proc/<pid>/fd/<n>`), with the command's own three descriptors in place. A second line reports `$?` in the text
//! of an arithmetic error: that contains no word, so user definitions cannot interfere. SIGINT returns an interactive
//! bash to its top level, and so to that second line.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::Pid;

use super::start::start_bash;
use super::{CommandEnd, Done, Report, ShellConfig, ShellJob, quote};
use crate::memory_file::sealed_file;
use crate::procfs;
use crate::sys;

/// Maximum length of a line for bash, which reads it byte by byte. Only the environment makes lines long.
const MAX_LINE_BYTES: usize = 32 << 10;

/// Removes the differences between an interactive and another shell. Up to 5.0 its history is always on.
const BOOT: &[u8] = b"set +o history; history -c
unset -v HISTFILE HISTFILESIZE HISTSIZE PS1 PS2 MAILCHECK
";

/// Prints a snapshot; sourced in a subshell. The order is that of `object/snapshot.c`.
const DUMP: &[u8] = include_bytes!("dump.bash");

/// The connection to a shell.
#[derive(Debug)]
pub(super) struct PortableConnection {
    /// `None` when no more follow.
    lines: Option<OwnedFd>,
    reports: OwnedFd,
    /// The other end of `reports`, which bash opens again for each report.
    report_to: OwnedFd,
    received: Vec<u8>,
    sequence: u32,
    /// Lines given to bash that are not reported yet.
    pending: VecDeque<Pending>,
    /// The last command's status.
    status: i32,
    /// The running command's status, if it was reported before the shell returned to its directory.
    kept: Option<i32>,
    /// Whether bash has read the whole line of the running command.
    has_begun: bool,
    /// Whether the running command has been interrupted.
    interrupted: bool,
    /// The lines after the running command's own.
    tail: Vec<u8>,
}

#[derive(Debug)]
struct Pending {
    sequence: u32,
    what: LineKind,
    /// Bash opens these by their numbers in our process.
    _held: Vec<OwnedFd>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum LineKind {
    Boot,
    Command,
    Restore { status: i32 },
    Snapshot,
}

/// What a report is about.
#[derive(Debug, Clone, Copy)]
enum Progress {
    /// The command has returned, and the shell is not yet back in its directory.
    Returned,
    /// The shell is ready for the next line.
    Over,
    /// Bash has read the line.
    Begun,
}

impl PortableConnection {
    pub(super) fn start(config: &ShellConfig<'_>) -> io::Result<(Pid, Self)> {
        let (stdin, lines) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (reports, report_to) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&reports, true)?;
        rustix::io::ioctl_fionbio(&lines, true)?;
        let args = ["--norc", "--noprofile", "--noediting", "+o", "history", "+o", "histexpand", "-i"];
        let pid = start_bash(config, &args, &["SHELLOPTS", "BASHOPTS", "TMOUT"], stdin.as_fd(), &[])?;
        let mut link = Self {
            lines: Some(lines),
            reports,
            report_to,
            received: Vec::new(),
            sequence: 0,
            pending: VecDeque::new(),
            status: 0,
            kept: None,
            has_begun: true,
            interrupted: false,
            tail: Vec::new(),
        };
        let boot = sealed_file("boot", &[BOOT])?;
        let line = format!("\\. {}", path(boot.as_fd())).into_bytes();
        link.send(line, LineKind::Boot, vec![boot])?;
        Ok((pid, link))
    }

    pub(super) fn poll_fds(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [Some(self.reports.as_fd()), None]
    }

    pub(super) fn run(&mut self, shell: Pid, job: &ShellJob<'_>) -> io::Result<()> {
        self.source(shell, job, LineKind::Command)
    }

    pub(super) fn restore(&mut self, shell: Pid, job: &ShellJob<'_>, status: i32) -> io::Result<()> {
        self.source(shell, job, LineKind::Restore { status })
    }

    fn source(&mut self, shell: Pid, job: &ShellJob<'_>, what: LineKind) -> io::Result<()> {
        let unsupported = |what| Err(io::Error::new(io::ErrorKind::Unsupported, what));
        if job.once.is_some() {
            return unsupported("the portable driver runs no single commands");
        }
        let values = job.env.iter().flat_map(|(_, value)| value).map(|value| value.as_bytes());
        let cwd = job.cwd.map(|cwd| cwd.as_os_str().as_bytes());
        if values.chain(cwd).chain([job.text]).any(|bytes| bytes.contains(&0)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a NUL byte in a command"));
        }
        let text = sealed_file("command", &[job.text])?;
        let mut held = vec![text];
        for fd in [job.stdin, job.stdout, job.stderr] {
            held.push(rustix::io::fcntl_dupfd_cloexec(fd, 0)?);
        }
        let redirections =
            format!(" 0<{} 1>{} 2>{}", path(held[1].as_fd()), path(held[2].as_fd()), path(held[3].as_fd()));
        // Reports that bash has read the line, and sets `$?` for the command. Any other value would need a command that
        // the user can redefine. (These lines contain no word that could be an alias; and a status in front of `&&` or
        // `||` does not trigger errexit.)
        let mut line = self.report(self.sequence.wrapping_add(1), Progress::Begun).into_bytes();
        line.extend_from_slice(if self.status == 0 { b"; " } else { b"; ((0)) && ((1)); " });
        if let Some(cwd) = job.cwd {
            line.extend_from_slice(b"\\builtin cd -- ");
            quote(&mut line, cwd.as_os_str().as_bytes());
            line.extend_from_slice(format!(" 2>{} && ", path(held[3].as_fd())).as_bytes());
        }
        for (name, value) in job.env {
            let Some(value) = value else {
                return unsupported("the portable driver unsets no variables");
            };
            if !is_name(name) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name for a variable"));
            }
            line.extend_from_slice(name.as_bytes());
            line.push(b'=');
            quote(&mut line, value.as_bytes());
            line.push(b' ');
        }
        line.extend_from_slice(b"\\. ");
        line.extend_from_slice(path(held[0].as_fd()).as_bytes());
        line.extend_from_slice(redirections.as_bytes());
        let mut back = Vec::new();
        if job.cwd.is_some() {
            let here = procfs::working_directory(shell)?;
            back.extend_from_slice(b"\\builtin cd -- ");
            quote(&mut back, &here);
        }
        self.send_and(line, &back, what, held)?;
        self.has_begun = false;
        Ok(())
    }

    /// A command that reports `$?` and sets it to 0.
    fn report(&self, sequence: u32, progress: Progress) -> String {
        format!("(($?,{sequence},{}+)) 2>{} || ((1))", progress as u32, path(self.report_to.as_fd()))
    }

    pub(super) fn snapshot(&mut self, writer: OwnedFd) -> io::Result<()> {
        let status = format!("__sandcrab_status={}\n", self.status);
        let dump = sealed_file("dump", &[status.as_bytes(), DUMP])?;
        let line = format!("( \\. {} ) 1>{}", path(dump.as_fd()), path(writer.as_fd()));
        self.send(line.into_bytes(), LineKind::Snapshot, vec![dump, writer])
    }

    fn send(&mut self, line: Vec<u8>, what: LineKind, held: Vec<OwnedFd>) -> io::Result<()> {
        self.send_and(line, b"", what, held)
    }

    /// Sends a line, a report on it, perhaps a line to run afterwards, and a last report.
    fn send_and(
        &mut self,
        mut line: Vec<u8>,
        after: &[u8],
        what: LineKind,
        held: Vec<OwnedFd>,
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.interrupted = false;
        self.has_begun = true;
        self.tail = b"\n".to_vec();
        if !after.is_empty() {
            self.tail.extend_from_slice(self.report(self.sequence, Progress::Returned).as_bytes());
            self.tail.push(b'\n');
            self.tail.extend_from_slice(after);
            self.tail.push(b'\n');
        }
        self.tail.extend_from_slice(self.report(self.sequence, Progress::Over).as_bytes());
        self.tail.push(b'\n');
        line.extend_from_slice(&self.tail);
        if line.len() > MAX_LINE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "too much environment for the portable driver",
            ));
        }
        let Some(lines) = &self.lines else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        // Never short: the pipe is empty except for a snapshot's line.
        let written = rustix::io::write(lines, &line)?;
        if written != line.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.pending.push_back(Pending { sequence: self.sequence, what, _held: held });
        Ok(())
    }

    pub(super) fn receive(&mut self) -> io::Result<Option<Report>> {
        loop {
            while let Some(end) = self.received.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                if let Some(report) = self.decode(&line) {
                    return Ok(Some(report));
                }
            }
            let mut bytes = [0; 4096];
            match rustix::io::read(&self.reports, &mut bytes) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(None),
                Ok(n) => self.received.extend_from_slice(&bytes[..n]),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    pub(super) fn disconnect(&mut self) {
        self.lines = None;
    }

    /// Sends bash the signal that makes an interactive shell abandon a command. Before bash has read the whole line it
    /// would abandon only a part of it, so the signal waits for the next call.
    pub(super) fn interrupt(&mut self, shell: Pid) -> io::Result<()> {
        if !self.has_begun {
            return Ok(());
        }
        if self.interrupted
            && let Some(lines) = &self.lines
        {
            // The previous one may have made bash discard the lines that report. Duplicate reports are skipped, and a
            // full pipe already contains them.
            let _ = rustix::io::write(lines, &self.tail);
        }
        self.interrupted = true;
        sys::send_signal(shell, libc::SIGCONT)?;
        sys::send_signal(shell, libc::SIGINT)
    }

    /// Extracts the numbers from `bash: ((: 3,17,1+: syntax error: …`, whose words depend on the locale.
    fn decode(&mut self, line: &[u8]) -> Option<Report> {
        let expression = line.split(|b| *b == b':').find_map(|part| {
            let numbers = part.trim_ascii().strip_suffix(b"+")?;
            let mut numbers = str::from_utf8(numbers).ok()?.split(',').map(str::parse::<u32>);
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?))
        });
        let (status, sequence, progress) = expression?;
        let what = self.pending.front().filter(|p| p.sequence == sequence)?.what;
        if progress == Progress::Begun as u32 {
            self.has_begun = true;
            return None;
        }
        if progress == Progress::Returned as u32 {
            self.kept = i32::try_from(status).ok();
            return None;
        }
        let kept = self.kept.take();
        drop(self.pending.pop_front());
        match what {
            LineKind::Boot => Some(Report::Ready),
            LineKind::Snapshot => None,
            LineKind::Restore { status } => {
                self.status = status;
                Some(Report::Done(Done { status, how: CommandEnd::Normal, usage: None, is_childless: false }))
            }
            LineKind::Command => {
                self.status = kept.unwrap_or_else(|| i32::try_from(status).unwrap_or(1));
                let mut how = CommandEnd::Normal;
                if self.interrupted && self.status > 128 {
                    (how, self.status) = (CommandEnd::Interrupted, 128 + libc::SIGINT);
                }
                Some(Report::Done(Done { status: self.status, how, usage: None, is_childless: false }))
            }
        }
    }
}

/// The descriptor's path for another process.
fn path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd())
}

fn is_name(name: &OsStr) -> bool {
    let name = name.as_bytes();
    !name.is_empty()
        && !name[0].is_ascii_digit()
        && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}
