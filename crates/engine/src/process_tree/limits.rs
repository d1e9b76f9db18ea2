//! Enforces [`Limits`], by a cgroup or by resource limits.

use std::io;

use rustix::process::Pid;

use super::cgroup::{Cgroups, Support};
use crate::command::Limits;
use crate::sys::{self, LimitValue, Resource};

/// Why limits cannot be enforced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum LimitError {
    /// A limit of zero, with which no program could run.
    #[error("a limit of 0 for {what} is invalid; omit it for no limit")]
    Zero {
        /// The limit.
        what: &'static str,
    },
    /// A number beyond the kernel's maximum.
    #[error("{value} is too large for {what}; the maximum is {most}, omit it for no limit")]
    TooLarge {
        /// The limit.
        what: &'static str,
        /// The requested value.
        value: u64,
        /// The maximum.
        most: u64,
    },
    /// A number with which no program can start.
    #[error("{value} is too small for {what}; the minimum is {least}")]
    TooSmall {
        /// The limit.
        what: &'static str,
        /// The requested value.
        value: u64,
        /// The minimum.
        least: u64,
    },
    /// Processes of root are counted only by cgroups.
    #[error(
        "a limit of processes requires a writable cgroup with the pids controller, because the kernel exempts root from \
         the limit by user; run commands as another user, provide such a cgroup, or omit the limit"
    )]
    ProcessesOfRoot,
    /// The kernel refused it.
    #[error("the kernel refused the limit for {what}")]
    Refused {
        /// The limit.
        what: &'static str,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
}

/// Signed in the kernel and in many C programs.
const MOST_BYTES: u64 = i64::MAX as u64;
/// The kernel's own limit of process ids (PID_MAX_LIMIT).
const MOST_PROCESSES: u64 = 4 << 20;
const MOST_SECONDS: u64 = u32::MAX as u64;
/// The three standard streams, and one for the loader, which opens libraries one by one.
pub(crate) const LEAST_OPEN_FILES: u64 = 4;
/// A running shell receives a command's descriptors under its limits, and needs some of its own.
const SHELL_OPEN_FILES: u64 = 16;

/// One resource limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    resource: Resource,
    what: &'static str,
    soft: u64,
    hard: u64,
}

impl Rule {
    /// The limit for a process, or for this one. A stricter existing limit is kept: raising it needs privileges.
    fn value_for(&self, pid: Option<Pid>) -> io::Result<LimitValue> {
        let (_, most) = sys::limit(pid, self.resource)?;
        Ok(LimitValue { resource: self.resource, soft: self.soft.min(most), hard: self.hard.min(most) })
    }
}

/// How limits are enforced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    rules: Vec<Rule>,
    /// The limits that need a cgroup, for [`Cgroups::create`].
    pub(crate) in_cgroup: Limits,
}

/// Decides how limits are enforced, without system calls.
pub(crate) fn plan(limits: &Limits, cgroups: &Cgroups, is_root: bool) -> Result<Plan, LimitError> {
    let Support { memory: memory_cgroup, processes: pids_cgroup, .. } = cgroups.support();
    let Limits { memory_bytes, cpu_seconds, processes, open_files, file_size_bytes, output_bytes: _ } =
        *limits;
    let mut plan = Plan::default();
    if let Some(bytes) = checked("memory", memory_bytes, 1, MOST_BYTES)? {
        if memory_cgroup {
            plan.in_cgroup.memory_bytes = Some(bytes);
        } else {
            plan.rule(Resource::AddressSpace, "memory", bytes, bytes);
        }
    }
    if let Some(seconds) = checked("CPU seconds", cpu_seconds, 1, MOST_SECONDS)? {
        // SIGXCPU at the limit; a program that survives it is killed a second later.
        plan.rule(Resource::Cpu, "CPU seconds", seconds, seconds + 1);
    }
    if let Some(count) = checked("processes", processes, 1, MOST_PROCESSES)? {
        if pids_cgroup {
            plan.in_cgroup.processes = Some(count);
        } else if is_root {
            return Err(LimitError::ProcessesOfRoot);
        } else {
            plan.rule(Resource::Processes, "processes", count, count);
        }
    }
    if let Some(count) = checked("open files", open_files, 1, MOST_BYTES)? {
        if count < LEAST_OPEN_FILES {
            return Err(LimitError::TooSmall { what: "open files", value: count, least: LEAST_OPEN_FILES });
        }
        plan.rule(Resource::OpenFiles, "open files", count, count);
    }
    // Zero is valid here: a command that writes no file.
    if let Some(bytes) = checked("file size", file_size_bytes, 0, MOST_BYTES)? {
        plan.rule(Resource::FileSize, "file size", bytes, bytes);
    }
    Ok(plan)
}

fn checked(what: &'static str, value: Option<u64>, least: u64, most: u64) -> Result<Option<u64>, LimitError> {
    match value {
        Some(value) if value < least => Err(LimitError::Zero { what }),
        Some(value) if value > most => Err(LimitError::TooLarge { what, value, most }),
        value => Ok(value),
    }
}

impl Plan {
    fn rule(&mut self, resource: Resource, what: &'static str, soft: u64, hard: u64) {
        self.rules.push(Rule { resource, what, soft, hard });
    }

    /// Whether a running shell can run a command under these limits.
    pub(crate) fn suits_running_shell(&self) -> bool {
        self.rules.iter().all(|rule| rule.resource != Resource::OpenFiles || rule.soft >= SHELL_OPEN_FILES)
    }

    /// Whether a cgroup is needed.
    pub(crate) fn needs_cgroup(&self) -> bool {
        self.in_cgroup.any_kernel_limit()
    }

    /// The resource limits of a process that this one forks.
    pub(crate) fn limit_values(&self) -> io::Result<Vec<LimitValue>> {
        self.rules.iter().map(|rule| rule.value_for(None)).collect()
    }

    /// Sets the resource limits of a child of this process, a shell that waits for its command. They cannot be
    /// reverted without privileges.
    pub(crate) fn apply_to(&self, pid: Pid) -> Result<(), LimitError> {
        self.rules.iter().try_for_each(|rule| {
            let set = || {
                let LimitValue { resource, soft, hard } = rule.value_for(Some(pid))?;
                sys::set_limit(Some(pid), resource, soft, hard)
            };
            set().map_err(|source| LimitError::Refused { what: rule.what, source })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_CGROUP: Support = Support { kill: false, memory: false, processes: false };
    const CGROUP: Support = Support { kill: true, memory: true, processes: true };

    fn plan_for(limits: &Limits, support: Support, is_root: bool) -> Result<Plan, LimitError> {
        plan(limits, &Cgroups::pretend(support), is_root)
    }

    #[test]
    fn cgroups_enforce_supported_limits() {
        let limits = Limits { memory_bytes: Some(1 << 20), processes: Some(5), ..Limits::default() };
        let plan = plan_for(&limits, CGROUP, true).unwrap();
        assert!(plan.needs_cgroup() && plan.rules.is_empty());
        let plan = plan_for(&limits, NO_CGROUP, false).unwrap();
        assert!(!plan.needs_cgroup());
        let resources = plan.rules.iter().map(|rule| rule.resource).collect::<Vec<_>>();
        assert_eq!(resources, [Resource::AddressSpace, Resource::Processes]);
    }

    #[test]
    fn unenforceable_limits_are_refused() {
        let limits = Limits { processes: Some(5), ..Limits::default() };
        let error = plan_for(&limits, NO_CGROUP, true).unwrap_err();
        assert!(matches!(error, LimitError::ProcessesOfRoot));
        assert!(error.to_string().contains("run commands as another user"));
        let limits = Limits { memory_bytes: Some(0), ..Limits::default() };
        assert!(matches!(plan_for(&limits, CGROUP, true), Err(LimitError::Zero { what: "memory" })));
        let limits = Limits { cpu_seconds: Some(u64::MAX), ..Limits::default() };
        assert!(matches!(plan_for(&limits, CGROUP, true), Err(LimitError::TooLarge { .. })));
        assert_eq!(plan_for(&Limits::default(), NO_CGROUP, true).unwrap(), Plan::default());
    }

    #[test]
    fn limits_reach_a_waiting_child_and_never_loosen() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let limits = |files| Limits { open_files: Some(files), cpu_seconds: Some(9), ..Limits::default() };
        plan_for(&limits(20), NO_CGROUP, true).unwrap().apply_to(pid).unwrap();
        assert_eq!(sys::limit(Some(pid), Resource::OpenFiles).unwrap(), (20, 20));
        assert_eq!(sys::limit(Some(pid), Resource::Cpu).unwrap(), (9, 10));
        plan_for(&limits(30), NO_CGROUP, true).unwrap().apply_to(pid).unwrap();
        assert_eq!(sys::limit(Some(pid), Resource::OpenFiles).unwrap(), (20, 20));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
