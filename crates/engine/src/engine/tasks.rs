//! The engine's tasks: none outlives it.

use std::future::Future;
use std::sync::Mutex;

use tokio::task::JoinSet;

use super::link::lock;

/// Tasks that are ended when the engine is dropped.
#[derive(Debug, Default)]
pub(super) struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.0);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}
