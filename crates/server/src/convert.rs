//! Converts types of the engine and of the workspace to those of the wire.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use base64::Engine as _;
use sandcrab_api::Timestamp;
use sandcrab_api::execute::{End, EndReason, ProcessName, Replaced, RestoredFrom, Usage};
use sandcrab_api::file::FileType;
use sandcrab_api::process::{KilledProcess, Process, ProcessMetrics, ProcessStatus};
use sandcrab_engine::{ExecutionInfo, KillReceipt, Leftover, StateSource, Status, TreeMetrics};
use sandcrab_workspace::Stat;

/// The exit code if it is unknown.
const UNKNOWN_EXIT_CODE: i32 = 255;

/// Source of the state of a restored shell.
pub(crate) fn restored_from(source: StateSource) -> RestoredFrom {
    match source {
        StateSource::Exit => RestoredFrom::Exit,
        StateSource::Snapshot => RestoredFrom::Snapshot,
    }
}

pub(crate) fn millis(duration: std::time::Duration) -> f64 {
    // To the microsecond, which is the resolution of the measurement.
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

pub(crate) fn reason(reason: sandcrab_engine::EndReason) -> EndReason {
    use sandcrab_engine::EndReason as Engine;
    match reason {
        Engine::Exited => EndReason::Exited,
        Engine::Signaled => EndReason::Signaled,
        Engine::Timeout => EndReason::Timeout,
        Engine::IdleTimeout => EndReason::IdleTimeout,
        Engine::Killed => EndReason::Killed,
        Engine::Oom => EndReason::Oom,
        Engine::OutputLimit => EndReason::OutputLimit,
        Engine::SessionEnded => EndReason::SessionEnded,
        // A reason that this server does not know.
        _ => EndReason::Lost,
    }
}

pub(crate) fn end(end: &sandcrab_engine::End) -> End {
    End { reason: reason(end.reason), signal: end.signal }
}

/// The previous execution with the same id.
pub(crate) fn replaced(info: &ExecutionInfo) -> Option<Replaced> {
    info.replaced.as_ref().map(|before| Replaced { exit_code: exit_code(before), end: end(before) })
}

pub(crate) fn exit_code(end: &sandcrab_engine::End) -> i32 {
    end.exit_code.unwrap_or(UNKNOWN_EXIT_CODE)
}

pub(crate) fn usage(usage: &sandcrab_engine::Usage) -> Usage {
    Usage {
        user_ms: millis(usage.user),
        system_ms: millis(usage.system),
        wall_ms: millis(usage.wall),
        max_rss_bytes: usage.max_rss_bytes,
    }
}

pub(crate) fn metrics(found: &TreeMetrics) -> ProcessMetrics {
    ProcessMetrics {
        processes: found.processes,
        threads: found.threads,
        open_files: found.open_files,
        user_ms: millis(found.user),
        system_ms: millis(found.system),
        resident_bytes: found.resident_bytes,
        read_bytes: found.read_bytes,
        written_bytes: found.written_bytes,
        unreadable: (found.unreadable > 0).then_some(found.unreadable),
    }
}

pub(crate) fn names(leftovers: &[Leftover]) -> Vec<ProcessName> {
    leftovers
        .iter()
        .map(|Leftover { pid, command }| ProcessName { pid: *pid, command: command.clone() })
        .collect()
}

pub(crate) fn killed(receipt: KillReceipt) -> (Vec<KilledProcess>, Vec<ProcessName>) {
    let survivors = names(&receipt.survivors);
    let killed = receipt.killed.into_iter();
    (killed.map(|k| KilledProcess { pid: k.pid, command: k.command, signal: k.signal }).collect(), survivors)
}

pub(crate) fn status(status: &Status) -> ProcessStatus {
    let end = match status {
        Status::Starting => return ProcessStatus::Starting,
        Status::Running { .. } => return ProcessStatus::Running,
        Status::Ended(end) => end,
        _ => return ProcessStatus::Error,
    };
    match reason(end.reason) {
        EndReason::Exited if end.exit_code == Some(0) => ProcessStatus::Completed,
        EndReason::Exited | EndReason::Signaled => ProcessStatus::Failed,
        EndReason::Lost => ProcessStatus::Error,
        _ => ProcessStatus::Killed,
    }
}

/// Information on an execution that is available without a request to its supervisor.
pub(crate) fn process(info: &ExecutionInfo) -> Process {
    let ended = info.status.end();
    Process {
        id: info.id.to_string(),
        pid: info.pid,
        command: info.command.clone(),
        status: status(&info.status),
        start_time: Timestamp::from(info.created_at),
        end_time: info.ended_at.map(Timestamp::from),
        exit_code: ended.and_then(|end| end.exit_code),
        end: ended.map(|found| end(found)),
        session_id: info.session.as_ref().map(ToString::to_string),
        background: info.background,
        waiting: None,
        usage: None,
        leftovers: None,
        leftover_count: None,
        metrics: None,
    }
}

/// Type of a directory entry.
pub(crate) fn file_type(found: sandcrab_workspace::FileType) -> FileType {
    match found {
        sandcrab_workspace::FileType::File => FileType::File,
        sandcrab_workspace::FileType::Directory => FileType::Directory,
        sandcrab_workspace::FileType::Symlink => FileType::Symlink,
        sandcrab_workspace::FileType::Other => FileType::Other,
    }
}

/// A path as text, and in base64 if it is not UTF-8.
pub(crate) fn path(path: &Path) -> (String, Option<String>) {
    let shown = path.to_string_lossy().into_owned();
    let exact = path.to_str().is_none();
    (shown, exact.then(|| base64::engine::general_purpose::STANDARD.encode(path.as_os_str().as_bytes())))
}

/// Permission bits as text: `rw-r--r--`.
pub(crate) fn permissions(mode: u32) -> String {
    let letter = |(place, letter): (usize, char)| if mode & (0o400_u32 >> place) != 0 { letter } else { '-' };
    "rwxrwxrwx".chars().enumerate().map(letter).collect()
}

/// Time of the last modification.
pub(crate) fn modified(stat: &Stat) -> Timestamp {
    stat.modified_at.unwrap_or(std::time::UNIX_EPOCH).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_bits() {
        assert_eq!(permissions(0o4754), "rwxr-xr--");
        assert_eq!(permissions(0o1), "--------x");
    }
}
