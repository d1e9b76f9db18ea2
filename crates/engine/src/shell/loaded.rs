//! The loaded driver: the supervisor's end of `object/`.

mod protocol;

use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, RecvMsg, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::Pid;

use protocol::{
    AHEAD, DONE, FORK, FORKED, HAS_CGROUP, HAS_CWD, HAS_TAG, IF_CHANGED, IN_FILE, LOW_URGENCY, MAX_FDS,
    MAX_PACKET, ONCE, READY, REFUSED, REPORT_BYTES, RUN, ReportPacket, Request, SET_STATUS, SNAPSHOT, STATE,
    hello, push_string, push_variable,
};

use super::environment::LEFT_OUT;
use super::start::{high, start_bash};
use super::{ForkSetup, Report, ShellConfig, ShellJob, Urgency};
use crate::memory_file::sealed_file;
use crate::sys;

/// The compiled object; empty if it was built without a compiler.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/getter.so"));

/// First and maximum delay between attempts to reconnect to a shell.
const RECONNECT_FIRST: Duration = Duration::from_millis(2);
const RECONNECT_MOST: Duration = Duration::from_millis(64);
/// Maximum time for a template to fork.
const FORK_TIMEOUT: Duration = Duration::from_secs(10);

/// First and later interval at which a template that does not reply is continued: it may have been stopped.
const FIRST_FORK_TICK: Duration = Duration::from_millis(20);
const FORK_TICK: Duration = Duration::from_millis(500);

/// Given to the shell when it is ready.
const LATE: &[&str] = &["BASH_ENV", "ENV"];

/// Whether the object was built.
pub(super) fn is_built() -> bool {
    !OBJECT.is_empty()
}

/// The object as a memory file, created once.
fn object() -> io::Result<BorrowedFd<'static>> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(file) = FILE.get() {
        return Ok(file.as_fd());
    }
    let file = sealed_file("sandcrab-shell", &[OBJECT])?;
    Ok(FILE.get_or_init(|| file).as_fd())
}

/// The socket to a shell.
#[derive(Debug)]
enum Control {
    Up(OwnedFd),
    /// A command has closed bash's end. When the command has ended, bash listens for us.
    Lost {
        retry: Instant,
        delay: Duration,
    },
    /// There will be no more commands.
    Closed,
}

/// The connection to a shell.
#[derive(Debug)]
pub(super) struct LoadedConnection {
    control: Control,
    /// The name at which bash listens when its end has been closed: secret until then.
    name: Vec<u8>,
    sequence: u32,
    /// The running command's sequence number.
    job: u32,
    packet: Vec<u8>,
    /// The state of a shell that is about to exit.
    last_state: Option<OwnedFd>,
    /// A template's reply to the last fork: a process id, or a negative errno.
    forked: Option<i32>,
}

impl LoadedConnection {
    pub(super) fn start(config: &ShellConfig<'_>) -> io::Result<(Pid, Self)> {
        if !is_built() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the object for bash was not built"));
        }
        let name = random_name()?;
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;

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
        // Never blocks: a pipe has at least 4 KiB.
        rustix::io::write(&script_writer, &first)?;
        let inherited = [(theirs.as_fd(), control), (object()?, object_number)];
        let pid = start_bash(config, &["--norc", "--noprofile"], LEFT_OUT, script.as_fd(), &inherited)?;
        Ok((pid, Self::new(ours, name)))
    }

    fn new(control: OwnedFd, name: Vec<u8>) -> Self {
        Self {
            control: Control::Up(control),
            name,
            sequence: 0,
            job: 0,
            packet: Vec::new(),
            last_state: None,
            forked: None,
        }
    }

    pub(super) fn poll_fds(&self) -> [Option<BorrowedFd<'_>>; 2] {
        match &self.control {
            Control::Up(control) => [Some(control.as_fd()), None],
            Control::Lost { .. } | Control::Closed => [None, None],
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        match self.control {
            Control::Lost { retry, .. } => Some(retry),
            Control::Up(_) | Control::Closed => None,
        }
    }

    /// The state that the shell has sent before it exited.
    pub(super) fn last_state(&mut self) -> Option<OwnedFd> {
        self.last_state.take()
    }

    pub(super) fn run(&mut self, job: &ShellJob<'_>, status: Option<i32>) -> io::Result<()> {
        self.last_state = None;
        let mut flags = match job.once {
            None => 0,
            Some(Urgency::High) => ONCE,
            Some(Urgency::Low) => ONCE | LOW_URGENCY,
        };
        if status.is_some() {
            flags |= SET_STATUS;
        }
        if job.once.is_some() {
            // The object does not listen then: a shell that has executed another program is not reconnected.
            self.name.clear();
        }
        let request = Request { kind: RUN, flags, status: status.unwrap_or(0), tag: 0 };
        self.give(request, job, &[], None)
    }

    /// Has a fork of this shell run the job, like `bash -c`. This shell must be a template. An `errno` error is that
    /// of the fork, after which this shell can run the job itself; after [`io::ErrorKind::TimedOut`] the job may have
    /// started.
    pub(super) fn fork(
        &mut self,
        shell: Pid,
        job: &ShellJob<'_>,
        setup: ForkSetup<'_>,
    ) -> io::Result<(Pid, Self)> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut flags = if job.once == Some(Urgency::High) { ONCE } else { ONCE | LOW_URGENCY };
        if setup.tag.is_some() {
            flags |= HAS_TAG;
        }
        let request = Request { kind: FORK, flags, status: 0, tag: setup.tag.unwrap_or(0) };
        self.give(request, job, &[theirs.as_fd()], setup.cgroup)?;
        drop(theirs);
        let pid = self.wait_for_fork(shell)?;
        // Its reports refer to the request that created it.
        let mut link = Self::new(ours, Vec::new());
        link.sequence = self.sequence;
        link.job = self.sequence;
        Ok((pid, link))
    }

    /// Forks this template for a later job.
    pub(super) fn fork_ahead(&mut self, shell: Pid) -> io::Result<(Pid, Self)> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let request = Request { kind: FORK, flags: ONCE | AHEAD, status: 0, tag: 0 };
        self.send(request, &[], 0, &[theirs.as_fd()])?;
        drop(theirs);
        let pid = self.wait_for_fork(shell)?;
        Ok((pid, Self::new(ours, Vec::new())))
    }

    /// Waits until this fork reports that it accepts its job. Returns whether it does.
    pub(super) fn is_fork_up(&mut self, shell: Pid) -> bool {
        let deadline = Instant::now() + FORK_TIMEOUT;
        let mut tick = FIRST_FORK_TICK;
        loop {
            match self.receive(shell) {
                Ok(Some(Report::Ready)) => return true,
                Ok(Some(_)) => {}
                Ok(None) if self.wait_for_report(shell, deadline, &mut tick) => {}
                Ok(None) | Err(_) => return false,
            }
        }
    }

    fn wait_for_fork(&mut self, shell: Pid) -> io::Result<Pid> {
        let deadline = Instant::now() + FORK_TIMEOUT;
        self.forked = None;
        let mut tick = FIRST_FORK_TICK;
        loop {
            // One that has ended may have forked before.
            if !self.wait_for_report(shell, deadline, &mut tick) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match self.receive(shell) {
                Ok(_) => {}
                // It has not forked, and cannot accept a job.
                Err(e) if e.raw_os_error().is_some() => return Err(io::ErrorKind::ConnectionRefused.into()),
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
            if let Some(forked) = self.forked.take() {
                return Pid::from_raw(forked.max(0)).ok_or_else(|| io::Error::from_raw_os_error(-forked));
            }
        }
    }

    /// Waits briefly for a report. Returns whether one is still possible: the shell is connected, and has not taken
    /// too long.
    fn wait_for_report(&self, shell: Pid, deadline: Instant, tick: &mut Duration) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let Control::Up(control) = &self.control else { return false };
        if left.is_zero() {
            return false;
        }
        let mut fds = [PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN)];
        let time = Timespec { tv_sec: 0, tv_nsec: left.min(*tick).subsec_nanos().into() };
        if rustix::event::poll(&mut fds, Some(&time)) == Ok(0) {
            // A command of an earlier run may have stopped it, for example with `kill -STOP -1`.
            drop(sys::send_signal(shell, libc::SIGCONT));
            *tick = FORK_TICK;
        }
        true
    }

    /// Sends a request with a job: before the job's descriptors come others, after them a cgroup.
    fn give(
        &mut self,
        mut request: Request,
        job: &ShellJob<'_>,
        first: &[BorrowedFd<'_>],
        cgroup: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        if job.text.contains(&0) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the text of a command has a NUL byte"));
        }
        let mut body = std::mem::take(&mut self.packet);
        body.clear();
        if let Some(cwd) = job.cwd {
            request.flags |= HAS_CWD;
            push_string(&mut body, cwd.as_os_str())?;
        }
        for (name, value) in job.env {
            push_variable(&mut body, name, value.as_deref())?;
        }
        body.push(0);
        let length = body.len() + job.text.len() + 1;
        let file = if length <= MAX_PACKET {
            body.extend_from_slice(job.text);
            body.push(0);
            None
        } else {
            request.flags |= IN_FILE;
            let file = sealed_file("command", &[&body, job.text, &[0]])?;
            body.clear();
            Some(file)
        };
        if cgroup.is_some() {
            request.flags |= HAS_CGROUP;
        }
        let mut fds: Vec<BorrowedFd<'_>> = first.to_vec();
        fds.extend([job.stdin, job.stdout, job.stderr]);
        fds.extend(file.as_ref().map(AsFd::as_fd));
        fds.extend(cgroup);
        let sent = self.send(request, &body, length, &fds);
        self.packet = body;
        self.job = self.sequence;
        sent
    }

    pub(super) fn snapshot(
        &mut self,
        writer: &OwnedFd,
        urgency: Urgency,
        if_changed: bool,
    ) -> io::Result<()> {
        let mut flags = if urgency == Urgency::Low { LOW_URGENCY } else { 0 };
        if if_changed {
            flags |= IF_CHANGED;
        }
        let request = Request { kind: SNAPSHOT, flags, status: 0, tag: 0 };
        self.send(request, &[], 0, &[writer.as_fd()])
    }

    pub(super) fn disconnect(&mut self) {
        self.control = Control::Closed;
    }

    fn send(
        &mut self,
        request: Request,
        body: &[u8],
        length: usize,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let Control::Up(control) = &self.control else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let length = u32::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        self.sequence = self.sequence.wrapping_add(1);
        let header = request.encode(self.sequence, length);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
        let parts = [IoSlice::new(&header), IoSlice::new(body)];
        rustix::net::sendmsg(control, &parts, &mut ancillary, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Returns the next report. Data that did not come from our object (a command may write to the descriptor) is
    /// skipped.
    pub(super) fn receive(&mut self, shell: Pid) -> io::Result<Option<Report>> {
        loop {
            let Control::Up(control) = &self.control else {
                if self.reconnect(shell) {
                    continue;
                }
                return Ok(None);
            };
            let mut bytes = [0; REPORT_BYTES];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(&mut bytes)];
            let flags = RecvFlags::TRUNC | RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            match rustix::net::recvmsg(control, &mut parts, &mut ancillary, flags) {
                Ok(RecvMsg { bytes: REPORT_BYTES, .. }) => {
                    let file = ancillary.drain().find_map(|message| match message {
                        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
                        _ => None,
                    });
                    let report = self.decode(&bytes, file)?;
                    if report.is_some() || self.forked.is_some() {
                        return Ok(report);
                    }
                }
                Ok(RecvMsg { bytes: 0, .. }) | Err(Errno::CONNRESET) => self.lose_control(),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                // Not an errno reported by the shell.
                Err(e) => return Err(io::Error::other(e)),
            }
        }
    }

    /// Bash has ended, or its end of the connection is closed.
    fn lose_control(&mut self) {
        // With its last state it has announced its exit. A fork of a template has no name to listen at.
        let is_ending = self.last_state.is_some() || self.name.is_empty();
        self.control = if is_ending {
            Control::Closed
        } else {
            Control::Lost { retry: Instant::now() + RECONNECT_FIRST, delay: RECONNECT_FIRST }
        };
    }

    /// Connects to a shell whose end was closed, if it listens by now.
    fn reconnect(&mut self, shell: Pid) -> bool {
        let now = Instant::now();
        match self.control {
            Control::Lost { retry, delay } if retry <= now => {
                if let Ok(connection) = connect(&self.name, shell) {
                    self.control = Control::Up(connection);
                    return true;
                }
                let delay = (delay * 2).min(RECONNECT_MOST);
                self.control = Control::Lost { retry: now + delay, delay };
                false
            }
            _ => false,
        }
    }

    fn decode(&mut self, bytes: &[u8; REPORT_BYTES], file: Option<OwnedFd>) -> io::Result<Option<Report>> {
        let Some(packet) = ReportPacket::new(bytes) else {
            return Ok(None);
        };
        match packet.kind() {
            STATE => {
                self.last_state = file;
                Ok(None)
            }
            FORKED if packet.sequence() == self.sequence => {
                self.forked = Some(packet.value());
                Ok(None)
            }
            READY => Ok(Some(Report::Ready)),
            DONE if packet.sequence() == self.job => {
                // It was for a shell that was about to exit.
                self.last_state = None;
                Ok(Some(Report::Done(packet.done())))
            }
            REFUSED if packet.sequence() == self.sequence => {
                Err(io::Error::from_raw_os_error(packet.value()))
            }
            _ => Ok(None),
        }
    }
}

/// Connects to the socket at which this shell, and no other process, listens.
fn connect(name: &[u8], shell: Pid) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
    if rustix::net::sockopt::socket_peercred(&socket)?.pid != shell {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(socket)
}

/// Sends bash the signal on which the object unwinds.
pub(super) fn interrupt(shell: Pid) -> io::Result<()> {
    sys::send_signal(shell, libc::SIGCONT)?;
    sys::send_signal(shell, libc::SIGRTMAX() - 3)
}

fn random_name() -> io::Result<Vec<u8>> {
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("sandcrab-shell-{:032x}", u128::from_ne_bytes(random)).into_bytes())
}
