//! Supervisors with a shell that is already up, each for one use.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::error::StartError;
use super::link::{Link, lock};
use super::sweep::sweep;
use super::{Inner, TaskOf};
use crate::process_tree::Nonce;
use crate::protocol::Request;

/// The supervisors that are kept ready.
#[derive(Debug, Default)]
pub(super) struct Pool {
    ready: Mutex<VecDeque<Arc<Link>>>,
    filling: AtomicUsize,
    /// Counts the changes of settings: a supervisor made for earlier ones is not kept.
    generation: AtomicU64,
}

impl Pool {
    fn pop(&self) -> Option<Arc<Link>> {
        let mut ready = lock(&self.ready);
        while let Some(link) = ready.pop_front() {
            if !link.is_hung_up() {
                return Some(link);
            }
        }
        None
    }

    /// Lets go of those that were made for settings that have changed.
    pub(super) fn clear(&self) -> Vec<Arc<Link>> {
        let mut ready = lock(&self.ready);
        self.generation.fetch_add(1, Ordering::AcqRel);
        ready.drain(..).collect()
    }

    fn missing(&self, wanted: usize) -> usize {
        wanted.saturating_sub(lock(&self.ready).len() + self.filling.load(Ordering::Acquire))
    }
}

impl Inner {
    /// A supervisor for new work: a ready one, else a new one.
    pub(super) async fn supervisor(self: &Arc<Self>) -> Result<Arc<Link>, StartError> {
        let ready = self.pool.pop();
        self.refill();
        match ready {
            Some(link) => Ok(link),
            None => self.new_supervisor().await,
        }
    }

    /// Keeps a supervisor ready that nothing was asked of, unless there are enough.
    pub(super) fn put_back(&self, link: &Arc<Link>) {
        if !link.is_unused() || link.is_over() {
            return;
        }
        let mut ready = lock(&self.pool.ready);
        let current = link.generation == self.pool.generation.load(Ordering::Acquire);
        if current && ready.len() < self.config.ready_shells {
            ready.push_back(Arc::clone(link));
        } else {
            drop(ready);
            drop(link.request(&Request::Quit));
        }
    }

    /// Brings the pool up to its size, in the background.
    pub(super) fn refill(self: &Arc<Self>) {
        for _ in 0..self.pool.missing(self.config.ready_shells) {
            self.pool.filling.fetch_add(1, Ordering::AcqRel);
            let engine = Arc::downgrade(self);
            // Nothing here holds the engine: one that is dropped closes at once.
            let forked = self.fork_supervisor();
            self.tasks.spawn(async move {
                let link = forked.await.ok().and_then(Result::ok);
                if let (Some(link), Some(engine)) = (&link, engine.upgrade()) {
                    engine.run_link(link);
                }
                if let Some(link) = &link {
                    let ready = link.became_ready.notified();
                    tokio::pin!(ready);
                    // Listening before looking: it may become ready between the two.
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

    /// Has a supervisor forked and connects to it. The fork is completed even if nobody waits for it any
    /// more; the supervisor then goes, since its connection closes.
    fn fork_supervisor(&self) -> TaskOf<Result<Arc<Link>, StartError>> {
        let zygote = Arc::clone(&self.zygote);
        let folders = Arc::clone(&self.state.folders);
        let generation = self.pool.generation.load(Ordering::Acquire);
        let cgroups = self.config.cgroups.into();
        self.complete(async move {
            let refused = |why| StartError::refused(why, "", PathBuf::new());
            let failed = |e| StartError::os("connect to a supervisor", e);
            // Before the fork: if there is no descriptor for it, no supervisor waits in vain.
            let socket = Link::socket().map_err(failed)?;
            let (nonce, pid) = zygote.fork().await.map_err(refused)?;
            match Link::connect(socket, &folders.supervisors, nonce, generation) {
                Ok(link) => {
                    link.is_process(pid);
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

    fn run_link(self: &Arc<Self>, link: &Arc<Link>) {
        self.tasks.spawn(Arc::clone(link).run(Arc::downgrade(self)));
    }

    pub(super) async fn new_supervisor(self: &Arc<Self>) -> Result<Arc<Link>, StartError> {
        let link = self.fork_supervisor().await.unwrap_or(Err(StartError::Lost))?;
        self.run_link(&link);
        Ok(link)
    }

    /// Runs something to its end even if the one who waits for it goes away.
    pub(super) fn complete<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> TaskOf<T> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.tasks.spawn(async move {
            // Nobody may be waiting any more.
            drop(sender.send(work.await));
        });
        receiver
    }
}
