//! The log of failed supervisors.
//!
//! A line contains the time, the process and the reason. The file and its predecessor are bounded, so that repeated
//! failures do not fill the disk.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{OFlags, fstat, renameat};

use crate::trusted::{TrustedDir, open_own};

/// Name of the log in the state directory.
pub(crate) const FAILURES: &str = "supervisor-failures.log";
/// Name of its predecessor.
const OLDER_FAILURES: &str = "supervisor-failures.old.log";
/// Maximum size of the log, in bytes.
pub(crate) const MAX_FAILURE_LOG_BYTES: u64 = 64 << 10;
/// Maximum length of one reason, in bytes.
const MAX_REASON_BYTES: usize = 500;

/// Number of lines. A log that another user may have written to counts as empty.
pub(crate) fn count_failures(state_dir: &TrustedDir) -> u64 {
    let lines = |name: &str| {
        let bytes = state_dir.read(name, 2 * MAX_FAILURE_LOG_BYTES).ok().flatten().unwrap_or_default();
        bytes.iter().filter(|byte| **byte == b'\n').count() as u64
    };
    lines(FAILURES) + lines(OLDER_FAILURES)
}

/// Appends a line. `folder` is one of the directories of the state directory.
pub(crate) fn log_failure(folder: &OwnedFd, reason: &str) -> io::Result<()> {
    let path = |name: &str| format!("../{name}");
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND;
    let open = || open_own(folder.as_fd(), &path(FAILURES), flags);
    let mut file = open()?;
    if u64::try_from(fstat(&file)?.st_size).is_ok_and(|size| size >= MAX_FAILURE_LOG_BYTES) {
        renameat(folder, path(FAILURES), folder, path(OLDER_FAILURES))?;
        file = open()?;
    }
    let reason: String = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let reason = &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)];
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let line = format!("{seconds} supervisor {}: {reason}\n", std::process::id());
    rustix::io::write(&file, line.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, openat};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn lines_are_found_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("supervisors")).unwrap();
        let flags = OFlags::DIRECTORY | OFlags::RDONLY;
        let folder = openat(CWD, dir.path().join("supervisors"), flags, Mode::empty()).unwrap();
        log_failure(&folder, "first\nline").unwrap();
        let text = std::fs::read_to_string(dir.path().join(FAILURES)).unwrap();
        assert!(text.ends_with(&format!("supervisor {}: first line\n", std::process::id())), "{text}");
        let state_dir = TrustedDir::open(dir.path()).unwrap();
        assert_eq!(count_failures(&state_dir), 1);
        // A file that others can write to is neither read nor written.
        let mode = |mode| {
            std::fs::set_permissions(dir.path().join(FAILURES), PermissionsExt::from_mode(mode)).unwrap();
        };
        mode(0o666);
        assert!(log_failure(&folder, "second").is_err() && count_failures(&state_dir) == 0);
        mode(0o600);
        for _ in 0..1000 {
            log_failure(&folder, &"ü".repeat(10_000)).unwrap();
        }
        for name in [FAILURES, OLDER_FAILURES] {
            let size = std::fs::metadata(dir.path().join(name)).unwrap().len();
            assert!((1..=MAX_FAILURE_LOG_BYTES + 1000).contains(&size), "{name}: {size}");
        }
    }
}
