//! The engine's tasks: none outlives it.

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
    /// Runs a task. Where there is no runtime it is dropped: a future that nobody polls any more may be dropped anywhere.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut tasks = lock(&self.0);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &runtime);
    }
}

/// Does work that blocks on a thread of its own; or here, if the machine has none left: such work gives processes back.
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
    // Closed when it is over, however it ended.
    let _ = over.await;
}
