//! [`FileThreads`]: threads for operations on files, which may block for any time.
//!
//! A file system that does not respond (a network mount, FUSE) blocks an operation forever, and nothing can end it. So no
//! operation on a path or a file runs on a thread of the runtime, closing a file included: that frees the blocks of a
//! deleted one. The number of threads is bounded, and the wait for one too.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use sandcrab_api::ErrorCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::error::ApiError;

/// Maximum number of concurrent operations on files. Each has a thread. Further ones wait.
pub(crate) const MAX_FILE_OPERATIONS: usize = 32;

/// Time that a request waits for a thread.
pub(crate) const THREAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that the next step of a request waits for a thread. It is longer, because the steps before would be lost.
pub(crate) const STEP_TIMEOUT: Duration = Duration::from_secs(60);

const THREAD_NAME: &str = "sandcrab-files";

/// Threads for operations on files. A handle.
#[derive(Debug, Clone)]
pub(crate) struct FileThreads(Arc<Semaphore>);

impl Default for FileThreads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_FILE_OPERATIONS)))
    }
}

impl FileThreads {
    /// Waits for permission to use a thread.
    pub(crate) async fn permit(&self, timeout: Duration) -> Result<OwnedSemaphorePermit, ApiError> {
        let waiting = Arc::clone(&self.0).acquire_owned();
        match tokio::time::timeout(timeout, waiting).await {
            Ok(permit) => permit.map_err(ApiError::internal),
            Err(_) => {
                let message = format!(
                    "{MAX_FILE_OPERATIONS} operations on files are running, and none has ended within {timeout:?}"
                );
                Err(ApiError::new(ErrorCode::LimitExceeded, message).suggest(
                    "retry later; if it stays so, a mounted file system does not respond: unmount it",
                ))
            }
        }
    }

    /// Runs an operation on a thread. It runs to its end if the caller does not wait.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        timeout: Duration,
        operation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        run_with(self.permit(timeout).await?, operation).await
    }
}

/// The same, with a permit.
pub(crate) async fn run_with<T: Send + 'static>(
    permit: impl Send + 'static,
    operation: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let (sender, result) = oneshot::channel();
    let work = move || {
        let done = catch_unwind(AssertUnwindSafe(operation));
        drop(permit);
        drop(sender.send(done.map_err(|panic| ApiError::panic(panic.as_ref()))));
    };
    spawn(work)
        .map_err(|_| ApiError::new(ErrorCode::LimitExceeded, "the machine is out of threads; retry later"))?;
    result.await.map_err(ApiError::internal)?
}

/// Starts a thread. Not a blocking thread of the runtime, which panics if it cannot create one.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(THREAD_NAME.into()).spawn(work).map(drop)
}

/// A value with open files. It is dropped on a thread.
#[derive(Debug)]
pub(crate) struct DropOnThread<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> DropOnThread<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// The value, if it was not taken.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }

    /// The same, to change it.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut()
    }

    /// Takes the value, on a thread for operations on files.
    pub(crate) fn into_inner(mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T: Send + 'static> Drop for DropOnThread<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            // Without a thread, the value is dropped here.
            drop(spawn(move || drop(value)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operations that never end, as on a file system that does not respond.
    #[tokio::test(start_paused = true)]
    async fn hung_operations_are_an_error_for_others() {
        let threads = FileThreads::default();
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let blocked = Arc::new(std::sync::Mutex::new(blocked));
        let mut hung = Vec::new();
        for _ in 0..MAX_FILE_OPERATIONS {
            let (threads, blocked) = (threads.clone(), Arc::clone(&blocked));
            let permit = threads.permit(THREAD_TIMEOUT).await.unwrap();
            hung.push(tokio::spawn(run_with(permit, move || blocked.lock().unwrap().recv().is_err())));
        }
        let refused = threads.run(THREAD_TIMEOUT, || ()).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::LimitExceeded);
        assert!(refused.message().contains("within 10s"), "{}", refused.message());
        drop(release);
        for hung in hung {
            assert!(hung.await.unwrap().unwrap());
        }
        threads.run(THREAD_TIMEOUT, || ()).await.unwrap();
    }

    #[tokio::test]
    async fn values_are_dropped_on_another_thread() {
        struct Noted(std::sync::mpsc::Sender<std::thread::ThreadId>);
        impl Drop for Noted {
            fn drop(&mut self) {
                let _sent = self.0.send(std::thread::current().id());
            }
        }
        let (sender, dropped) = std::sync::mpsc::channel();
        drop(DropOnThread::new(Noted(sender)));
        assert_ne!(dropped.recv().unwrap(), std::thread::current().id());
    }
}
