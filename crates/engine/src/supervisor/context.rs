//! What every supervisor inherits from its zygote.

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

/// What every supervisor inherits from its zygote.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) folders: Folders,
    /// Hangs up when the engine that started the zygote is gone.
    pub(crate) lifeline: OwnedFd,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
    pub(crate) open_files: Option<u64>,
    /// As whom commands run that name no user.
    pub(crate) user: Option<User>,
    /// What an engine has to know to be served.
    pub(crate) key: Option<Bytes>,
    pub(crate) bash: Option<PathBuf>,
    pub(crate) driver: Option<Driver>,
    pub(crate) cgroups: Cgroups,
    /// Whether processes can be forked into a new cgroup.
    pub(crate) fork_into_cgroup: bool,
    /// Counts what the kernel killed for want of memory in the cgroup we are in.
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
            bash: None,
            driver: None,
            cgroups: Cgroups::detect(CgroupChoice::Off),
            fork_into_cgroup: false,
            oom_counter: Cgroups::ambient_oom_kills(),
        }
    }

    /// What the kernel has killed for want of memory in the cgroup we are in, so far.
    pub(crate) fn oom_kills(&self) -> u64 {
        self.oom_counter.as_ref().and_then(OomCounter::read).unwrap_or(0)
    }

    /// Takes new settings, probing the machine for what they ask.
    pub(crate) fn configure(&mut self, settings: Settings) -> Capabilities {
        self.env = apply(Vec::new(), &settings.env);
        self.cwd = OsString::from(settings.cwd).into();
        self.open_files = settings.open_files;
        self.user = settings.user;
        self.key = settings.key;
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

/// Tries whether a process that is forked into a new cgroup lives. It does not if the cgroup we are in was ever
/// killed: the kernel compares the two cgroups' counts of kills.
fn can_fork_into(cgroups: &Cgroups) -> io::Result<bool> {
    let mut cgroup = cgroups.create(Nonce::random(), "probe", &Limits::default())?;
    let Some(place) = cgroup.fork_target() else {
        drop(cgroup.remove());
        return Ok(false);
    };
    let is_possible = sys::lives_in(place.as_fd())?;
    // It is empty in a moment; if that comes too late, it is swept with the next supervisor's.
    for _ in 0..20 {
        if cgroup.remove().is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Ok(is_possible)
}

/// Says in an environment that has `_`, as one from a shell has, which program is started with it. What is there names the
/// program that was started with it before: the server.
pub(crate) fn started_as(env: &mut [(OsString, OsString)], program: &Path) {
    if let Some((_, value)) = env.iter_mut().find(|(name, _)| name == "_") {
        *value = program.into();
    }
}

/// An environment with changes made to it; later ones win.
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
