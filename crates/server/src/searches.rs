//! [`Searches`]: bounds the searches, finds and replacements that work, and those whose clients do not read.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandcrab_api::ErrorCode;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use crate::error::ApiError;
use crate::file_threads::{FileThreads, STEP_TIMEOUT};

/// Maximum number of searches, finds and replacements that work at the same time: each has threads with buffers.
const MAX_SEARCHES: usize = 4;

/// Maximum number of streams of searches. One whose client does not read keeps its threads, but does not work.
const MAX_SEARCH_STREAMS: usize = 32;

/// Time that a search waits until it may work.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(60);

/// The searches of a server.
#[derive(Debug)]
pub(crate) struct Searches {
    working: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

impl Default for Searches {
    fn default() -> Self {
        Self {
            working: Arc::new(Semaphore::new(MAX_SEARCHES)),
            streams: Arc::new(Semaphore::new(MAX_SEARCH_STREAMS)),
        }
    }
}

/// Permission to work.
#[derive(Debug)]
pub(crate) struct SearchPermit {
    _search: OwnedSemaphorePermit,
    _thread: OwnedSemaphorePermit,
}

impl Searches {
    /// Waits for permission to work.
    pub(crate) async fn permit(&self, threads: &FileThreads) -> Result<SearchPermit, ApiError> {
        permit(Arc::clone(&self.working), threads).await
    }

    /// The place of a stream, until it is dropped.
    pub(crate) fn stream(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        Arc::clone(&self.streams).try_acquire_owned().map_err(|e| match e {
            TryAcquireError::NoPermits => ApiError::too_many(&format!(
                "streams of searches; at most {MAX_SEARCH_STREAMS} at the same time, read one to its end first"
            )),
            TryAcquireError::Closed => ApiError::internal(e),
        })
    }

    /// A turn for the threads of a stream.
    pub(crate) fn turn(&self, permit: SearchPermit, threads: FileThreads) -> SearchTurn {
        let (permit, runtime) = (Mutex::new(Some(permit)), Handle::current());
        SearchTurn { permit, working: Arc::clone(&self.working), threads, runtime }
    }
}

async fn permit(working: Arc<Semaphore>, threads: &FileThreads) -> Result<SearchPermit, ApiError> {
    let waiting = tokio::time::timeout(SEARCH_TIMEOUT, working.acquire_owned());
    let Ok(search) = waiting.await else {
        let message =
            format!("{MAX_SEARCHES} searches are running, and none has ended within {SEARCH_TIMEOUT:?}");
        return Err(ApiError::new(ErrorCode::LimitExceeded, message)
            .suggest("retry later, or narrow the running searches with path and glob"));
    };
    let thread = threads.permit(STEP_TIMEOUT).await?;
    Ok(SearchPermit { _search: search.map_err(ApiError::internal)?, _thread: thread })
}

/// The permission of a search to work, which its threads give back while they wait for the client.
#[derive(Debug)]
pub(crate) struct SearchTurn {
    /// Locked while the search may not work, so that all its threads wait.
    permit: Mutex<Option<SearchPermit>>,
    working: Arc<Semaphore>,
    threads: FileThreads,
    runtime: Handle,
}

impl SearchTurn {
    /// Waits while the search may not work. Call it on a thread of the search.
    pub(crate) fn wait(&self) {
        drop(self.permit.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for something without permission to work, and then for the permission. Call it on a thread of the search.
    pub(crate) fn pause<T>(&self, waiting: impl Future<Output = T>) -> Result<T, ApiError> {
        let mut held = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
        *held = None;
        let done = self.runtime.block_on(waiting);
        *held = Some(self.runtime.block_on(permit(Arc::clone(&self.working), &self.threads))?);
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_paused_search_leaves_its_place() {
        let (searches, threads) = (Searches::default(), FileThreads::default());
        let mut turns = Vec::new();
        for _ in 0..MAX_SEARCHES {
            let permit = searches.permit(&threads).await.unwrap();
            turns.push(Arc::new(searches.turn(permit, threads.clone())));
        }
        let (resume, paused) = tokio::sync::oneshot::channel::<()>();
        let turn = Arc::clone(&turns[0]);
        let pausing = std::thread::spawn(move || turn.pause(paused).map(drop).map_err(|e| e.code()));
        // Another one works meanwhile.
        let other = searches.permit(&threads).await.unwrap();
        resume.send(()).unwrap();
        drop(other);
        tokio::task::spawn_blocking(|| pausing.join().unwrap().unwrap()).await.unwrap();
        turns[0].wait();
    }
}
