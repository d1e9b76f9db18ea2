//! [`Terminals`]: the state of terminals in the memory of the server. A restart loses nothing of value: viewers connect again.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sandcrab_engine::{ExecutionId, Terminal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::hub::Hub;

/// Maximum memory of all emulators, by estimate. When it is reached, requests wait for a free share.
pub(crate) const MAX_EMULATOR_BYTES: usize = 256 << 20;
/// Maximum memory of all repaints that wait for their viewers. When it is reached, further repaints wait.
pub(crate) const MAX_REPAINTS_BYTES: usize = 64 << 20;
/// Maximum number of searches for a regular expression at a time. Further ones wait.
pub(crate) const MAX_SEARCHES: usize = 4;
/// The unit in which memory is shared.
const UNIT_BYTES: usize = 64 << 10;

/// The terminals that are in use. A handle.
#[derive(Debug, Clone)]
pub(crate) struct Terminals(Arc<State>);

#[derive(Debug)]
struct State {
    hubs: Mutex<HashMap<ExecutionId, Weak<Hub>>>,
    /// The titles of ended terminals that were listed, by incarnation.
    ended_titles: Mutex<HashMap<String, String>>,
    emulators: Arc<Semaphore>,
    repaints: Arc<Semaphore>,
    searches: Arc<Semaphore>,
}

impl Default for Terminals {
    fn default() -> Self {
        Self(Arc::new(State {
            hubs: Mutex::default(),
            ended_titles: Mutex::default(),
            emulators: Arc::new(Semaphore::new(MAX_EMULATOR_BYTES / UNIT_BYTES)),
            repaints: Arc::new(Semaphore::new(MAX_REPAINTS_BYTES / UNIT_BYTES)),
            searches: Arc::new(Semaphore::new(MAX_SEARCHES)),
        }))
    }
}

impl Terminals {
    fn hubs(&self) -> MutexGuard<'_, HashMap<ExecutionId, Weak<Hub>>> {
        self.0.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hub of a terminal, and whether it is new.
    pub(super) fn hub(&self, terminal: &Terminal) -> (Arc<Hub>, bool) {
        let mut hubs = self.hubs();
        let known = hubs.get(terminal.id()).and_then(Weak::upgrade);
        // The id may belong to another terminal now.
        if let Some(hub) = known.filter(|hub| hub.is_of(terminal)) {
            return (hub, false);
        }
        if hubs.len() == hubs.capacity() {
            hubs.retain(|_, hub| hub.strong_count() > 0);
        }
        let hub = Arc::new(Hub::new(terminal.clone(), self.clone()));
        hubs.insert(terminal.id().clone(), Arc::downgrade(&hub));
        (hub, true)
    }

    /// The hub of a terminal, if it is in use.
    pub(crate) fn find(&self, terminal: &Terminal) -> Option<Arc<Hub>> {
        self.hubs().get(terminal.id()).and_then(Weak::upgrade).filter(|hub| hub.is_of(terminal))
    }

    /// The title of an ended terminal, if it was read before.
    pub(crate) fn ended_title(&self, terminal: &Terminal) -> Option<String> {
        self.ended_titles().get(&terminal.incarnation()).cloned()
    }

    /// Stores the title of an ended terminal, which does not change any more.
    pub(crate) fn remember_title(&self, terminal: &Terminal, title: String) {
        self.ended_titles().insert(terminal.incarnation(), title);
    }

    /// Removes the titles of all other terminals than these.
    pub(crate) fn keep_titles(&self, terminals: &[Terminal]) {
        let kept: HashSet<_> = terminals.iter().map(Terminal::incarnation).collect();
        self.ended_titles().retain(|incarnation, _| kept.contains(incarnation));
    }

    fn ended_titles(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.0.ended_titles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the memory of an emulator. Emulators that only linger are dropped first.
    pub(super) async fn emulator_memory(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = units(bytes, MAX_EMULATOR_BYTES);
        let semaphore = Arc::clone(&self.0.emulators);
        if let Ok(permit) = Arc::clone(&semaphore).try_acquire_many_owned(units) {
            return Some(permit);
        }
        let hubs: Vec<_> = self.hubs().values().filter_map(Weak::upgrade).collect();
        for hub in hubs {
            hub.drop_idle_emulator();
        }
        // Never closed.
        semaphore.acquire_many_owned(units).await.ok()
    }

    /// Adds memory that an emulator needs, so that it has this much. Returns whether it has enough now.
    pub(super) fn grow_emulator_memory(&self, memory: &mut OwnedSemaphorePermit, bytes: usize) -> bool {
        let units = units(bytes, MAX_EMULATOR_BYTES) as usize;
        let missing = u32::try_from(units.saturating_sub(memory.num_permits())).unwrap_or(u32::MAX);
        // Waiting with memory in use would block others that do the same.
        let more = Arc::clone(&self.0.emulators).try_acquire_many_owned(missing);
        more.map(|more| memory.merge(more)).is_ok()
    }

    /// Waits until one more search may run, and counts it until the permit is dropped.
    pub(super) async fn search_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.searches).acquire_owned().await.ok()
    }

    /// Waits for the memory of a repaint of at most this size.
    pub(super) async fn repaint_memory(&self, bytes: usize) -> Option<RepaintMemory> {
        let units = units(bytes, MAX_REPAINTS_BYTES);
        let permit = Arc::clone(&self.0.repaints).acquire_many_owned(units).await.ok()?;
        Some(RepaintMemory(permit))
    }
}

/// The memory of a repaint; free again when this is dropped.
#[derive(Debug)]
pub(super) struct RepaintMemory(OwnedSemaphorePermit);

impl RepaintMemory {
    /// Gives back what a repaint of this size does not need.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let needed = units(bytes, MAX_REPAINTS_BYTES) as usize;
        drop(self.0.split(self.0.num_permits().saturating_sub(needed)));
    }
}

fn units(bytes: usize, most: usize) -> u32 {
    u32::try_from(bytes.min(most).div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use sandcrab_engine::TerminalSize;

    use super::super::emulator::memory_estimate;
    use super::*;

    #[tokio::test]
    async fn emulators_that_grow_share_the_memory() {
        let terminals = Terminals::default();
        let [small, large] = [1, 1000].map(|side| memory_estimate(TerminalSize { cols: side, rows: side }));
        let mut memory = Vec::new();
        for _ in 0..10 {
            memory.push(terminals.emulator_memory(small).await.unwrap());
        }
        let grown = memory
            .iter_mut()
            .filter_map(|memory| terminals.grow_emulator_memory(memory, large).then_some(()));
        let most = MAX_EMULATOR_BYTES / large;
        assert_eq!(grown.count(), most);
        // One that has enough stays as it is.
        assert!(terminals.grow_emulator_memory(&mut memory[0], small));
        assert_eq!(memory[0].num_permits(), units(large, MAX_EMULATOR_BYTES) as usize);
        drop(memory.remove(0));
        assert!(terminals.grow_emulator_memory(&mut memory[8], large));
    }
}
