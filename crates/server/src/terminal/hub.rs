//! [`Hub`]: what the viewers, waits and requests of one terminal share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandcrab_engine::{KeysGuard, ReadError, Terminal, TerminalSize};
use tokio::sync::{Notify, OwnedMutexGuard, OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::emulator::{AdvanceError, Emulator, Step, memory_estimate};
use super::terminals::Terminals;
use crate::error::ApiError;
use crate::summary::{READ_RETRY_INTERVAL, with_retries};

/// Time for which an emulator that is not in use is kept.
const LINGER: Duration = Duration::from_secs(10);
/// Number of bytes that are fed on a thread of the runtime. More would hold up other clients.
const QUICK_BYTES: usize = 64 << 10;
/// Number of cells of a screen that is repainted or wrapped again on a thread of the runtime.
const QUICK_CELLS: usize = 50_000;
/// Number of bytes that are fed at a time on a blocking thread.
const STEP_BYTES: usize = 1 << 20;
/// Number of bytes of answers to queries that may be sent at once, and per second afterwards. A program that asks and does not
/// read must not fill its own input queue.
const REPLY_BURST_BYTES: usize = 4 << 10;
const REPLY_BYTES_PER_SECOND: f64 = 512.0;

/// What the clients of one terminal share.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) terminal: Terminal,
    terminals: Terminals,
    viewers: Mutex<Viewers>,
    waits: AtomicUsize,
    /// Notified when viewers or waits come or go.
    pub(super) changed: Notify,
    /// The end of the output as last seen.
    position: watch::Sender<u64>,
    /// Queries before this cursor are answered, or will never be.
    answered: AtomicU64,
    /// Whether that cursor is known. Until then no query is answered, because it may be an old one.
    is_answering: AtomicBool,
    replies: Mutex<ReplyBudget>,
    /// Answers that are not sent yet. A task that sends takes all of them, so that they arrive in the order of the queries.
    unsent_replies: Mutex<Vec<u8>>,
    sending_replies: tokio::sync::Mutex<()>,
    /// The title as last known, and the cursor up to which output is part of it.
    title: Mutex<Option<(u64, String)>>,
    emulator: Arc<tokio::sync::Mutex<Option<Cached>>>,
    is_evicting: AtomicBool,
}

/// The attached viewers.
#[derive(Debug, Default)]
struct Viewers {
    next: u64,
    /// The cursor from which each receives raw output, and therefore answers queries itself.
    from: HashMap<u64, Option<u64>>,
    /// Number of viewers that only watch, and answer no queries.
    watchers: usize,
    /// The viewer that was attached or has typed last.
    leader: u64,
}

#[derive(Debug)]
struct Cached {
    emulator: Emulator,
    used: Instant,
    memory: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
struct ReplyBudget {
    bytes: f64,
    at: Instant,
}

impl Hub {
    pub(super) fn new(terminal: Terminal, terminals: Terminals) -> Self {
        Self {
            terminal,
            terminals,
            viewers: Mutex::default(),
            waits: AtomicUsize::new(0),
            changed: Notify::new(),
            position: watch::Sender::new(0),
            answered: AtomicU64::new(0),
            is_answering: AtomicBool::new(false),
            replies: Mutex::new(ReplyBudget { bytes: REPLY_BURST_BYTES as f64, at: Instant::now() }),
            unsent_replies: Mutex::default(),
            sending_replies: tokio::sync::Mutex::default(),
            title: Mutex::default(),
            emulator: Arc::default(),
            is_evicting: AtomicBool::new(false),
        }
    }

    /// Whether this is the hub of that terminal, and not of an earlier one with the same id.
    pub(super) fn is_of(&self, terminal: &Terminal) -> bool {
        let of = |terminal: &Terminal| {
            let info = terminal.execution().info();
            (info.created_at, info.pid)
        };
        of(&self.terminal) == of(terminal)
    }

    pub(super) fn terminals(&self) -> &Terminals {
        &self.terminals
    }

    /// Attaches a viewer. One that only watches does not answer queries.
    pub(super) fn attach(self: &Arc<Self>, is_watcher: bool) -> ViewerGuard {
        let mut viewers = lock(&self.viewers);
        viewers.next += 1;
        let id = viewers.next;
        if is_watcher {
            viewers.watchers += 1;
        } else {
            viewers.from.insert(id, None);
            viewers.leader = id;
        }
        drop(viewers);
        self.changed.notify_waiters();
        let keys = (!is_watcher).then(|| self.terminal.expect_keys());
        ViewerGuard { hub: Arc::clone(self), id, is_watcher, sent: 0, _keys: keys }
    }

    /// Number of attached viewers.
    pub(crate) fn viewers(&self) -> usize {
        let viewers = lock(&self.viewers);
        viewers.from.len() + viewers.watchers
    }

    /// Whether a viewer receives the output at this cursor, and answers its queries.
    fn has_viewer_at(&self, cursor: u64) -> bool {
        lock(&self.viewers).from.values().any(|from| from.is_some_and(|from| from < cursor))
    }

    /// Whether the output must be followed: a wait needs it, or no viewer answers queries.
    pub(super) fn needs_tracking(&self) -> bool {
        self.waits.load(Ordering::Acquire) > 0 || lock(&self.viewers).from.is_empty()
    }

    /// Counts a wait until the guard is dropped.
    pub(super) fn begin_wait(self: &Arc<Self>) -> WaitGuard {
        self.waits.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_waiters();
        WaitGuard(Arc::clone(self))
    }

    /// The end of the output, to be watched.
    pub(super) fn positions(&self) -> watch::Receiver<u64> {
        self.position.subscribe()
    }

    /// The output goes at least to this cursor.
    pub(super) fn saw(&self, cursor: u64) {
        self.position.send_if_modified(|known| {
            let is_new = cursor > *known;
            *known = cursor.max(*known);
            is_new
        });
    }

    /// Queries before this cursor need no answer any more.
    pub(super) fn set_answered(&self, cursor: u64) {
        self.answered.fetch_max(cursor, Ordering::AcqRel);
    }

    /// Queries from this cursor on are answered.
    pub(super) fn answer_from(&self, cursor: u64) {
        self.set_answered(cursor);
        self.is_answering.store(true, Ordering::Release);
    }

    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Acquire)
    }

    /// The title as last known.
    pub(crate) fn title(&self) -> Option<String> {
        lock(&self.title).as_ref().map(|(_, title)| title.clone())
    }

    /// Whether all output is part of the title as last known.
    pub(crate) fn is_title_current(&self) -> bool {
        let end = self.terminal.execution().info().output_bytes;
        lock(&self.title).as_ref().is_some_and(|(cursor, _)| *cursor >= end)
    }

    /// Reads the title from the present screen. An emulator that no other client needs is not kept for it.
    pub(crate) async fn refresh_title(self: Arc<Self>) {
        let is_needed = self.emulator.try_lock().map_or(true, |slot| slot.is_some());
        let is_known = self.screen().await.is_ok();
        if is_known && !is_needed {
            self.drop_idle_emulator();
        }
    }

    /// The present screen. Waits for memory and for other users of it.
    pub(crate) async fn screen(self: &Arc<Self>) -> Result<ScreenGuard, ReadError> {
        let mut slot = Arc::clone(&self.emulator).lock_owned().await;
        let mut bytes = memory_estimate(self.terminal.size());
        loop {
            if !self.has_memory(&mut slot, bytes) {
                *slot = None;
            }
            if slot.is_none() {
                let memory = self.terminals.emulator_memory(bytes).await;
                let terminal = self.terminal.clone();
                let emulator = blocking(move || Emulator::open(&terminal)).await?;
                *slot = Some(Cached { emulator, used: Instant::now(), memory });
            }
            slot = self.catch_up(slot).await?;
            // The output may contain a newer size, or cells that need more than others.
            let Some(cached) = &*slot else { continue };
            let now = memory_estimate(cached.emulator.size()).max(cached.emulator.screen.memory());
            if now <= bytes {
                break;
            }
            bytes = now;
        }
        self.begin_eviction();
        let guard = ScreenGuard(slot);
        let (cursor, title) = (guard.emulator().cursor(), guard.emulator().screen.title().to_owned());
        *lock(&self.title) = Some((cursor, title));
        self.saw(guard.emulator().cursor());
        Ok(guard)
    }

    /// The present screen, for a request. Retries for a while if the machine lacks resources.
    pub(crate) async fn present_screen(self: &Arc<Self>) -> Result<ScreenGuard, ApiError> {
        with_retries(|| self.screen()).await.map_err(|error| match error {
            // The record was removed after the terminal was found.
            ReadError::Removed => ApiError::no_terminal(self.terminal.id().as_str()),
            error => error.into(),
        })
    }

    /// Whether the emulator, if there is one, has this much memory.
    fn has_memory(&self, slot: &mut Slot, bytes: usize) -> bool {
        match &mut **slot {
            Some(Cached { memory: Some(memory), .. }) => self.terminals.grow_emulator_memory(memory, bytes),
            _ => true,
        }
    }

    /// Feeds the emulator with all output so far.
    async fn catch_up(self: &Arc<Self>, mut slot: Slot) -> Result<Slot, ReadError> {
        let mut is_quick = true;
        let mut until = None;
        let mut overtaken = 0;
        loop {
            let answered = self.answered();
            let advance = move |mut slot: Slot| {
                let step = match &mut *slot {
                    Some(cached) => {
                        let step = cached
                            .emulator
                            .advance(if is_quick { QUICK_BYTES } else { STEP_BYTES }, answered);
                        cached.used = Instant::now();
                        if matches!(&step, Ok(step) if !step.has_more) {
                            cached.emulator.release();
                        }
                        step
                    }
                    None => Ok(Step::default()),
                };
                (slot, step)
            };
            let step;
            is_quick &= slot.as_ref().is_none_or(|cached| is_quick_size(cached.emulator.size()));
            (slot, step) = if is_quick { advance(slot) } else { blocking(move || advance(slot)).await };
            match step {
                Ok(step) => {
                    self.reply(step.replies);
                    if !step.has_more {
                        return Ok(slot);
                    }
                    // A program may write as fast as its output is fed: later output does not count.
                    let end = match until {
                        Some(end) => end,
                        None => *until.insert(self.terminal.execution().reader()?.cursor_end()?),
                    };
                    // A size that follows the last byte has the same cursor.
                    if slot.as_ref().is_none_or(|cached| cached.emulator.cursor() > end) {
                        return Ok(slot);
                    }
                    is_quick = false;
                }
                Err(AdvanceError::Overtaken) => {
                    // A saved screen covers what was dropped, unless the disk was full.
                    overtaken += 1;
                    let terminal = self.terminal.clone();
                    if let Some(cached) = &mut *slot {
                        if overtaken > 1 {
                            cached.emulator.accept_gap();
                        } else {
                            cached.emulator = blocking(move || Emulator::open(&terminal)).await?;
                        }
                    }
                }
                Err(AdvanceError::Read(e)) => {
                    // Whatever it had read may be lost.
                    *slot = None;
                    return Err(e);
                }
            }
        }
    }

    /// Sends answers to queries, unless a viewer has received the queries.
    fn reply(self: &Arc<Self>, replies: Vec<(u64, Vec<u8>)>) {
        let mut bytes = Vec::new();
        for (cursor, reply) in replies {
            let is_new = self.answered.fetch_max(cursor, Ordering::AcqRel) < cursor;
            let is_wanted =
                is_new && self.is_answering.load(Ordering::Acquire) && !self.has_viewer_at(cursor);
            if is_wanted && lock(&self.replies).take(reply.len()) {
                bytes.extend(reply);
            }
        }
        if bytes.is_empty() || self.terminal.execution().status().end().is_some() {
            return;
        }
        lock(&self.unsent_replies).extend(bytes);
        let hub = Arc::clone(self);
        tokio::spawn(async move {
            let _alone = hub.sending_replies.lock().await;
            let bytes = std::mem::take(&mut *lock(&hub.unsent_replies));
            if !bytes.is_empty() {
                // A terminal that has ended, or whose program does not read, needs no answer.
                drop(hub.terminal.write(&bytes).await);
            }
        });
    }

    /// Drops the emulator when it was not used for a while.
    fn begin_eviction(self: &Arc<Self>) {
        if self.is_evicting.swap(true, Ordering::AcqRel) {
            return;
        }
        let hub = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LINGER).await;
                let mut slot = hub.emulator.lock().await;
                if slot.as_ref().is_none_or(|cached| cached.used.elapsed() >= LINGER) {
                    *slot = None;
                    hub.is_evicting.store(false, Ordering::Release);
                    return;
                }
            }
        });
    }

    /// Drops the emulator if it is not in use.
    pub(super) fn drop_idle_emulator(&self) {
        if let Ok(mut slot) = self.emulator.try_lock() {
            *slot = None;
        }
    }
}

type Slot = OwnedMutexGuard<Option<Cached>>;

/// The present screen, for as long as this is held.
#[derive(Debug)]
pub(crate) struct ScreenGuard(Slot);

impl ScreenGuard {
    /// The emulator.
    pub(crate) fn emulator(&self) -> &Emulator {
        self.0.as_ref().map(|cached| &cached.emulator).expect("a guard exists only with an emulator")
    }
}

impl ReplyBudget {
    /// Whether this many bytes may be sent now.
    fn take(&mut self, bytes: usize) -> bool {
        let now = Instant::now();
        let earned = now.duration_since(self.at).as_secs_f64() * REPLY_BYTES_PER_SECOND;
        self.bytes = (self.bytes + earned).min(REPLY_BURST_BYTES as f64);
        self.at = now;
        let may = self.bytes >= bytes as f64;
        if may {
            self.bytes -= bytes as f64;
        }
        may
    }
}

/// An attached viewer.
#[derive(Debug)]
pub(super) struct ViewerGuard {
    hub: Arc<Hub>,
    id: u64,
    is_watcher: bool,
    /// The cursor after the output that it has received.
    sent: u64,
    /// Makes its keys take the shortest way.
    _keys: Option<KeysGuard>,
}

impl ViewerGuard {
    /// It receives raw output from this cursor on.
    pub(super) fn receives_from(&mut self, cursor: u64) {
        if !self.is_watcher {
            lock(&self.hub.viewers).from.insert(self.id, Some(cursor));
        }
        self.sent = cursor;
    }

    /// It has received the output before this cursor.
    pub(super) fn received_to(&mut self, cursor: u64) {
        self.sent = cursor;
    }

    /// It has typed.
    pub(super) fn lead(&self) {
        lock(&self.hub.viewers).leader = self.id;
    }

    /// Whether its answers to queries count: the program expects one answer, whatever the number of viewers.
    pub(super) fn is_leader(&self) -> bool {
        let viewers = lock(&self.hub.viewers);
        viewers.leader == self.id || !viewers.from.contains_key(&viewers.leader)
    }
}

impl Drop for ViewerGuard {
    fn drop(&mut self) {
        if self.is_watcher {
            lock(&self.hub.viewers).watchers -= 1;
        } else {
            lock(&self.hub.viewers).from.remove(&self.id);
            // It has answered the queries that it received.
            self.hub.set_answered(self.sent);
        }
        self.hub.changed.notify_waiters();
    }
}

/// A wait.
#[derive(Debug)]
pub(super) struct WaitGuard(Arc<Hub>);

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.waits.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }
}

/// Whether a screen is small enough that work on all of it may be done on a thread of the runtime.
pub(super) fn is_quick_size(size: TerminalSize) -> bool {
    usize::from(size.cols) * usize::from(size.rows) <= QUICK_CELLS
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs blocking work on another thread.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
        // The runtime is going down.
        Err(_) => std::future::pending().await,
    }
}

/// Reads, and retries without end while the machine lacks descriptors or memory.
pub(super) async fn until_possible<T, F>(mut read: impl FnMut() -> F) -> Result<T, ReadError>
where
    F: Future<Output = Result<T, ReadError>>,
{
    loop {
        match read().await {
            Err(ReadError::OutOf(_)) => tokio::time::sleep(READ_RETRY_INTERVAL).await,
            read => return read,
        }
    }
}
