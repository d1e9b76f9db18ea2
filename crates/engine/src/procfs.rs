//! Reads and parses files of `/proc`; the only place that does.

use std::fmt;
use std::io;
use std::str;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read as read_fd, retry_on_intr};
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

use crate::sys::Resource;

mod metrics;
mod sockets;

pub(crate) use metrics::ProcessMetrics;
pub(crate) use sockets::{ListeningSocket, listening_sockets, sockets_of};

/// Reads the start of a file into the buffer, in one go where the kernel allows it.
pub(crate) fn read<'b>(path: &str, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
    let fd = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let count = retry_on_intr(|| read_fd(&fd, &mut *buffer))?;
    Ok(&buffer[..count])
}

/// Reads a whole file.
pub(crate) fn read_all(path: &str) -> io::Result<Vec<u8>> {
    let fd = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut content = vec![0; 4096];
    let mut length = 0;
    loop {
        match read_fd(&fd, &mut content[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if length == content.len() {
            content.resize(length * 2, 0);
        }
    }
    content.truncate(length);
    Ok(content)
}

/// The process ids (or, of a `task` directory, thread ids) that a directory lists.
pub(crate) fn ids_in(directory: &str) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    entries.filter_map(|entry| pid_from(entry.ok()?.file_name().as_encoded_bytes())).collect()
}

/// A process id in decimal.
pub(crate) fn pid_from(text: &[u8]) -> Option<Pid> {
    Pid::from_raw(str::from_utf8(text).ok()?.parse::<i32>().ok().filter(|id| *id > 0)?)
}

/// The arguments of a process, each followed by a NUL byte. Empty if it has ended.
pub(crate) fn arguments(pid: Pid) -> Vec<u8> {
    read_all(&format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// A limit in the text of `/proc/<pid>/limits`: soft and hard, `u64::MAX` for none.
pub(crate) fn limit_in(text: &str, resource: Resource) -> Option<(u64, u64)> {
    let name = match resource {
        Resource::RealTime => "Max realtime timeout",
        Resource::AddressSpace => "Max address space",
        Resource::Cpu => "Max cpu time",
        Resource::Processes => "Max processes",
        Resource::OpenFiles => "Max open files",
        Resource::FileSize => "Max file size",
        Resource::Core => "Max core file size",
        Resource::Data => "Max data size",
        Resource::Stack => "Max stack size",
        Resource::ResidentSet => "Max resident set",
        Resource::LockedMemory => "Max locked memory",
        Resource::FileLocks => "Max file locks",
        Resource::PendingSignals => "Max pending signals",
        Resource::MessageQueues => "Max msgqueue size",
        Resource::Nice => "Max nice priority",
        Resource::RealTimePriority => "Max realtime priority",
    };
    let mut values = text.lines().find_map(|line| line.strip_prefix(name))?.split_ascii_whitespace();
    let mut next = || match values.next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    };
    Some((next()?, next()?))
}

/// The working directory of a process.
pub(crate) fn working_directory(pid: Pid) -> io::Result<Vec<u8>> {
    Ok(rustix::fs::readlink(format!("/proc/{pid}/cwd"), Vec::new())?.into_bytes())
}

/// Whether a process is a shell with job control: such a shell ignores the signals that stop a process, because it stops
/// and continues others.
pub(crate) fn has_job_control(pid: Pid) -> bool {
    let status = read_all(&format!("/proc/{pid}/status")).unwrap_or_default();
    ignored_signals(&status).is_some_and(|ignored| {
        [libc::SIGTSTP, libc::SIGTTOU].iter().all(|signal| ignored & (1 << (signal - 1)) != 0)
    })
}

/// The mask of ignored signals in the text of `/proc/<pid>/status`.
fn ignored_signals(status: &[u8]) -> Option<u64> {
    let mut lines = status.split(|byte| *byte == b'\n');
    let mask = lines.find_map(|line| line.strip_prefix(b"SigIgn:"))?;
    u64::from_str_radix(str::from_utf8(mask).ok()?.trim(), 16).ok()
}

/// The file that lists the children of a thread (CONFIG_PROC_CHILDREN).
pub(crate) fn children_path(pid: Pid, thread: Pid) -> String {
    format!("/proc/{pid}/task/{thread}/children")
}

/// Start time of a process, in clock ticks (10 ms) since boot. Together with the process id it identifies a process:
/// no id is reused within a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StartTime(u64);

impl fmt::Display for StartTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StartTime {
    /// Earlier than that of any process.
    pub(crate) const EARLIEST: Self = Self(0);

    /// The time of one tick before.
    pub(crate) fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The start time of a process that starts now.
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let ticks = rustix::param::clock_ticks_per_second();
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
        Self(seconds * ticks + nanos * ticks / 1_000_000_000)
    }
}

/// Content of `/proc/<pid>/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) parent: Option<Pid>,
    /// Whether it is a zombie.
    pub(crate) ended: bool,
    /// Whether it runs or is runnable; also while it waits for a disk.
    pub(crate) running: bool,
    /// Whether it was stopped by a signal.
    pub(crate) stopped: bool,
    pub(crate) threads: u32,
    pub(crate) start: StartTime,
}

impl Stat {
    /// Looks a process up. `None` if it does not exist.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let mut buffer = [0; 1024];
        Self::parse(read(&format!("/proc/{pid}/stat"), &mut buffer).ok()?)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut fields = fields_after_name(text)?;
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let threads = fields.nth(15)?.parse().ok()?;
        let start = fields.nth(1)?.parse().ok()?;
        Some(Self {
            parent: Pid::from_raw(parent),
            // A first thread that has ended is shown as a zombie while the others continue.
            ended: matches!(state, "Z" | "X" | "x") && threads <= 1,
            running: matches!(state, "R" | "D"),
            stopped: state == "T",
            threads,
            start: StartTime(start),
        })
    }
}

/// The fields of `/proc/<pid>/stat` from the third (the state) on. The name before it, in parentheses, may contain
/// any characters, also parentheses and blanks.
fn fields_after_name(text: &[u8]) -> Option<str::SplitAsciiWhitespace<'_>> {
    let after_name = text.iter().rposition(|byte| *byte == b')')? + 1;
    Some(str::from_utf8(&text[after_name..]).ok()?.split_ascii_whitespace())
}

/// Resource usage of a live process so far, with the children it has waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessUsage {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) resident_bytes: u64,
}

impl ProcessUsage {
    /// Looks a process up. `None` if it does not exist.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let mut buffer = [0; 1024];
        let mut fields = fields_after_name(read(&format!("/proc/{pid}/stat"), &mut buffer).ok()?)?;
        let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
        let time = |field: Option<&str>| -> Option<Duration> {
            Some(Duration::from_millis(field?.parse::<u64>().ok()?.saturating_mul(1000) / ticks_per_second))
        };
        // utime, stime, cutime, cstime and rss: fields 14 to 17 and 24, counted from the third.
        let (user, system) = (time(fields.nth(11))?, time(fields.next())?);
        let (user, system) = (user + time(fields.next())?, system + time(fields.next())?);
        let pages: u64 = fields.nth(6)?.parse().ok()?;
        let resident_bytes = pages.saturating_mul(rustix::param::page_size() as u64);
        Some(Self { user, system, resident_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_parsed_whatever_the_name() {
        let text = b"42 (a ) S 1) Z 7 42 42 0 -1 4 0 0 0 0 1 2 3 4 20 0 1 0 12345 0 0 18446744073709551615";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(stat.parent, Pid::from_raw(7));
        assert!(stat.ended && !stat.stopped);
        assert_eq!((stat.threads, stat.start), (1, StartTime(12345)));
        assert_eq!(Stat::parse(b"42 (cut"), None);
    }

    #[test]
    fn a_zombie_with_threads_has_not_ended() {
        let text = b"42 (x) Z 7 42 42 0 -1 4 0 0 0 0 1 2 3 4 20 0 3 0 12345 0";
        assert!(!Stat::parse(text).unwrap().ended);
    }

    #[test]
    fn limits_are_read_from_text() {
        let text = std::fs::read_to_string("/proc/self/limits").unwrap();
        for resource in Resource::ALL {
            assert_eq!(limit_in(&text, resource), crate::sys::limit(None, resource).ok(), "{resource:?}");
        }
        let text =
            "Max realtime priority     0  0\nMax realtime timeout      4611686018427387911  unlimited  us\n";
        assert_eq!(limit_in(text, Resource::RealTime), Some((4_611_686_018_427_387_911, u64::MAX)));
    }

    #[test]
    fn ignored_signals_are_read_from_text() {
        let text = b"Name:\tSigIgn: 1\nSigBlk:\t0000000000010000\nSigIgn:\t0000000000380004\n";
        assert_eq!(ignored_signals(text), Some(0x38_0004));
        assert_eq!(ignored_signals(b"Name:\tx\n"), None);
        assert!(!has_job_control(rustix::process::getpid()));
    }

    #[test]
    fn start_times_are_of_one_clock() {
        let before = StartTime::now();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let start = Stat::of(pid).unwrap().start;
        assert!(before <= start && start <= StartTime::now());
        child.wait().unwrap();
    }
}
