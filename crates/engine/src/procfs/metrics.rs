//! Resource usage of one process.

use rustix::process::Pid;

use super::{ProcessUsage, Stat, ids_in, read};

/// Resource usage of a live process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessMetrics {
    pub(crate) usage: ProcessUsage,
    pub(crate) threads: u64,
    /// Bytes read from and written to disks; `None` if the kernel does not show them to this user.
    pub(crate) io: Option<(u64, u64)>,
    /// Number of open descriptors; `None` if the kernel does not show them to this user.
    pub(crate) open_files: Option<u64>,
}

impl ProcessMetrics {
    /// Looks a process up. `None` if it does not exist, or is a zombie.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let stat = Stat::of(pid).filter(|stat| !stat.ended)?;
        let mut buffer = [0; 512];
        let io = read(&format!("/proc/{pid}/io"), &mut buffer).ok();
        Some(Self {
            usage: ProcessUsage::of(pid)?,
            threads: stat.threads.into(),
            io: io.and_then(parse_io),
            open_files: open_files(pid),
        })
    }
}

/// The bytes read from and written to disks, in the text of `/proc/<pid>/io`.
fn parse_io(text: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(text).ok()?;
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some((value("read_bytes:")?, value("write_bytes:")?))
}

/// The number of open descriptors. Newer kernels give it as the size of the directory.
fn open_files(pid: Pid) -> Option<u64> {
    let path = format!("/proc/{pid}/fd");
    let stat = rustix::fs::stat(&path).ok()?;
    if let Ok(size @ 1..) = u64::try_from(stat.st_size) {
        return Some(size);
    }
    // Zero in both cases: an older kernel, or no open descriptor.
    std::fs::read_dir(&path).ok()?;
    Some(ids_and_zero(&path))
}

/// The number of entries that are numbers. Descriptor 0 is not a valid id.
fn ids_and_zero(path: &str) -> u64 {
    ids_in(path).len() as u64 + u64::from(std::fs::symlink_metadata(format!("{path}/0")).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_is_parsed() {
        let text = b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n";
        assert_eq!(parse_io(text), Some((5, 6)));
        assert_eq!(parse_io(b"rchar: 1\n"), None);
    }

    #[test]
    fn this_process_is_measured() {
        let own = ProcessMetrics::of(rustix::process::getpid()).unwrap();
        assert!(own.threads >= 1 && own.usage.resident_bytes > 0 && own.io.is_some(), "{own:?}");
        let before = own.open_files.unwrap();
        let files: Vec<_> = (0..10).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let path = format!("/proc/{}/fd", rustix::process::getpid());
        assert!(open_files(rustix::process::getpid()).unwrap() >= before.min(10));
        assert!(ids_and_zero(&path) >= 10, "{files:?}");
    }
}
