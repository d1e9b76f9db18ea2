//! The tasks of the engine, which end with it.

use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::link::lock;

/// Tasks that are ended when the engine is dropped.
#[derive(Debug, Default)]
pub(super) struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    /// Spawns a task. Without a runtime the task is dropped.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut tasks = lock(&self.0);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &runtime);
    }
}

/// Runs blocking work on a thread; or in place if no thread can be created, because such work frees processes.
pub(super) async fn blocking(work: impl FnOnce() + Send + 'static) {
    let (done, over) = oneshot::channel::<()>();
    let work = Arc::new(Mutex::new(Some(move || {
        work();
        drop(done);
    })));
    let theirs = Arc::clone(&work);
    let take = |work: &Mutex<Option<_>>| lock(work).take();
    let thread = std::thread::Builder::new().name("sandcrab-work".into());
    let spawned = thread.spawn(move || take(&theirs).map_or((), |work| work()));
    if spawned.is_err()
        && let Some(work) = take(&work)
    {
        work();
    }
    // Closed when the work is done, also after a panic.
    let _ = over.await;
}
