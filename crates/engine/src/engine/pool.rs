//! Supervisors with a ready shell, each for one use.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tracing::Instrument;

use super::error::StartError;
use super::link::{SupervisorLink, lock};
use super::sweep::sweep;
use super::{Inner, TaskOf};
use crate::process_tree::Nonce;
use crate::protocol::Request;

/// Delay between taking a ready supervisor and creating another: the command needs the processor first.
const REFILL_DELAY: Duration = Duration::from_millis(8);
/// Maximum delay of a refill after supervisors that never became ready: it doubles with each one in a row.
const MAX_REFILL_DELAY: Duration = Duration::from_secs(5);
/// Time after the start of a run in which its supervisor is expected to be ready again. Starting another one for each
/// short command would cost more than the command.
const SHORT_RUN: Duration = Duration::from_millis(30);
/// Maximum time to wait for a supervisor that is about to be ready, before a new one is created.
const WAIT_FOR_READY: Duration = Duration::from_millis(5);

/// Number of descriptors that are not used for supervisors: an eighth of the limit, within these.
const MIN_RESERVED_DESCRIPTORS: usize = 16;
const MAX_RESERVED_DESCRIPTORS: usize = 512;

/// The ready supervisors.
#[derive(Debug, Default)]
pub(super) struct Pool {
    counts: Mutex<Counts>,
    /// Notified when a supervisor becomes ready.
    changed: Notify,
    /// Whether a refill is scheduled.
    is_refill_scheduled: AtomicBool,
}

/// The ready supervisors, and those that are expected. Under one lock, because each change of state must be visible
/// to a refill as a whole: a supervisor that is counted twice would be missing until the next command.
#[derive(Debug, Default)]
struct Counts {
    ready: VecDeque<Arc<SupervisorLink>>,
    /// Number of supervisors that are being created.
    filling: usize,
    /// Number of supervisors in a row that could not be created, or exited before they were ready.
    failed: u32,
    /// Number of supervisors whose run has finished and that may become ready again.
    renewing: usize,
    /// The supervisors that began a run a short time ago, oldest first.
    running: VecDeque<(Instant, u64)>,
    /// Number of callers that wait for a ready one.
    waiting: usize,
    /// Counts changes of settings: supervisors of an earlier generation are not kept.
    generation: u64,
}

impl Counts {
    fn is_expected(&self, nonce: u64) -> bool {
        self.running.iter().any(|(_, running)| *running == nonce)
    }

    /// Returns whether it was expected.
    fn stop_expecting(&mut self, nonce: u64) -> bool {
        let before = self.running.len();
        self.running.retain(|(_, running)| *running != nonce);
        self.running.len() < before
    }

    /// A supervisor that was being created is there, or never will be.
    fn filled(&mut self, is_ready: bool) {
        self.filling -= 1;
        self.failed = if is_ready { 0 } else { self.failed.saturating_add(1) };
    }

    /// Delay of the next refill.
    fn refill_delay(&self) -> Duration {
        REFILL_DELAY.saturating_mul(1 << self.failed.min(16)).min(MAX_REFILL_DELAY)
    }

    /// Number of supervisors to create. Those with a long run are not expected any more.
    fn missing(&mut self, wanted: usize, now: Instant) -> usize {
        while self.running.pop_front_if(|(since, _)| now.duration_since(*since) >= SHORT_RUN).is_some() {}
        let expected = self.filling + self.renewing + self.running.len();
        wanted.saturating_sub(self.ready.len() + expected)
    }
}

impl Pool {
    /// Number of ready supervisors.
    pub(super) fn ready(&self) -> usize {
        lock(&self.counts).ready.len()
    }

    /// Removes supervisors with outdated settings.
    pub(super) fn clear(&self) -> Vec<Arc<SupervisorLink>> {
        let mut counts = lock(&self.counts);
        counts.generation += 1;
        counts.ready.drain(..).collect()
    }
}

/// A supervisor that was taken from the pool for new work. When dropped unused, the supervisor returns to the pool.
#[derive(Debug)]
pub(super) struct SupervisorLease {
    engine: Arc<Inner>,
    pub(super) link: Arc<SupervisorLink>,
    requests: u64,
}

impl Drop for SupervisorLease {
    fn drop(&mut self) {
        if self.link.request_count() == self.requests {
            self.engine.put_back(&self.link);
        }
    }
}

/// A caller that waits for a ready supervisor.
struct WaitingCaller<'a>(&'a Pool);

impl<'a> WaitingCaller<'a> {
    fn new(pool: &'a Pool) -> Self {
        lock(&pool.counts).waiting += 1;
        Self(pool)
    }

    /// Whether enough supervisors are about to be ready for all waiting callers.
    fn can_expect_one(&self) -> bool {
        let counts = lock(&self.0.counts);
        counts.filling + counts.renewing >= counts.waiting
    }
}

impl Drop for WaitingCaller<'_> {
    fn drop(&mut self) {
        lock(&self.0.counts).waiting -= 1;
    }
}

/// Whether a new descriptor is one of those that are kept for other work than new supervisors and copies of terminals:
/// clients must be able to connect and to end something. The kernel assigns the lowest free number, so all lower ones
/// are in use.
pub(super) fn is_reserved(descriptor: &OwnedFd) -> bool {
    let limit = crate::descriptor_limit();
    let reserved = (limit / 8).clamp(MIN_RESERVED_DESCRIPTORS, MAX_RESERVED_DESCRIPTORS);
    usize::try_from(descriptor.as_raw_fd()).is_ok_and(|number| number >= limit.saturating_sub(reserved))
}

impl Inner {
    /// Returns a supervisor for a session: a ready one, else a new one.
    pub(super) async fn supervisor(self: &Arc<Self>) -> Result<SupervisorLease, StartError> {
        self.refill_soon();
        let link = self.take().await?;
        Ok(SupervisorLease { engine: Arc::clone(self), requests: link.request_count(), link })
    }

    /// The same for a run, after which the supervisor may return. While enough others are ready, a refill is scheduled
    /// only when the run turns out not to be short: a timer costs as much as a tenth of a short run.
    pub(super) async fn supervisor_for_run(self: &Arc<Self>) -> Result<SupervisorLease, StartError> {
        let link = self.take().await?;
        let mut counts = lock(&self.pool.counts);
        counts.running.push_back((Instant::now(), link.nonce));
        let is_short = counts.ready.len() < self.config.ready_shells.div_ceil(2);
        drop(counts);
        if is_short {
            self.refill_soon();
        }
        Ok(SupervisorLease { engine: Arc::clone(self), requests: link.request_count(), link })
    }

    /// A supervisor has reported something other than the end of its run.
    pub(super) fn run_continues(self: &Arc<Self>, link: &SupervisorLink) {
        if lock(&self.pool.counts).is_expected(link.nonce) {
            self.refill_soon();
        }
    }

    /// The run of a supervisor has finished in a way after which it exits.
    pub(super) fn run_was_last(self: &Arc<Self>, link: &SupervisorLink) {
        if lock(&self.pool.counts).stop_expecting(link.nonce) {
            self.refill_soon();
        }
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

    /// Takes a ready supervisor. Dead ones are replaced.
    fn take_ready(self: &Arc<Self>) -> Option<Arc<SupervisorLink>> {
        let mut counts = lock(&self.pool.counts);
        let before = counts.ready.len();
        let live = std::iter::from_fn(|| counts.ready.pop_front()).find(|link| !link.is_hung_up());
        let found_dead = before > counts.ready.len() + usize::from(live.is_some());
        drop(counts);
        if found_dead {
            self.refill_soon();
        }
        live
    }

    async fn take(self: &Arc<Self>) -> Result<Arc<SupervisorLink>, StartError> {
        if let Some(link) = self.take_ready() {
            return Ok(link);
        }
        self.refill_soon();
        // One that is about to be ready is available sooner than a new one.
        let waiting = WaitingCaller::new(&self.pool);
        if waiting.can_expect_one() {
            let changed = self.pool.changed.notified();
            // After the timeout a new one is created.
            drop(tokio::time::timeout(WAIT_FOR_READY, changed).await);
            if let Some(link) = self.take_ready() {
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
        let mut counts = lock(&self.pool.counts);
        let _ = counts.stop_expecting(link.nonce);
        if link.set_renewing(true) {
            counts.renewing += 1;
        }
    }

    /// A supervisor has exited.
    pub(super) fn not_renewing(self: &Arc<Self>, link: &SupervisorLink) {
        let mut counts = lock(&self.pool.counts);
        let mut is_missing = counts.stop_expecting(link.nonce);
        let before = counts.ready.len();
        counts.ready.retain(|ready| ready.nonce != link.nonce);
        is_missing |= counts.ready.len() < before;
        if link.set_renewing(false) {
            counts.renewing -= 1;
            is_missing = true;
        }
        drop(counts);
        if is_missing {
            self.refill_soon();
        }
    }

    /// A supervisor is ready again.
    pub(super) fn renewed(self: &Arc<Self>, link: &Arc<SupervisorLink>) {
        self.put_back_and(link, |counts| {
            let _ = counts.stop_expecting(link.nonce);
            if link.set_renewing(false) {
                counts.renewing -= 1;
            }
        });
    }

    /// Returns an unused supervisor to the pool, unless the pool is full.
    fn put_back(self: &Arc<Self>, link: &Arc<SupervisorLink>) {
        self.put_back_and(link, |_| {});
    }

    fn put_back_and(self: &Arc<Self>, link: &Arc<SupervisorLink>, count: impl FnOnce(&mut Counts)) {
        let mut counts = lock(&self.pool.counts);
        count(&mut counts);
        if link.is_over() {
            drop(counts);
            self.refill_soon();
            return;
        }
        if link.generation == counts.generation && counts.ready.len() < self.config.ready_shells {
            counts.ready.push_back(Arc::clone(link));
            self.pool.changed.notify_one();
        } else {
            drop(counts);
            drop(link.request(&Request::Quit));
        }
    }

    /// Schedules a refill after a short delay: the command that took a supervisor needs the processor first.
    fn refill_soon(self: &Arc<Self>) {
        if self.pool.is_refill_scheduled.swap(true, Ordering::AcqRel) {
            return;
        }
        let engine = Arc::downgrade(self);
        self.tasks.spawn(async move {
            loop {
                let Some(delay) = engine.upgrade().map(|engine| lock(&engine.pool.counts).refill_delay())
                else {
                    return;
                };
                tokio::time::sleep(delay).await;
                let Some(engine) = engine.upgrade() else { return };
                // Cleared before the check: a caller that takes a supervisor after it schedules another refill.
                engine.pool.is_refill_scheduled.store(false, Ordering::Release);
                let is_complete = engine.refill();
                if is_complete || engine.pool.is_refill_scheduled.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        });
    }

    /// Refills the pool in the background. Returns whether it is complete, so that it need not look again.
    pub(super) fn refill(self: &Arc<Self>) -> bool {
        let (missing, is_complete) = {
            let mut counts = lock(&self.pool.counts);
            let missing = counts.missing(self.config.ready_shells, Instant::now());
            counts.filling += missing;
            (missing, counts.running.is_empty())
        };
        for _ in 0..missing {
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
                match link.filter(|link| link.is_ready()) {
                    Some(link) => engine.put_back_and(&link, |counts| counts.filled(true)),
                    None => {
                        lock(&engine.pool.counts).filled(false);
                        engine.refill_soon();
                    }
                }
            });
        }
        is_complete
    }

    /// Forks a supervisor and connects to it. The fork is completed even if the caller stops waiting; the supervisor
    /// then exits because its connection closes.
    fn fork_supervisor(&self) -> TaskOf<Result<Arc<SupervisorLink>, StartError>> {
        let zygote = Arc::clone(&self.zygote);
        let folders = Arc::clone(&self.state.folders);
        let generation = lock(&self.pool.counts).generation;
        let cgroups = self.config.cgroups.into();
        let slow_replies = Arc::clone(&self.slow_replies);
        let key = self.state.key.clone();
        self.complete(async move {
            let refused = |why| StartError::refused(why, "", PathBuf::new());
            let failed = |e| StartError::os("connect to a supervisor", e);
            // Created before the fork: without a descriptor for it, a supervisor would wait for a connection that never comes.
            let socket = SupervisorLink::socket().map_err(failed)?;
            if is_reserved(&socket) {
                return Err(failed(rustix::io::Errno::MFILE.into()));
            }
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

    /// Runs a future to completion even if the caller stops waiting, in the span of the caller.
    pub(super) fn complete<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> TaskOf<T> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let completed = async move {
            // The caller may have stopped waiting.
            drop(sender.send(work.await));
        };
        self.tasks.spawn(completed.in_current_span());
        receiver
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refills_that_fail_are_tried_again_more_and_more_slowly() {
        let mut counts = Counts { filling: 60, ..Counts::default() };
        let delays: Vec<Duration> = std::iter::repeat_with(|| {
            counts.filled(false);
            counts.refill_delay()
        })
        .take(50)
        .collect();
        assert!(delays.is_sorted() && delays[0] == 2 * REFILL_DELAY && delays[49] == MAX_REFILL_DELAY);
        counts.filled(true);
        assert_eq!(counts.refill_delay(), REFILL_DELAY);
    }

    #[test]
    fn supervisors_with_a_short_run_are_not_missing_and_those_with_a_long_one_are() {
        let start = Instant::now();
        let mut counts = Counts { filling: 1, renewing: 1, ..Counts::default() };
        counts.running = [(start, 1), (start + SHORT_RUN, 2)].into();
        assert_eq!(counts.missing(4, start), 0);
        assert_eq!(counts.missing(4, start + SHORT_RUN), 1);
        assert!(counts.is_expected(2) && counts.stop_expecting(2) && !counts.stop_expecting(2));
        assert_eq!(counts.missing(4, start + SHORT_RUN), 2);
    }
}
