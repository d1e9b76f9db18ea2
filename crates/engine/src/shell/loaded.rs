//! The loaded driver: the other end of `getter.c`.

use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use rustix::process::Pid;

use super::start::{high, start_bash};
use super::{Done, How, Hurry, Job, Report, ShellConfig, ShellUsage};
use crate::memory_file::sealed_file;
use crate::sys;

/// The compiled object; empty if there was no compiler.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/getter.so"));

// The protocol, as `getter.c` has it.
const MAGIC: u32 = 0x4241_5243;
const MAX_PACKET: usize = 64 << 10;
const RUN: u32 = 1;
const SNAPSHOT: u32 = 2;
const ONCE: u32 = 1;
const IN_FILE: u32 = 2;
const HAS_CWD: u32 = 4;
const SET_STATUS: u32 = 8;
const NO_HURRY: u32 = 16;
const READY: u32 = 1;
const DONE: u32 = 2;
const REFUSED: u32 = 3;
const NAME_BYTES: usize = 64;
const REPORT_BYTES: usize = 48;

/// Bash would run functions of these names in place of the first line, and the files before it.
const LEFT_OUT: &[&str] = &["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_FUNC_enable%%"];
/// Given to the shell when it is up.
const LATE: &[&str] = &["BASH_ENV", "ENV"];

/// Whether there is an object to load.
pub(super) fn is_built() -> bool {
    !OBJECT.is_empty()
}

/// The object as a file, made once.
fn object() -> io::Result<BorrowedFd<'static>> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(file) = FILE.get() {
        return Ok(file.as_fd());
    }
    let file = sealed_file("sandcrab-shell", &[OBJECT])?;
    Ok(FILE.get_or_init(|| file).as_fd())
}

/// The connection to a shell.
#[derive(Debug)]
pub(super) struct Link {
    /// None after the command has closed bash's end.
    control: Option<OwnedFd>,
    /// Where bash connects to when its end has been closed.
    listener: OwnedFd,
    sequence: u32,
    /// The running command's sequence number.
    job: u32,
    packet: Vec<u8>,
}

impl Link {
    pub(super) fn start(config: &ShellConfig<'_>) -> io::Result<(Pid, Self)> {
        if !is_built() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the object for bash was not built"));
        }
        let name = random_name()?;
        let listener = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        rustix::net::bind(&listener, &SocketAddrUnix::new_abstract_name(&name)?)?;
        rustix::net::listen(&listener, 1)?;
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;

        let (control, object_number) = (high(), high() + 1);
        let (script, script_writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let mut first = format!("enable -f /proc/self/fd/{object_number} sandcrab\n").into_bytes();
        let mut late = Vec::new();
        for (name, value) in
            config.env.iter().filter(|(name, _)| LATE.iter().any(|late| name == OsStr::new(late)))
        {
            push_variable(&mut late, name, Some(value))?;
        }
        late.truncate(if late.len() < 2048 { late.len() } else { 0 });
        late.extend([0, 0]);
        hello(&mut first, [control, object_number], &name, &late);
        // Never fails for want of room: a pipe takes 4 KiB at least.
        rustix::io::write(&script_writer, &first)?;
        let inherited = [(theirs.as_fd(), control), (object()?, object_number)];
        let pid = start_bash(config, &["--norc", "--noprofile"], LEFT_OUT, script.as_fd(), &inherited)?;
        Ok((pid, Self { control: Some(ours), listener, sequence: 0, job: 0, packet: Vec::new() }))
    }

    pub(super) fn poll_fds(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [self.control.as_ref().map(AsFd::as_fd), Some(self.listener.as_fd())]
    }

    pub(super) fn run(&mut self, job: &Job<'_>, status: Option<i32>) -> io::Result<()> {
        if job.text.contains(&0) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the text of a command has a NUL byte"));
        }
        let mut flags = 0;
        let mut body = std::mem::take(&mut self.packet);
        body.clear();
        if let Some(cwd) = job.cwd {
            flags |= HAS_CWD;
            push_string(&mut body, cwd.as_os_str())?;
        }
        for (name, value) in job.env {
            push_variable(&mut body, name, value.as_deref())?;
        }
        body.push(0);
        match job.once {
            None => {}
            Some(Hurry::Yes) => flags |= ONCE,
            Some(Hurry::No) => flags |= ONCE | NO_HURRY,
        }
        if status.is_some() {
            flags |= SET_STATUS;
        }
        let fds = [job.stdin, job.stdout, job.stderr];
        let length = body.len() + job.text.len() + 1;
        let sent = if length <= MAX_PACKET {
            body.extend_from_slice(job.text);
            body.push(0);
            self.send(RUN, flags, status.unwrap_or(0), &body, length, &fds)
        } else {
            let file = sealed_file("command", &[&body, job.text, &[0]])?;
            let fds = [fds[0], fds[1], fds[2], file.as_fd()];
            self.send(RUN, flags | IN_FILE, status.unwrap_or(0), &[], length, &fds)
        };
        self.packet = body;
        self.job = self.sequence;
        sent
    }

    pub(super) fn snapshot(&mut self, writer: &OwnedFd, hurry: Hurry) -> io::Result<()> {
        let flags = if hurry == Hurry::No { NO_HURRY } else { 0 };
        self.send(SNAPSHOT, flags, 0, &[], 0, &[writer.as_fd()])
    }

    pub(super) fn disconnect(&mut self) {
        self.control = None;
    }

    fn send(
        &mut self,
        kind: u32,
        flags: u32,
        status: i32,
        body: &[u8],
        length: usize,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let Some(control) = &self.control else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let length = u32::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = [0; 24];
        let fields = [MAGIC, kind, flags, self.sequence, status.cast_unsigned(), length];
        for (bytes, field) in header.chunks_exact_mut(4).zip(fields) {
            bytes.copy_from_slice(&field.to_ne_bytes());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
        let parts = [IoSlice::new(&header), IoSlice::new(body)];
        rustix::net::sendmsg(control, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Takes the next report. What did not come from our object (a command may write to the
    /// descriptor) is passed over.
    pub(super) fn receive(&mut self, shell: Pid) -> io::Result<Option<Report>> {
        loop {
            let Some(control) = &self.control else {
                if self.accept(shell)? {
                    continue;
                }
                return Ok(None);
            };
            let mut bytes = [0; REPORT_BYTES];
            match rustix::net::recv(control, &mut bytes, RecvFlags::TRUNC) {
                Ok((_, REPORT_BYTES)) => {
                    if let Some(report) = self.decode(&bytes)? {
                        return Ok(Some(report));
                    }
                }
                Ok((_, 0)) | Err(Errno::CONNRESET) => self.control = None,
                Ok(_) | Err(Errno::INTR) => {}
                // A shell that comes back over another connection has closed this one.
                Err(Errno::AGAIN) => return Ok(None),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Takes a new connection from the shell in place of the old one.
    fn accept(&mut self, shell: Pid) -> io::Result<bool> {
        match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(connection) if rustix::net::sockopt::socket_peercred(&connection)?.pid == shell => {
                self.control = Some(connection);
                Ok(true)
            }
            Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    fn decode(&self, bytes: &[u8; REPORT_BYTES]) -> io::Result<Option<Report>> {
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[4 * at], bytes[4 * at + 1], bytes[4 * at + 2], bytes[4 * at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 1)) << 32;
        if word(0) != MAGIC {
            return Ok(None);
        }
        match word(1) {
            READY => Ok(Some(Report::Ready)),
            DONE if word(2) == self.job => Ok(Some(Report::Done(Done {
                status: word(3).cast_signed(),
                how: match word(4) {
                    0 => How::Normal,
                    2 => How::Interrupted,
                    3 => How::Signal,
                    _ => How::Exit,
                },
                usage: Some(ShellUsage {
                    user: Duration::from_micros(long(6)),
                    system: Duration::from_micros(long(8)),
                    max_rss_bytes: long(10).saturating_mul(1024),
                }),
            }))),
            REFUSED if word(2) == self.sequence => Err(io::Error::from_raw_os_error(word(3).cast_signed())),
            _ => Ok(None),
        }
    }
}

/// Sends bash the signal at which `getter.c` unwinds.
pub(super) fn interrupt(shell: Pid) -> io::Result<()> {
    sys::send_signal(shell, libc::SIGCONT)?;
    sys::send_signal(shell, libc::SIGRTMAX() - 3)
}

fn push_string(body: &mut Vec<u8>, string: &OsStr) -> io::Result<()> {
    if string.as_bytes().contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a NUL byte in a directory or variable"));
    }
    body.extend_from_slice(string.as_bytes());
    body.push(0);
    Ok(())
}

fn push_variable(body: &mut Vec<u8>, name: &OsStr, value: Option<&OsStr>) -> io::Result<()> {
    if name.is_empty() || name.as_bytes().contains(&b'=') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name for a variable"));
    }
    let Some(value) = value else {
        body.push(b'-');
        return push_string(body, name);
    };
    body.push(b'+');
    body.extend_from_slice(name.as_bytes());
    body.push(b'=');
    push_string(body, value)
}

fn random_name() -> io::Result<Vec<u8>> {
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("sandcrab-shell-{:032x}", u128::from_ne_bytes(random)).into_bytes())
}

/// Appends `struct hello` and what follows it.
fn hello(to: &mut Vec<u8>, fds: [RawFd; 2], name: &[u8], late: &[u8]) {
    // Never truncates: the name has 47 bytes, the rest less than 4096.
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(0).to_ne_bytes();
    let mut padded = [0; NAME_BYTES];
    padded[..name.len()].copy_from_slice(name);
    to.extend_from_slice(&MAGIC.to_ne_bytes());
    to.extend_from_slice(&fds[0].to_ne_bytes());
    to.extend_from_slice(&fds[1].to_ne_bytes());
    to.extend_from_slice(&length(name));
    to.extend_from_slice(&padded);
    to.extend_from_slice(&length(late));
    to.extend_from_slice(late);
}
