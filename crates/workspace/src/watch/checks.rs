//! [`Checks`]: whether a directory has changed since a version, without a stream.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::options::{WatchError, WatchOptions};
use super::tree::Tree;

/// Maximum number of directories whose versions are kept. Beyond it, the one that was not asked for longest is dropped.
pub const MAX_CHECKS: usize = 32;

/// Versions are dropped when nothing asked for them for this time.
pub const CHECK_IDLE_TIMEOUT: Duration = Duration::from_mins(10);

/// Maximum number of reads of one check: more than the queue of the kernel holds.
const MAX_READS: usize = 16;

/// Whether a directory has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckStatus {
    /// It has not changed since the version.
    Unchanged,
    /// It has changed since the version.
    Changed,
    /// Unknown: the version is of another server process.
    Restarted,
    /// Unknown: the version was dropped.
    Expired,
}

/// The answer of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// Whether the directory has changed.
    pub status: CheckStatus,
    /// The version for the next check.
    pub version: String,
}

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The directory cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The version was not returned by a check.
    #[error("not a valid version; expected one that an earlier check returned")]
    InvalidVersion,
}

/// The versions of directories. They need no thread: the kernel queues changes until the next check.
#[derive(Debug)]
pub struct Checks {
    started_ms: u64,
    next_id: AtomicU64,
    kept: Mutex<HashMap<Key, VersionEntry>>,
}

/// The directory, the options, and the user and group whose permissions the watch has.
type Key = (PathBuf, WatchOptions, u32, u32);

#[derive(Debug)]
struct VersionEntry {
    asked: Instant,
    state: Arc<Mutex<State>>,
}

/// A watched directory.
#[derive(Debug)]
struct State {
    id: String,
    tree: Tree,
    /// Number of changes so far.
    changes: u64,
}

impl Default for Checks {
    fn default() -> Self {
        Self::new()
    }
}

impl Checks {
    /// No versions.
    pub fn new() -> Self {
        Self { started_ms: now_ms(), next_id: AtomicU64::new(1), kept: Mutex::default() }
    }

    /// A new id of a watch, unique also across restarts.
    pub fn new_id(&self) -> String {
        format!("watch-{}-{}", self.next_id.fetch_add(1, Ordering::Relaxed), now_ms())
    }

    /// Compares a directory with a version of it. Without a version, it is unchanged.
    pub fn check(
        &self,
        root: &Path,
        options: &WatchOptions,
        since: Option<&str>,
    ) -> Result<CheckResult, CheckError> {
        let since = since.map(|version| parse(version).ok_or(CheckError::InvalidVersion)).transpose()?;
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let key = (root.to_owned(), options.clone(), uid, gid);
        let kept = match self.find(&key) {
            Some(kept) => kept,
            None => {
                // Before it takes the place of another one: it may fail.
                let tree = Tree::open(root, options)?;
                self.keep(&key, State { id: self.new_id(), tree, changes: 0 })
            }
        };
        let mut state = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = refresh(&mut state, root) {
            self.forget(&key, &kept);
            return Err(error.into());
        }
        let version = format!("{}:{}", state.id, state.changes);
        let status = match since {
            None => CheckStatus::Unchanged,
            Some((id, changes)) if id == state.id => match changes.cmp(&state.changes) {
                std::cmp::Ordering::Equal => CheckStatus::Unchanged,
                std::cmp::Ordering::Less => CheckStatus::Changed,
                std::cmp::Ordering::Greater => return Err(CheckError::InvalidVersion),
            },
            Some((id, _)) if created_ms(id) < self.started_ms => CheckStatus::Restarted,
            Some(_) => CheckStatus::Expired,
        };
        Ok(CheckResult { status, version })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, VersionEntry>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a directory, if it is kept. Drops those that nothing has asked for.
    fn find(&self, key: &Key) -> Option<Arc<Mutex<State>>> {
        let mut kept = self.lock();
        let now = Instant::now();
        kept.retain(|_, kept| now.duration_since(kept.asked) < CHECK_IDLE_TIMEOUT);
        let kept = kept.get_mut(key)?;
        kept.asked = now;
        Some(Arc::clone(&kept.state))
    }

    /// Keeps the state of a directory, unless another check was faster.
    fn keep(&self, key: &Key, state: State) -> Arc<Mutex<State>> {
        let mut kept = self.lock();
        if !kept.contains_key(key)
            && kept.len() >= MAX_CHECKS
            && let Some(oldest) = kept.iter().min_by_key(|(_, kept)| kept.asked).map(|(key, _)| key.clone())
        {
            kept.remove(&oldest);
        }
        let new = || VersionEntry { asked: Instant::now(), state: Arc::new(Mutex::new(state)) };
        Arc::clone(&kept.entry(key.clone()).or_insert_with(new).state)
    }

    /// Drops a state that cannot continue.
    fn forget(&self, key: &Key, failed: &Arc<Mutex<State>>) {
        let mut kept = self.lock();
        if kept.get(key).is_some_and(|kept| Arc::ptr_eq(&kept.state, failed)) {
            kept.remove(key);
        }
    }
}

/// Counts the changes so far.
fn refresh(state: &mut State, root: &Path) -> Result<(), WatchError> {
    let mut events = Vec::new();
    for _ in 0..MAX_READS {
        if state.tree.read(&mut events)? == 0 {
            break;
        }
        state.changes += events.drain(..).count() as u64;
    }
    state.tree.check_root(&mut events)?;
    state.changes += events.len() as u64;
    state.tree.settle();
    if !state.tree.has_root() {
        // A directory that does not exist cannot be checked.
        std::fs::metadata(root).map_err(|e| crate::error::FileError::of(root, e))?;
    }
    Ok(())
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// The id and the number of changes of a version.
fn parse(version: &str) -> Option<(&str, u64)> {
    let (id, changes) = version.rsplit_once(':')?;
    let (number, created) = id.strip_prefix("watch-")?.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(number) && is_number(created) && is_number(changes)).then_some(())?;
    Some((id, changes.parse().ok()?))
}

/// The time at which the watch of an id was created.
fn created_ms(id: &str) -> u64 {
    id.rsplit_once('-').and_then(|(_, created)| created.parse().ok()).unwrap_or(0)
}
