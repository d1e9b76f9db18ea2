//! The zygote: a small single-threaded process that forks supervisors.
//!
//! It is the engine's own program, executed again and intercepted by [`crate::init`] before other code runs, so its
//! heap is small and a fork cheap. Standard input is its socket to the engine, standard output the lifeline, a pipe
//! whose other end only the engine holds. When its engine exits it forks no more, and stays as long as it has
//! children: see [`OrphanReaper`].

use std::ffi::{CStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal, set_child_subreaper};

use super::context::Context;
use super::event_loop::Supervisor;
use super::job::raw;
use super::orphan_reaper::OrphanReaper;
use super::own_limits::OwnLimits;
use crate::layout::{Folders, socket_address, socket_name};
use crate::process_tree::walk::children_of;
use crate::process_tree::{FORCE_LIMIT, SUPERVISOR};
use crate::procfs::{self, Stat};
use crate::protocol::{FrameBuffer, Nonce, Refusal, ZygoteReply, ZygoteRequest, frame};
use crate::sys::{self, Fork};
use crate::trusted::TrustedDir;

/// The name in `argv[0]` that makes a process a zygote.
pub(crate) const ZYGOTE: &str = "sandcrab-zygote";

/// The name of a zygote whose engine has exited.
const KEEPER: &CStr = c"sandcrab-keeper";
/// Polling interval while waiting for the orphans of dead supervisors to end.
const ORPHAN_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum wait for a killed supervisor to end.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// The flag of listening sockets in `/proc/net/unix`.
const LISTENING: &str = "00010000";

/// The resources of a supervisor that was just forked.
#[derive(Debug)]
struct ForkedSupervisor {
    context: Context,
    nonce: Nonce,
    listener: OwnedFd,
}

/// Turns this process into the zygote if it was started as one; otherwise returns.
pub(crate) fn enter_if_asked() {
    let mut arguments = std::env::args_os();
    if arguments.next().as_deref() != Some(OsString::from(ZYGOTE).as_os_str()) {
        return;
    }
    let code = match arguments.next().map(|state_dir| serve(Path::new(&state_dir))) {
        Some(Ok(Some(ForkedSupervisor { context, nonce, listener }))) => {
            Supervisor::start(context, nonce, listener)
        }
        Some(Ok(None)) => 0,
        Some(Err(_)) => 1,
        None => 2,
    };
    sys::exit_now(code);
}

/// Serves the engine until it exits. Returns the resources of the supervisor in each forked child, so that everything
/// of the zygote has been dropped there.
fn serve(state_dir: &Path) -> io::Result<Option<ForkedSupervisor>> {
    // Descriptors that the engine's program left open are not meant for commands.
    sys::close_on_exec_from(3);
    // Above the first ten, which belong to commands, and close-on-exec.
    let control = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 10)?;
    let lifeline = fcntl_dupfd_cloexec(rustix::stdio::stdout(), 10)?;
    let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    // A separate session: signals to the engine's group must not end the supervisors.
    let _ = rustix::process::setsid();
    sys::reset_signals();
    for signal in [libc::SIGPIPE, libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        sys::ignore_signal(signal);
    }
    let children = fcntl_dupfd_cloexec(sys::signalfd(&[libc::SIGCHLD])?, 10)?;
    let _ = rustix::thread::set_name(c"sandcrab-zygote");
    set_child_subreaper(Some(getpid()))?;

    let mut control = UnixStream::from(control);
    let mut context = Context::new(Folders::open(&TrustedDir::open(state_dir)?)?, lifeline);
    let mut frames = FrameBuffer::default();
    let mut chunk = vec![0; 16 << 10];
    let mut orphan_reaper = OrphanReaper::default();
    let limits = OwnLimits::now();
    loop {
        let mut fds = [PollFd::new(&children, PollFlags::IN), PollFd::new(&control, PollFlags::IN)];
        look_after(&mut orphan_reaper, &mut fds);
        if fds[1].revents().is_empty() {
            continue;
        }
        let n = match control.read(&mut chunk) {
            Ok(n) if n > 0 => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => break,
        };
        frames.extend(&chunk[..n]);
        while let Some(envelope) = frames.next::<ZygoteRequest>().map_err(io::Error::other)? {
            let answer = match envelope.body {
                ZygoteRequest::Configure(settings) => ZygoteReply::Configured(context.configure(*settings)),
                ZygoteRequest::Fork(_) if !limits.restore_all() => {
                    ZygoteReply::Refused(Refusal::LimitsLowered)
                }
                ZygoteRequest::Fork(nonce) => match fork_supervisor(&context, nonce) {
                    Ok(Forked::Child(listener)) => {
                        return Ok(Some(ForkedSupervisor { context, nonce, listener }));
                    }
                    Ok(Forked::Parent(pid)) => {
                        orphan_reaper.forked(pid);
                        ZygoteReply::Forked(raw(pid))
                    }
                    Err(e) => ZygoteReply::Refused(Refusal::os(&e, "fork a supervisor")),
                },
            };
            // The next read detects an engine that has exited.
            drop(control.write_all(&frame(envelope.request, &answer)));
        }
    }
    if let Some(directory) = context.temporary.take() {
        // An engine that stopped in order has removed it. Supervisors whose socket is gone end their processes and exit.
        drop(std::fs::remove_dir_all(directory));
    }
    drop((control, context, frames, chunk));
    let _ = rustix::thread::set_name(KEEPER);
    while !orphan_reaper.is_idle() {
        look_after(&mut orphan_reaper, &mut [PollFd::new(&children, PollFlags::IN)]);
    }
    Ok(None)
}

/// Waits for events and handles changes of supervisors. The first descriptor reports changes of children.
fn look_after(orphan_reaper: &mut OrphanReaper, fds: &mut [PollFd<'_>]) {
    let timeout = orphan_reaper.wake_at().map(|at| {
        let wait = at.saturating_duration_since(Instant::now());
        Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() }
    });
    // Interrupted: treated as a spurious wake-up.
    let _ = poll(fds, timeout.as_ref());
    if !fds[0].revents().is_empty() {
        orphan_reaper.reap(&fds[0].as_fd());
    }
    orphan_reaper.step(Instant::now());
}

enum Forked {
    Child(OwnedFd),
    Parent(Pid),
}

/// Binds the supervisor's socket before forking, so that the engine can connect as soon as the fork is reported.
fn fork_supervisor(context: &Context, nonce: Nonce) -> io::Result<Forked> {
    let folder = &context.folders.supervisors;
    let listener = listen_as(folder, nonce)?;
    match sys::fork_single_threaded() {
        Ok(Fork::Child) => Ok(Forked::Child(listener)),
        Ok(Fork::Parent(pid)) => Ok(Forked::Parent(pid)),
        Err(e) => {
            let _ = unlinkat(folder, socket_name(nonce), AtFlags::empty());
            Err(e)
        }
    }
}

fn listen_as(folder: &OwnedFd, nonce: Nonce) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &socket_address(folder, nonce)?)?;
    // Fewer than a supervisor accepts at once.
    listen(&socket, 16)?;
    // Low numbers belong to commands.
    Ok(fcntl_dupfd_cloexec(&socket, 10)?)
}

/// The processes of a state directory: its zygote and its supervisors.
pub(crate) fn supervisors_of(state_dir: &Path) -> Vec<u32> {
    let own = arguments_of(state_dir);
    let pids = procfs::ids_in("/proc").into_iter().filter(|pid| procfs::arguments(*pid) == own);
    pids.map(raw).collect()
}

/// Waits until the zygotes of a state directory have ended the orphans of dead supervisors, with a timeout: a process
/// that is stuck in the kernel stays. Also waits for a supervisor that is about to exit: until then its children are
/// its own.
pub(crate) fn wait_for_orphans(state_dir: &Path) {
    let own = arguments_of(state_dir);
    let is_supervisor = |pid: &Pid| name_of(*pid) == SUPERVISOR.to_bytes();
    let mut keepers: Vec<Pid> = supervisors_of(state_dir).into_iter().filter_map(pid_of).collect();
    keepers.retain(|pid| !is_supervisor(pid));
    // The arguments of an exiting process are already gone.
    let is_left =
        |pid: &Pid| Stat::of(*pid).is_some_and(|stat| !stat.ended) && procfs::arguments(*pid) != own;
    let begun = Instant::now();
    while keepers.iter().any(|orphan_reaper| children_of(*orphan_reaper).iter().any(is_left)) {
        if begun.elapsed() >= FORCE_LIMIT {
            return;
        }
        continue_stopped(&keepers.iter().map(|pid| raw(*pid)).collect::<Vec<_>>());
        std::thread::sleep(ORPHAN_INTERVAL);
    }
}

fn pid_of(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// The name of a process; empty if it does not exist.
fn name_of(pid: Pid) -> Vec<u8> {
    let mut name = procfs::read_all(&format!("/proc/{pid}/comm")).unwrap_or_default();
    name.pop_if(|last| *last == b'\n');
    name
}

/// The arguments of a state directory's zygotes and supervisors.
fn arguments_of(state_dir: &Path) -> Vec<u8> {
    [ZYGOTE.as_bytes(), b"\0", state_dir.as_os_str().as_bytes(), b"\0"].concat()
}

/// Kills the processes that listen on a supervisor's socket: the supervisor, and a child that has not executed its
/// program yet. Waits for their end, with a timeout: a process that is stuck in the kernel stays.
pub(crate) fn end_listeners(state_dir: &Path, nonce: Nonce) {
    let sockets = listening_as(nonce);
    if sockets.is_empty() {
        return;
    }
    let mut ended = Vec::new();
    for number in supervisors_of(state_dir) {
        let Some(pid) = pid_of(number) else { continue };
        // Open the pidfd first, then check, so that the checked process is the signalled one.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let Ok(files) = std::fs::read_dir(format!("/proc/{number}/fd")) else { continue };
        let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        let is_own = name_of(pid) == SUPERVISOR.to_bytes()
            && links.into_iter().any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str()));
        if is_own && pidfd_send_signal(&process, Signal::KILL).is_ok() {
            ended.push(process);
        }
    }
    let limit = Timespec { tv_sec: KILL_WAIT.as_secs().cast_signed(), tv_nsec: 0 };
    for process in ended {
        let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit));
    }
}

/// The sockets that listen under a supervisor's name, as shown in `/proc/<pid>/fd`.
fn listening_as(nonce: Nonce) -> Vec<String> {
    let name = format!("/{}", socket_name(nonce));
    let text = std::fs::read("/proc/net/unix").unwrap_or_default();
    let socket_of = |line: &str| {
        // Address, references, protocol, flags, type, state, inode, path.
        let mut fields = line.split_ascii_whitespace();
        let (flags, inode) = (fields.nth(3)?, fields.nth(2)?);
        let is_own = flags == LISTENING && fields.next()?.ends_with(&name);
        is_own.then(|| format!("socket:[{inode}]"))
    };
    String::from_utf8_lossy(&text).lines().filter_map(socket_of).collect()
}

/// Continues those of these processes that are stopped supervisors.
pub(crate) fn continue_stopped(pids: &[u32]) {
    for number in pids {
        let Some(pid) = i32::try_from(*number).ok().and_then(Pid::from_raw) else { continue };
        // Open the pidfd first, then check, so that the checked process is the signalled one.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let is_stopped = Stat::of(pid).is_some_and(|stat| stat.stopped);
        if is_stopped && procfs::arguments(pid).starts_with(ZYGOTE.as_bytes()) {
            let _ = pidfd_send_signal(process, Signal::CONT);
        }
    }
}
