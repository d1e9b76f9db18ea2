//! [`Health`]: what works, and what is wrong.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::link::lock;
use super::{Engine, Inner};
use crate::layout::{FAILURES, count_failures};
use crate::protocol::Capabilities;
use crate::trusted::DirFacts;

/// With less free space than this, the disk of the state directory counts as full.
pub const LOW_DISK_BYTES: u64 = 4 << 20;
/// With fewer free inodes.
const LOW_DISK_INODES: u64 = 16;
/// How long the loss of a supervisor is a problem. It is counted for longer.
const RECENT: Duration = Duration::from_secs(15 * 60);

/// What works on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// How sessions drive bash: `loaded`, `portable`, or `none` if there is no bash.
    pub shell_driver: String,
    /// Why it is not the loaded driver.
    pub shell_driver_reason: Option<String>,
    /// What cgroups are used for.
    pub cgroups: String,
    /// The version of Landlock that the kernel has.
    pub landlock: Option<u32>,
    /// Executions that have not ended.
    pub running: usize,
    /// Sessions.
    pub sessions: usize,
    /// Supervisors that are ready for a command or a session.
    pub ready: usize,
    /// As whom commands run; `None` for the engine's own user.
    pub run_as: Option<String>,
    /// The state directory, as it is now.
    pub state_dir: DirFacts,
    /// Supervisors that died without being told to, or were given up because a command has lowered their limits, since the
    /// engine was opened.
    pub lost_supervisors: u64,
    /// Sessions whose shell was brought back, since the engine was opened.
    pub restored_sessions: u64,
    /// Lines in the log of supervisors that failed, also before the engine was opened.
    pub logged_failures: u64,
    /// What is wrong, worst first.
    pub problems: Vec<Problem>,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its name, which does not change.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub suggestion: String,
}

/// What has gone wrong since the engine was opened.
#[derive(Debug, Default)]
pub(super) struct Incidents {
    lost_supervisors: AtomicU64,
    restored_sessions: AtomicU64,
    last_lost: Mutex<Option<Instant>>,
}

impl Incidents {
    /// A supervisor died without being told to.
    pub(super) fn supervisor_lost(&self, nonce: u64, executions: usize) {
        self.lost_supervisors.fetch_add(1, Ordering::Relaxed);
        *lock(&self.last_lost) = Some(Instant::now());
        tracing::warn!(
            supervisor = format_args!("{nonce:012x}"),
            executions,
            "a supervisor died; {FAILURES} in the state directory may say why"
        );
    }

    /// A supervisor was given up because a command has lowered its limits.
    pub(super) fn supervisor_given_up(&self, nonce: u64) {
        self.lost_supervisors.fetch_add(1, Ordering::Relaxed);
        *lock(&self.last_lost) = Some(Instant::now());
        tracing::warn!(
            supervisor = format_args!("{nonce:012x}"),
            "a command has lowered resource limits of its supervisor, which is given up"
        );
    }

    /// The shell of a session was brought back.
    pub(super) fn session_restored(&self) {
        self.restored_sessions.fetch_add(1, Ordering::Relaxed);
    }
}

impl Engine {
    /// What works on this machine, and what is wrong. Asks the file system.
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
            state_dir: state.dir.facts(),
            lost_supervisors: incidents.lost_supervisors.load(Ordering::Relaxed),
            restored_sessions: incidents.restored_sessions.load(Ordering::Relaxed),
            logged_failures: count_failures(&state.dir),
            problems: Vec::new(),
        };
        let lost_recently = lock(&incidents.last_lost).is_some_and(|last| last.elapsed() < RECENT);
        health.problems = problems(&health, &state.path.display().to_string(), lost_recently);
        health
    }
}

fn problems(health: &Health, path: &str, lost_recently: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |code, message: String, suggestion: String| {
        problems.push(Problem { code, message, suggestion });
    };
    let DirFacts { is_there, free_bytes, free_inodes } = health.state_dir;
    if !is_there {
        let message = format!("the state directory {path} was removed or replaced; nothing can be started");
        add("state_directory_missing", message, "restart the server".into());
    }
    if free_bytes < LOW_DISK_BYTES || free_inodes.is_some_and(|free| free < LOW_DISK_INODES) {
        let message = format!("the disk of the state directory {path} is full: {free_bytes} bytes are free");
        let suggestion =
            "free space there, delete finished processes (POST /api/process/cleanup), or lower retention";
        add("disk_full", message, suggestion.into());
    }
    if health.shell_driver == "none" {
        let message = "there is no bash, so there are no sessions".into();
        add("no_shell", message, "install bash".into());
    } else if let Some(reason) = &health.shell_driver_reason {
        let message = format!("shells use the {} driver, which is slower: {reason}", health.shell_driver);
        add("driver_fallback", message, "use a bash (4.4 or newer) that can load objects".into());
    }
    if lost_recently {
        let message = format!(
            "{} supervisors have died or were given up since the server started",
            health.lost_supervisors
        );
        let suggestion = format!(
            "see {path}/{FAILURES} and the kernel's log: a process may have been killed for want of memory, \
             or a command may have lowered limits of its supervisor"
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
            state_dir: DirFacts { is_there: true, free_bytes: 1 << 40, free_inodes: None },
            lost_supervisors: 0,
            restored_sessions: 0,
            logged_failures: 0,
            problems: Vec::new(),
        }
    }

    #[test]
    fn each_problem_has_its_name() {
        let codes = |health: &Health, lost| {
            problems(health, "/state", lost).iter().map(|problem| problem.code).collect::<Vec<_>>()
        };
        let well = health();
        assert!(codes(&well, false).is_empty());
        assert_eq!(codes(&well, true), ["supervisors_lost"]);
        let mut ill = health();
        ill.state_dir = DirFacts { is_there: false, free_bytes: 0, free_inodes: Some(0) };
        ill.shell_driver_reason = Some("it is static".into());
        assert_eq!(codes(&ill, false), ["state_directory_missing", "disk_full", "driver_fallback"]);
        ill.state_dir = DirFacts { is_there: true, free_bytes: 1 << 40, free_inodes: Some(0) };
        ill.shell_driver = "none".into();
        assert_eq!(codes(&ill, false), ["disk_full", "no_shell"]);
    }
}
