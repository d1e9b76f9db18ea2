//! [`Place`]: a state directory that leaves nothing behind.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sandcrab_engine::{Engine, EngineConfig, OpenError, SupervisorProgram};

use super::processes::{self, Seen};
use super::{POLL_INTERVAL, TEST_TIMEOUT, cgroups};

/// A state directory. When it goes, everything that was started in it goes first, whether the test
/// has passed or not: processes, and the cgroups of supervisors.
#[derive(Debug)]
pub(crate) struct Place {
    dir: tempfile::TempDir,
    /// Supervisors that there were before: after a reboot an engine forgets them.
    earlier: RefCell<BTreeSet<u64>>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), earlier: RefCell::default() }
    }

    /// The state directory.
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// A file beside the state directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// The lines of such a file.
    pub(crate) fn lines(&self, name: &str) -> usize {
        std::fs::read_to_string(self.file(name)).unwrap_or_default().lines().count()
    }

    /// The configuration of an engine here.
    pub(crate) fn config(&self) -> EngineConfig {
        config(self.state())
    }

    /// Opens an engine here; the one before it may still be closing.
    pub(crate) async fn open(&self) -> Engine {
        self.open_with(|_| ()).await
    }

    /// Opens an engine here with changes to the defaults.
    pub(crate) async fn open_with(&self, change: impl FnOnce(&mut EngineConfig)) -> Engine {
        self.remember_supervisors();
        let mut config = self.config();
        change(&mut config);
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            match Engine::open(config.clone()).await {
                Ok(engine) => return engine,
                Err(OpenError::InUse { .. }) if Instant::now() < deadline => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                Err(e) => panic!("{e}"),
            }
        }
    }

    /// The zygotes and supervisors of this state directory.
    pub(crate) fn own_processes(&self) -> Vec<Seen> {
        let state = self.state();
        let is_own = |seen: &Seen| {
            let line = seen.command_line();
            let mut words = line.split(|byte| *byte == 0);
            words.next() == Some(b"sandcrab-zygote") && words.next() == Some(state.as_os_str().as_bytes())
        };
        processes::younger().filter(is_own).collect()
    }

    /// The supervisors of this state directory, without the zygote.
    pub(crate) fn supervisors(&self) -> Vec<Seen> {
        self.own_processes().into_iter().filter(|seen| seen.name() == "sandcrab-super").collect()
    }

    /// The zygote of the engine that is open.
    pub(crate) fn zygotes(&self) -> Vec<Seen> {
        self.own_processes().into_iter().filter(|seen| seen.name() == "sandcrab-zygote").collect()
    }

    /// How many files a folder of the state directory holds.
    pub(crate) fn count(&self, folder: &str) -> usize {
        std::fs::read_dir(self.state().join(folder)).map_or(0, Iterator::count)
    }

    /// Has to be called before the state directory goes away, and before an engine is opened that may forget
    /// supervisors of a boot before it.
    pub(crate) fn remember_supervisors(&self) {
        self.earlier.borrow_mut().extend(self.nonces());
    }

    /// The numbers that name the supervisors, after which their sockets are called.
    pub(crate) fn nonces(&self) -> BTreeSet<u64> {
        let entries = std::fs::read_dir(self.state().join("supervisors")).into_iter().flatten().flatten();
        entries.filter_map(|entry| u64::from_str_radix(entry.file_name().to_str()?, 16).ok()).collect()
    }
}

/// Makes the state directory one of another boot.
pub(crate) fn pretend_reboot(place: &Place) {
    let lock = place.state().join("lock");
    let text = std::fs::read_to_string(&lock).unwrap();
    assert!(text.starts_with("boot "));
    std::fs::write(&lock, text.replacen("boot ", "boot 0", 1)).unwrap();
}

/// The configuration of an engine on a state directory, with the supervisor of this build.
pub(super) fn config(state: PathBuf) -> EngineConfig {
    let mut config = EngineConfig::new(state);
    config.supervisor = SupervisorProgram::At(env!("CARGO_BIN_EXE_sandcrab-supervisor").into());
    config
}

/// The cgroups of these supervisors.
pub(crate) fn cgroups_of(nonces: &BTreeSet<u64>) -> Vec<PathBuf> {
    let found = cgroups::with_prefix("sandcrab-");
    let is_own = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        nonces.iter().any(|nonce| name.starts_with(&format!("sandcrab-{nonce:011x}-")))
    };
    found.into_iter().filter(is_own).collect()
}

/// Removes a directory, in several attempts: a thread of the engine may create a file meanwhile.
fn remove(directory: &Path) {
    for _ in 0..200 {
        if std::fs::remove_dir_all(directory).is_ok() || !directory.exists() {
            return;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut nonces = self.earlier.take();
        let mut known = BTreeSet::new();
        loop {
            nonces.extend(self.nonces());
            known.extend(self.own_processes());
            let is_below = |seen: &Seen| known.iter().any(|above| seen.parent() == Some(above.pid));
            let below: Vec<_> = processes::younger()
                .filter(|seen| is_below(seen) || seen.tag().is_some_and(|nonce| nonces.contains(&nonce)))
                .collect();
            known.extend(below);
            known.retain(|seen| seen.is_alive());
            known.iter().for_each(|seen| seen.kill());
            let left = if nonces.is_empty() { Vec::new() } else { cgroups_of(&nonces) };
            if known.is_empty() && left.is_empty() {
                return remove(self.dir.path());
            }
            left.iter().for_each(|path| cgroups::remove(path));
            if Instant::now() > deadline {
                assert!(std::thread::panicking(), "these cannot be removed: {known:?} {left:?}");
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
