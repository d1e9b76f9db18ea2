//! [`Context`]: settings and resources that every supervisor inherits from its zygote.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::command::Limits;
use crate::layout::Folders;
use crate::process_tree::{CgroupChoice, Cgroups, Nonce, OomCounter};
use crate::protocol::{Bytes, Capabilities, CgroupSetting, DriverChoice, Settings, Variable};
use crate::shell::{self, Driver};
use crate::sys;
use crate::user::User;

/// Settings and resources that every supervisor inherits from its zygote.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) folders: Folders,
    /// Hangs up when the engine that started the zygote exits.
    pub(crate) lifeline: OwnedFd,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
    pub(crate) open_files: Option<u64>,
    /// Default user of commands.
    pub(crate) user: Option<User>,
    /// The key that an engine must present.
    pub(crate) key: Option<Bytes>,
    /// The directory to remove when the engine has exited, with everything that runs.
    pub(crate) temporary: Option<PathBuf>,
    pub(crate) bash: Option<PathBuf>,
    pub(crate) driver: Option<Driver>,
    pub(crate) cgroups: Cgroups,
    /// Whether processes can be forked into a new cgroup.
    pub(crate) fork_into_cgroup: bool,
    /// Counts out-of-memory kills in the cgroup of this process.
    oom_counter: Option<OomCounter>,
}

impl Context {
    pub(crate) fn new(folders: Folders, lifeline: OwnedFd) -> Self {
        Self {
            folders,
            lifeline,
            env: Vec::new(),
            cwd: PathBuf::from("/"),
            open_files: None,
            user: None,
            key: None,
            temporary: None,
            bash: None,
            driver: None,
            cgroups: Cgroups::detect(CgroupChoice::Off),
            fork_into_cgroup: false,
            oom_counter: Cgroups::ambient_oom_kills(),
        }
    }

    /// Number of out-of-memory kills so far in the cgroup of this process.
    pub(crate) fn oom_kills(&self) -> u64 {
        self.oom_counter.as_ref().and_then(OomCounter::read).unwrap_or(0)
    }

    /// Applies new settings, and probes the capabilities that they need.
    pub(crate) fn configure(&mut self, settings: Settings) -> Capabilities {
        self.env = apply(Vec::new(), &settings.env);
        self.cwd = OsString::from(settings.cwd).into();
        self.open_files = settings.open_files;
        self.user = settings.user;
        self.key = settings.key;
        self.temporary = settings.temporary.map(|directory| OsString::from(directory).into());
        self.cgroups = Cgroups::detect(match settings.cgroups {
            CgroupSetting::Auto => CgroupChoice::Auto,
            CgroupSetting::Off => CgroupChoice::Off,
            CgroupSetting::V1 => CgroupChoice::V1,
            CgroupSetting::V2 => CgroupChoice::V2,
        });
        self.fork_into_cgroup = can_fork_into(&self.cgroups).unwrap_or(false);
        self.bash = shell::find_bash();
        if let Some(bash) = &self.bash {
            started_as(&mut self.env, bash);
        }
        let mut reason = None;
        self.driver = self.bash.as_deref().map(|bash| match settings.driver {
            DriverChoice::Portable => Driver::Portable,
            DriverChoice::Loaded => Driver::Loaded,
            DriverChoice::Auto => {
                let (driver, why) = shell::probe(bash);
                reason = why;
                driver
            }
        });
        Capabilities {
            bash: self.bash.as_ref().map(|p| p.as_os_str().into()),
            driver: self.driver.map_or("none", Driver::as_str).into(),
            driver_reason: reason,
            cgroups: self.cgroups.describe().map(|(purpose, place)| format!("{purpose}: {place}")).join("; "),
        }
    }
}

/// Tests whether a process that is forked into a new cgroup survives. It does not if our own cgroup was ever killed:
/// the kernel compares the kill counts of both cgroups.
fn can_fork_into(cgroups: &Cgroups) -> io::Result<bool> {
    let mut cgroup = cgroups.create(Nonce::random(), "probe", &Limits::default())?;
    let Some(place) = cgroup.fork_target() else {
        drop(cgroup.remove());
        return Ok(false);
    };
    let is_possible = sys::lives_in(place.as_fd())?;
    // It is empty in a moment; if that takes too long, it is removed together with the next supervisor's.
    for _ in 0..20 {
        if cgroup.remove().is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Ok(is_possible)
}

/// Sets `_` in an environment to the program that is started, as a shell does, if `_` is set. Its previous value
/// names the server.
pub(crate) fn started_as(env: &mut [(OsString, OsString)], program: &Path) {
    if let Some((_, value)) = env.iter_mut().find(|(name, _)| name == "_") {
        *value = program.into();
    }
}

/// Applies changes to an environment; later ones win.
pub(crate) fn apply(mut env: Vec<(OsString, OsString)>, changes: &[Variable]) -> Vec<(OsString, OsString)> {
    for Variable { name, value } in changes {
        let name = OsString::from_vec(name.0.clone());
        env.retain(|(n, _)| *n != name);
        if let Some(value) = value {
            env.push((name, OsString::from_vec(value.0.clone())));
        }
    }
    env
}
