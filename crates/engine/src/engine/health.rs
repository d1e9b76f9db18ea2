//! [`Health`]: capabilities and problems.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::link::lock;
use super::{Engine, Inner};
use crate::layout::{FAILURES, count_failures};
use crate::protocol::Capabilities;
use crate::shell::{Driver, PORTABLE_REMEDY};
use crate::trusted::DirState;

/// Free space below which the disk of the state directory counts as full, in bytes.
pub const LOW_DISK_BYTES: u64 = 4 << 20;
/// Number of free inodes below which it counts as full.
const LOW_DISK_INODES: u64 = 16;
/// Time for which a lost supervisor is reported as a problem. It is counted without limit.
const RECENT: Duration = Duration::from_secs(15 * 60);

/// Capabilities and problems of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Driver of sessions' shells: `loaded`, `portable`, or `none` without bash.
    pub shell_driver: String,
    /// Reason why it is not the loaded driver.
    pub shell_driver_reason: Option<String>,
    /// Use of cgroups.
    pub cgroups: String,
    /// Landlock version of the kernel.
    pub landlock: Option<u32>,
    /// Executions that have not ended.
    pub running: usize,
    /// Number of sessions.
    pub sessions: usize,
    /// Supervisors that are ready for a command or a session.
    pub ready: usize,
    /// Default user of commands; `None` for the engine's own user.
    pub run_as: Option<String>,
    /// The current state of the state directory.
    pub state_dir: DirState,
    /// Number of supervisors that died unexpectedly, or were given up because a command lowered their limits, since
    /// the engine was opened.
    pub lost_supervisors: u64,
    /// Number of restored shells of sessions since the engine was opened.
    pub restored_sessions: u64,
    /// Number of lines in the log of failed supervisors, also from before the engine was opened.
    pub logged_failures: u64,
    /// Problems, the worst first.
    pub problems: Vec<Problem>,
}

/// A problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// A stable name.
    pub code: &'static str,
    /// Description.
    pub message: String,
    /// Remedy.
    pub suggestion: String,
}

/// Incidents since the engine was opened.
#[derive(Debug, Default)]
pub(super) struct Incidents {
    lost_supervisors: AtomicU64,
    restored_sessions: AtomicU64,
    last_lost: Mutex<Option<Instant>>,
}

impl Incidents {
    /// A supervisor died unexpectedly.
    pub(super) fn supervisor_lost(&self, nonce: u64, executions: usize) {
        self.lost_supervisors.fetch_add(1, Ordering::Relaxed);
        *lock(&self.last_lost) = Some(Instant::now());
        tracing::warn!(
            supervisor = format_args!("{nonce:012x}"),
            executions,
            "a supervisor died; {FAILURES} in the state directory may say why"
        );
    }

    /// A supervisor was given up because a command lowered its limits.
    pub(super) fn supervisor_given_up(&self, nonce: u64) {
        self.lost_supervisors.fetch_add(1, Ordering::Relaxed);
        *lock(&self.last_lost) = Some(Instant::now());
        tracing::warn!(
            supervisor = format_args!("{nonce:012x}"),
            "a command has lowered resource limits of its supervisor, which is given up"
        );
    }

    /// The shell of a session was restored.
    pub(super) fn session_restored(&self) {
        self.restored_sessions.fetch_add(1, Ordering::Relaxed);
    }
}

impl Engine {
    /// Returns capabilities and problems. Queries the file system.
    pub fn health(&self) -> Health {
        let Inner { capabilities, incidents, executions, registry, pool, config, state, .. } = &*self.inner;
        let Capabilities { driver, driver_reason, cgroups, .. } = capabilities.clone();
        let mut health = Health {
            shell_driver: driver,
            shell_driver_reason: driver_reason,
            cgroups,
            landlock: crate::sys::landlock_version(),
            running: lock(executions).unfinished(),
            sessions: lock(registry).sessions.len(),
            ready: pool.ready(),
            run_as: config.run_as.as_ref().map(|user| user.name.clone()),
            state_dir: state.dir.state(),
            lost_supervisors: incidents.lost_supervisors.load(Ordering::Relaxed),
            restored_sessions: incidents.restored_sessions.load(Ordering::Relaxed),
            logged_failures: count_failures(&state.dir),
            problems: Vec::new(),
        };
        let lost_recently = lock(&incidents.last_lost).is_some_and(|last| last.elapsed() < RECENT);
        let other_user = config.run_as.as_ref().filter(|user| !user.is_own()).map(|user| user.name.as_str());
        let path = state.path.display().to_string();
        health.problems = problems(&health, &path, other_user, lost_recently);
        health
    }
}

/// `other_user` is the default user of commands, if that is not the engine's own.
fn problems(health: &Health, path: &str, other_user: Option<&str>, lost_recently: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |code, message: String, suggestion: String| {
        problems.push(Problem { code, message, suggestion });
    };
    let DirState { is_there, free_bytes, free_inodes } = health.state_dir;
    if !is_there {
        let message =
            format!("the state directory {path} was removed or replaced; commands cannot be started");
        add("state_directory_missing", message, "restart the server".into());
    }
    if free_bytes < LOW_DISK_BYTES || free_inodes.is_some_and(|free| free < LOW_DISK_INODES) {
        let message = format!("the disk of the state directory {path} is full: {free_bytes} bytes are free");
        let suggestion =
            "free space there, delete finished processes (POST /api/process/cleanup), or lower retention";
        add("disk_full", message, suggestion.into());
    }
    if health.shell_driver == "none" {
        let message = "bash not found; sessions are not available".into();
        add("no_shell", message, "install bash".into());
    } else if let Some(user) = other_user
        && health.shell_driver == Driver::Portable.as_str()
    {
        let reason = health.shell_driver_reason.as_ref().map(|reason| format!(" ({reason})"));
        let message = format!(
            "the portable driver{} cannot start shells as {user}; sessions are not available",
            reason.unwrap_or_default()
        );
        add("no_shell", message, PORTABLE_REMEDY.into());
    } else if let Some(reason) = &health.shell_driver_reason {
        let message = format!("shells use the {} driver, which is slower: {reason}", health.shell_driver);
        add("driver_fallback", message, "use a bash (4.4 or newer) that can load objects".into());
    }
    if lost_recently {
        let message = format!("{} supervisors were lost since the server started", health.lost_supervisors);
        let suggestion = format!(
            "see {path}/{FAILURES} and the kernel log: the kernel may have killed a process (out of memory), \
             or a command may have lowered the limits of its supervisor"
        );
        add("supervisors_lost", message, suggestion);
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> Health {
        Health {
            shell_driver: "loaded".into(),
            shell_driver_reason: None,
            cgroups: String::new(),
            landlock: None,
            running: 0,
            sessions: 0,
            ready: 0,
            run_as: None,
            state_dir: DirState { is_there: true, free_bytes: 1 << 40, free_inodes: None },
            lost_supervisors: 0,
            restored_sessions: 0,
            logged_failures: 0,
            problems: Vec::new(),
        }
    }

    #[test]
    fn each_problem_has_its_name() {
        let codes = |health: &Health, lost| {
            problems(health, "/state", None, lost).iter().map(|problem| problem.code).collect::<Vec<_>>()
        };
        let well = health();
        assert!(codes(&well, false).is_empty());
        assert_eq!(codes(&well, true), ["supervisors_lost"]);
        let mut ill = health();
        ill.state_dir = DirState { is_there: false, free_bytes: 0, free_inodes: Some(0) };
        ill.shell_driver_reason = Some("it is static".into());
        assert_eq!(codes(&ill, false), ["state_directory_missing", "disk_full", "driver_fallback"]);
        ill.state_dir = DirState { is_there: true, free_bytes: 1 << 40, free_inodes: Some(0) };
        ill.shell_driver = "none".into();
        assert_eq!(codes(&ill, false), ["disk_full", "no_shell"]);
    }
}
