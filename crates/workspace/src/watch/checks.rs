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
pub struct Checked {
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
    #[error("not a version that a check has returned")]
    InvalidVersion,
}

/// The versions of directories. They need no thread: the kernel queues changes until the next check.
#[derive(Debug)]
pub struct Checks {
    started_ms: u64,
    next_id: AtomicU64,
    kept: Mutex<HashMap<Key, Kept>>,
}

/// The directory, the options, and the user and group whose permissions the watch has.
type Key = (PathBuf, WatchOptions, u32, u32);

#[derive(Debug)]
struct Kept {
    asked: Instant,
    state: Arc<Mutex<Option<State>>>,
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
    ) -> Result<Checked, CheckError> {
        let since = since.map(|version| parse(version).ok_or(CheckError::InvalidVersion)).transpose()?;
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let key = (root.to_owned(), options.clone(), uid, gid);
        let state = self.state(&key);
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        // It is put back unless it fails.
        let refreshed = self.refresh(state.take(), root, options)?;
        let state = state.insert(refreshed);
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
        Ok(Checked { status, version })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of a directory, and drops those that are not needed.
    fn state(&self, key: &Key) -> Arc<Mutex<Option<State>>> {
        let mut kept = self.lock();
        let now = Instant::now();
        kept.retain(|_, kept| now.duration_since(kept.asked) < CHECK_IDLE_TIMEOUT);
        if !kept.contains_key(key)
            && kept.len() >= MAX_CHECKS
            && let Some(oldest) = kept.iter().min_by_key(|(_, kept)| kept.asked).map(|(key, _)| key.clone())
        {
            kept.remove(&oldest);
        }
        let kept = kept.entry(key.clone()).or_insert_with(|| Kept { asked: now, state: Arc::default() });
        kept.asked = now;
        Arc::clone(&kept.state)
    }

    /// Counts the changes so far.
    fn refresh(
        &self,
        state: Option<State>,
        root: &Path,
        options: &WatchOptions,
    ) -> Result<State, WatchError> {
        let mut state = match state {
            Some(state) => state,
            None => State { id: self.new_id(), tree: Tree::open(root, options)?, changes: 0 },
        };
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
            drop(std::fs::read_dir(root).map_err(|e| crate::error::FileError::of(root, e))?);
        }
        Ok(state)
    }
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
