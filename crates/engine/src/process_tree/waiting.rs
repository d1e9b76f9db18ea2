//! Detects whether a command waits for input, from the system calls in which its threads are blocked.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FileType, Stat, fstat, major, minor, stat};
use rustix::io::ioctl_fionread;
use rustix::process::Pid;

use crate::procfs::{self, ids_in};
use crate::sys;

/// Maximum number of descriptors that a waiting program may poll to be recognised.
const MAX_WATCHED: usize = 64;

/// Whether a command waits for its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// A thread is blocked reading it, and no data is available.
    Yes,
    /// No thread is.
    No,
    /// The kernel does not show what some of its processes do.
    Unknown,
}

/// The file that a command reads its input from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InputFile {
    device: u64,
    inode: u64,
    /// Whether it is a terminal, which its processes may also have opened as `/dev/tty`.
    is_terminal: bool,
}

/// The device number of `/dev/tty`.
const CONTROLLING_TERMINAL: (u32, u32) = (5, 0);

impl InputFile {
    /// The slave of a terminal.
    pub(crate) fn terminal(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino, is_terminal: true }
    }

    fn pipe(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino, is_terminal: false }
    }

    fn is(&self, stat: &Stat) -> bool {
        let is_same = (stat.st_dev, stat.st_ino) == (self.device, self.inode);
        let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
        is_same
            || self.is_terminal
                && is_device
                && (major(stat.st_rdev), minor(stat.st_rdev)) == CONTROLLING_TERMINAL
    }
}

/// A system call that a thread is blocked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blocked {
    /// Reading from this descriptor.
    Reading(u64),
    /// In `poll`, with this many entries at this address.
    Polling(u64, u64),
    /// In `select`, with this many bits at this address.
    Selecting(u64, u64),
    /// In another call, or running.
    Elsewhere,
}

/// Whether any of these processes waits for input. `stdin` is the command's standard input: either end of the pipe.
pub(crate) fn waits_for_input(members: &[Pid], stdin: impl AsFd) -> Waiting {
    let Ok(stat) = fstat(&stdin) else {
        return Waiting::Unknown;
    };
    match ioctl_fionread(&stdin) {
        Ok(0) => {}
        Ok(_) => return Waiting::No,
        Err(_) => return Waiting::Unknown,
    }
    waits_for_file(members, InputFile::pipe(&stat))
}

/// Whether any of these processes waits for input from a file.
pub(crate) fn waits_for_file(members: &[Pid], file: InputFile) -> Waiting {
    let mut answer = Waiting::No;
    for pid in members {
        for thread in ids_in(&format!("/proc/{pid}/task")) {
            match thread_waits(*pid, thread, file) {
                Ok(true) => return Waiting::Yes,
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    answer = Waiting::Unknown;
                }
                // It has ended meanwhile.
                Err(_) => {}
            }
        }
    }
    answer
}

fn thread_waits(pid: Pid, thread: Pid, input: InputFile) -> io::Result<bool> {
    let mut buffer = [0; 256];
    let line = procfs::read(&format!("/proc/{pid}/task/{thread}/syscall"), &mut buffer)?;
    let refers = |fd: u64| -> io::Result<bool> { Ok(input.is(&stat(format!("/proc/{pid}/fd/{fd}"))?)) };
    let watched = match parse(&String::from_utf8_lossy(line)) {
        Blocked::Reading(fd) => return refers(fd),
        Blocked::Polling(address, count) => polled(pid, address, count)?,
        Blocked::Selecting(address, bits) => selected(pid, address, bits)?,
        Blocked::Elsewhere => return Ok(false),
    };
    // One that also polls other descriptors may be waiting for those.
    for fd in &watched {
        if !refers(*fd)? {
            return Ok(false);
        }
    }
    Ok(!watched.is_empty())
}

fn parse(line: &str) -> Blocked {
    let mut words = line.split_ascii_whitespace();
    let Some(number) = words.next().and_then(|word| word.parse::<libc::c_long>().ok()) else {
        return Blocked::Elsewhere;
    };
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (Some(first), Some(second)) = (argument(), argument()) else {
        return Blocked::Elsewhere;
    };
    match number {
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_splice => {
            Blocked::Reading(first)
        }
        libc::SYS_ppoll => Blocked::Polling(first, second),
        libc::SYS_pselect6 => Blocked::Selecting(second, first),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => Blocked::Polling(first, second),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => Blocked::Selecting(second, first),
        _ => Blocked::Elsewhere,
    }
}

/// A copy of another process's memory. Empty if it is not readable.
fn memory(pid: Pid, address: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; length];
    let address = usize::try_from(address).map_err(io::Error::other)?;
    let count = if address == 0 { 0 } else { sys::read_memory(pid, address, &mut buffer)? };
    buffer.truncate(if count == length { count } else { 0 });
    Ok(buffer)
}

/// The descriptors that a `poll` polls for input.
fn polled(pid: Pid, address: u64, count: u64) -> io::Result<Vec<u64>> {
    let Some(count) = usize::try_from(count).ok().filter(|count| *count <= MAX_WATCHED) else {
        return Ok(Vec::new());
    };
    let entries = memory(pid, address, count * 8)?;
    Ok(entries.chunks_exact(8).filter_map(|entry| input_of(entry.first_chunk()?)).collect())
}

/// The descriptor of a `struct pollfd`, if it is polled for input.
fn input_of(entry: &[u8; 8]) -> Option<u64> {
    let [a, b, c, d, events @ .., _, _] = *entry;
    let input = i16::from_ne_bytes(events) & libc::POLLIN != 0;
    // The kernel ignores negative ones.
    u64::try_from(i32::from_ne_bytes([a, b, c, d])).ok().filter(|_| input)
}

/// The descriptors that a `select` polls for input.
fn selected(pid: Pid, address: u64, bits: u64) -> io::Result<Vec<u64>> {
    let Some(bytes) = usize::try_from(bits.div_ceil(64) * 8).ok().filter(|bytes| *bytes <= 128) else {
        return Ok(Vec::new());
    };
    let set = memory(pid, address, bytes)?;
    let words = set.chunks_exact(8).filter_map(|word| Some(u64::from_ne_bytes(*word.first_chunk()?)));
    let mut fds = Vec::new();
    for (base, word) in (0..).step_by(64).zip(words) {
        fds.extend((0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| base + bit).filter(|fd| *fd < bits));
    }
    Ok(fds)
}
