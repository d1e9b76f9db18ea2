//! [`FileThreads`]: threads for operations on files, which may block for any time.
//!
//! A file system that does not respond (a network mount, FUSE) blocks an operation forever, and nothing can end it. So no
//! operation on a path or a file runs on a thread of the runtime, closing a file included: that frees the blocks of a
//! deleted one. The number of threads is bounded, and the wait for one too. A thread that has finished waits a moment for more
//! work: a transfer has thousands of steps, and a thread takes longer to start than most of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use sandcrab_api::ErrorCode;
use sandcrab_workspace::Identity;
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

/// Time for which a thread waits for more work.
const IDLE_TIMEOUT: Duration = Duration::from_millis(100);

type Work = Box<dyn FnOnce() + Send>;

/// A thread that waits for more work.
struct Idle {
    thread: ThreadId,
    work: Sender<Work>,
}

/// The threads that wait for more work, the last one at the end. They have no permit, and are at most as many as have worked
/// within [`IDLE_TIMEOUT`].
static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

fn idle() -> MutexGuard<'static, Vec<Idle>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does work on a thread. Not a blocking thread of the runtime, which panics if it cannot create one.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let mut work: Work = Box::new(work);
    // A new thread has the user and groups of this one, so one that acts as another user must not be used again.
    if Identity::is_taken() {
        return thread::Builder::new().name(THREAD_NAME.into()).spawn(work).map(drop);
    }
    let waiting = idle().pop();
    if let Some(waiting) = waiting {
        match waiting.work.send(work) {
            Ok(()) => return Ok(()),
            Err(unsent) => work = unsent.0,
        }
    }
    thread::Builder::new().name(THREAD_NAME.into()).spawn(move || serve(work)).map(drop)
}

/// Does work until there is none for a while.
fn serve(mut work: Work) {
    let (sender, more) = channel();
    loop {
        work();
        idle().push(Idle { thread: thread::current().id(), work: sender.clone() });
        match next(&more) {
            Some(next) => work = next,
            None => return,
        }
    }
}

/// Waits for more work.
fn next(more: &Receiver<Work>) -> Option<Work> {
    if let Ok(work) = more.recv_timeout(IDLE_TIMEOUT) {
        return Some(work);
    }
    let mut idle = idle();
    let own = thread::current().id();
    if let Some(index) = idle.iter().position(|waiting| waiting.thread == own) {
        idle.remove(index);
        return None;
    }
    drop(idle);
    // It was chosen for work, which is about to arrive.
    more.recv().ok()
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
    async fn every_operation_runs_once_when_threads_are_used_again() {
        let threads = FileThreads::default();
        let ran = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        // Some of the pauses end when threads give up waiting.
        for pause in [0, 0, 50, 99, 100, 100, 101, 150].map(Duration::from_millis) {
            let (other, same) = tokio::join!(
                threads.run(THREAD_TIMEOUT, || thread::current().id()),
                threads.run(THREAD_TIMEOUT, || thread::current().id()),
            );
            assert_ne!(other.unwrap(), thread::current().id());
            assert_ne!(same.unwrap(), thread::current().id());
            for _ in 0..100 {
                let ran = Arc::clone(&ran);
                let add = move || ran.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                threads.run(THREAD_TIMEOUT, add).await.unwrap();
            }
            tokio::time::sleep(pause).await;
        }
        assert_eq!(ran.load(std::sync::atomic::Ordering::Relaxed), 800);
        assert!(threads.run(THREAD_TIMEOUT, || panic!("expected")).await.map(|(): ()| ()).is_err());
        threads.run(THREAD_TIMEOUT, || ()).await.unwrap();
    }

    /// A thread that another user's operation has created acts as that user, and cannot change back.
    #[tokio::test]
    async fn root_threads_of_other_users_are_not_used_again() {
        let threads = FileThreads::default();
        for _ in 0..20 {
            let other = Identity::of(65534, 65534, &[]);
            let dropped = threads
                .run(THREAD_TIMEOUT, move || {
                    other.run(|| {
                        let (sender, dropped) = std::sync::mpsc::channel::<()>();
                        drop(DropOnThread::new(sender));
                        dropped
                    })
                })
                .await
                .unwrap()
                .unwrap();
            assert!(dropped.recv().is_err());
            let (first, second) = tokio::join!(
                threads.run(THREAD_TIMEOUT, Identity::is_taken),
                threads.run(THREAD_TIMEOUT, Identity::is_taken),
            );
            assert!(!first.unwrap() && !second.unwrap());
        }
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
