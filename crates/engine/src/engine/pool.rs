//! Supervisors with a ready shell, each for one use.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::error::StartError;
use super::link::{SupervisorLink, lock};
use super::sweep::sweep;
use super::{Inner, TaskOf};
use crate::process_tree::Nonce;
use crate::protocol::Request;

/// Delay between taking a ready supervisor and creating another: the command needs the processor first, and its
/// supervisor may be ready again by then.
const REFILL_DELAY: Duration = Duration::from_millis(8);
/// Maximum time to wait for a supervisor that is about to be ready, before a new one is created.
const WAIT_FOR_READY: Duration = Duration::from_millis(5);

/// The ready supervisors.
#[derive(Debug, Default)]
pub(super) struct Pool {
    ready: Mutex<VecDeque<Arc<SupervisorLink>>>,
    filling: AtomicUsize,
    /// Number of supervisors whose run has finished and that may become ready again.
    renewing: AtomicUsize,
    /// Number of callers that wait for a ready one.
    waiting: AtomicUsize,
    changed: Notify,
    /// Whether a refill is scheduled.
    waking: AtomicBool,
    /// Counts changes of settings: supervisors of an earlier generation are not kept.
    generation: AtomicU64,
}

impl Pool {
    fn pop(&self) -> Option<Arc<SupervisorLink>> {
        let mut ready = lock(&self.ready);
        while let Some(link) = ready.pop_front() {
            if !link.is_hung_up() {
                return Some(link);
            }
        }
        None
    }

    /// Number of ready supervisors.
    pub(super) fn ready(&self) -> usize {
        lock(&self.ready).len()
    }

    /// Removes supervisors with outdated settings.
    pub(super) fn clear(&self) -> Vec<Arc<SupervisorLink>> {
        let mut ready = lock(&self.ready);
        self.generation.fetch_add(1, Ordering::AcqRel);
        ready.drain(..).collect()
    }

    fn missing(&self, wanted: usize) -> usize {
        let coming = self.filling.load(Ordering::Acquire) + self.renewing.load(Ordering::Acquire);
        wanted.saturating_sub(self.ready() + coming)
    }
}

/// A supervisor taken for new work. It returns to the pool if it was not used.
#[derive(Debug)]
pub(super) struct Taken {
    engine: Arc<Inner>,
    pub(super) link: Arc<SupervisorLink>,
    asked: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.link.asked() == self.asked {
            self.engine.put_back(&self.link);
        }
    }
}

/// A caller that waits for a ready supervisor.
struct Waiting<'a>(&'a Pool);

impl<'a> Waiting<'a> {
    fn new(pool: &'a Pool) -> Self {
        pool.waiting.fetch_add(1, Ordering::AcqRel);
        Self(pool)
    }

    /// Whether enough supervisors are about to be ready for all waiting callers.
    fn may_hope(&self) -> bool {
        let coming = self.0.filling.load(Ordering::Acquire) + self.0.renewing.load(Ordering::Acquire);
        coming >= self.0.waiting.load(Ordering::Acquire)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Inner {
    /// Returns a supervisor for new work: a ready one, else a new one.
    pub(super) async fn supervisor(self: &Arc<Self>) -> Result<Taken, StartError> {
        let link = self.take().await?;
        Ok(Taken { engine: Arc::clone(self), asked: link.asked(), link })
    }

    /// Whether work that a supervisor refused goes to another one. A supervisor whose limits a command has lowered
    /// has done nothing, and exits. A command can lower the limits of all ready ones, so each of them may be tried.
    pub(super) fn goes_to_another(
        &self,
        link: &SupervisorLink,
        error: &StartError,
        given_up: &mut usize,
    ) -> bool {
        if !matches!(error, StartError::LimitsLowered) || *given_up > self.config.ready_shells {
            return false;
        }
        *given_up += 1;
        self.limits_lowered(link.nonce);
        true
    }

    async fn take(self: &Arc<Self>) -> Result<Arc<SupervisorLink>, StartError> {
        self.refill_soon();
        if let Some(link) = self.pool.pop() {
            return Ok(link);
        }
        // One that is about to be ready is available sooner than a new one.
        let waiting = Waiting::new(&self.pool);
        if waiting.may_hope() {
            let changed = self.pool.changed.notified();
            // After the timeout a new one is created.
            drop(tokio::time::timeout(WAIT_FOR_READY, changed).await);
            if let Some(link) = self.pool.pop() {
                return Ok(link);
            }
        }
        self.new_supervisor().await
    }

    /// Whether more supervisors are missing than the one just taken, or none is left.
    pub(super) fn is_short_of_supervisors(&self) -> bool {
        let ready = self.pool.ready();
        ready == 0 || ready + 1 < self.config.ready_shells
    }

    /// The run of a supervisor has finished: it may become ready for another.
    pub(super) fn renewing(&self, link: &SupervisorLink) {
        if link.set_renewing(true) {
            self.pool.renewing.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// A supervisor is ready again, or has exited.
    pub(super) fn not_renewing(&self, link: &SupervisorLink) {
        if link.set_renewing(false) {
            self.pool.renewing.fetch_sub(1, Ordering::AcqRel);
        }
    }

    pub(super) fn renewed(&self, link: &Arc<SupervisorLink>) {
        self.not_renewing(link);
        self.put_back(link);
    }

    /// Returns an unused supervisor to the pool, unless the pool is full.
    fn put_back(&self, link: &Arc<SupervisorLink>) {
        if link.is_over() {
            return;
        }
        let mut ready = lock(&self.pool.ready);
        let current = link.generation == self.pool.generation.load(Ordering::Acquire);
        if current && ready.len() < self.config.ready_shells {
            ready.push_back(Arc::clone(link));
            self.pool.changed.notify_one();
        } else {
            drop(ready);
            drop(link.request(&Request::Quit));
        }
    }

    /// Schedules a refill after a short delay: the command that took a supervisor needs the processor first.
    fn refill_soon(self: &Arc<Self>) {
        if self.pool.waking.swap(true, Ordering::AcqRel) {
            return;
        }
        let engine = Arc::downgrade(self);
        self.tasks.spawn(async move {
            tokio::time::sleep(REFILL_DELAY).await;
            if let Some(engine) = engine.upgrade() {
                engine.pool.waking.store(false, Ordering::Release);
                engine.refill();
            }
        });
    }

    /// Refills the pool in the background.
    pub(super) fn refill(self: &Arc<Self>) {
        for _ in 0..self.pool.missing(self.config.ready_shells) {
            self.pool.filling.fetch_add(1, Ordering::AcqRel);
            let engine = Arc::downgrade(self);
            // This does not keep the engine open: a dropped engine closes at once.
            let forked = self.fork_supervisor();
            self.tasks.spawn(async move {
                let link = forked.await.ok().and_then(Result::ok);
                if let (Some(link), Some(engine)) = (&link, engine.upgrade()) {
                    engine.run_link(link);
                }
                if let Some(link) = &link {
                    let ready = link.became_ready.notified();
                    tokio::pin!(ready);
                    // Registered before the check: it may become ready between the two.
                    ready.as_mut().enable();
                    if !link.is_ready() && !link.is_over() {
                        ready.await;
                    }
                }
                let Some(engine) = engine.upgrade() else {
                    return;
                };
                engine.pool.filling.fetch_sub(1, Ordering::AcqRel);
                if let Some(link) = link {
                    engine.put_back(&link);
                }
            });
        }
    }

    /// Forks a supervisor and connects to it. The fork is completed even if the caller stops waiting; the supervisor
    /// then exits because its connection closes.
    fn fork_supervisor(&self) -> TaskOf<Result<Arc<SupervisorLink>, StartError>> {
        let zygote = Arc::clone(&self.zygote);
        let folders = Arc::clone(&self.state.folders);
        let generation = self.pool.generation.load(Ordering::Acquire);
        let cgroups = self.config.cgroups.into();
        let slow_replies = Arc::clone(&self.slow_replies);
        let key = self.state.key.clone();
        self.complete(async move {
            let refused = |why| StartError::refused(why, "", PathBuf::new());
            let failed = |e| StartError::os("connect to a supervisor", e);
            // Created before the fork: without a descriptor for it, a supervisor would wait in vain.
            let socket = SupervisorLink::socket().map_err(failed)?;
            let (nonce, pid) = zygote.fork().await.map_err(refused)?;
            match SupervisorLink::connect(
                socket,
                &folders.supervisors,
                nonce,
                generation,
                slow_replies,
                key.as_ref(),
            ) {
                Ok(link) => {
                    link.is_process(pid);
                    link.serve();
                    Ok(link)
                }
                Err(e) => {
                    if let Some(nonce) = Nonce::from_value(nonce) {
                        sweep(folders, cgroups, nonce).await;
                    }
                    let killed = e.kind() == std::io::ErrorKind::ConnectionRefused;
                    Err(if killed { StartError::Lost } else { failed(e) })
                }
            }
        })
    }

    fn run_link(self: &Arc<Self>, link: &Arc<SupervisorLink>) {
        self.tasks.spawn(Arc::clone(link).run(Arc::downgrade(self)));
    }

    pub(super) async fn new_supervisor(self: &Arc<Self>) -> Result<Arc<SupervisorLink>, StartError> {
        let link = self.fork_supervisor().await.unwrap_or(Err(StartError::Lost))?;
        self.run_link(&link);
        Ok(link)
    }

    /// Runs a future to completion even if the caller stops waiting.
    pub(super) fn complete<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> TaskOf<T> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.tasks.spawn(async move {
            // The caller may have stopped waiting.
            drop(sender.send(work.await));
        });
        receiver
    }
}
