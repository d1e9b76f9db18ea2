//! [`Watch`]: a stream of changes.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::coalesce::coalesce;
use super::options::{ResyncReason, WatchError, WatchEvent, WatchOptions};
use super::tree::Tree;
use crate::error::FileError;

/// Changes of one path within this time are one event.
pub const COALESCE_WINDOW: Duration = Duration::from_millis(10);

/// Maximum number of events that wait for the reader. More become one resync.
pub const MAX_QUEUED_EVENTS: usize = 8192;

/// Maximum size of the events that wait for the reader.
pub const MAX_QUEUED_BYTES: usize = 1 << 20;

/// Interval at which the place of the root is checked. The kernel does not report that a parent has been moved.
const ROOT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The same while the root does not exist.
const MISSING_ROOT_INTERVAL: Duration = Duration::from_millis(50);

/// Stack of the thread. It only reads events and scans directories, without recursion.
const STACK_BYTES: usize = 256 << 10;

/// A stream of changes. Its thread ends when this is dropped.
#[derive(Debug)]
pub struct Watch {
    queue: Arc<Mutex<Queue>>,
    /// Closed to end the thread.
    _stop: OwnedFd,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<WatchEvent>,
    bytes: usize,
    /// Why the watch has ended.
    failure: Option<WatchError>,
}

impl Queue {
    fn push(&mut self, event: WatchEvent) {
        self.bytes += size(&event);
        self.events.push_back(event);
        if self.events.len() > MAX_QUEUED_EVENTS || self.bytes > MAX_QUEUED_BYTES {
            self.events = VecDeque::from([WatchEvent::Resync(ResyncReason::SlowReader)]);
            self.bytes = 0;
        }
    }
}

fn size(event: &WatchEvent) -> usize {
    match event {
        WatchEvent::Change(change) => size_of::<WatchEvent>() + change.path.as_os_str().len(),
        WatchEvent::Resync(_) => 0,
    }
}

impl Watch {
    /// Watches a directory. Changes after the return are reported. `wake` is called when there are events.
    ///
    /// The thread has the permissions of the calling thread.
    pub fn open(
        root: &Path,
        options: &WatchOptions,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self, WatchError> {
        let tree = Tree::open(root, options)?;
        let failed = |e: std::io::Error| WatchError::File(FileError::of(root, e));
        let (stopped, stop) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let queue = Arc::new(Mutex::new(Queue::default()));
        let thread = Thread { tree, stopped, queue: Arc::clone(&queue), wake };
        // The kernel gives a new thread the credentials of the thread that creates it.
        std::thread::Builder::new()
            .name("watch".into())
            .stack_size(STACK_BYTES)
            .spawn(move || thread.run_to_end())
            .map_err(failed)?;
        Ok(Self { queue, _stop: stop })
    }

    /// Takes the next event. `None`: there is none yet.
    ///
    /// Fails after the last event of a watch that cannot continue.
    pub fn take(&self) -> Result<Option<WatchEvent>, WatchError> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(event) = queue.events.pop_front() else {
            return queue.failure.take().map_or(Ok(None), Err);
        };
        queue.bytes = queue.bytes.saturating_sub(size(&event));
        if queue.events.is_empty() {
            // Frees the memory of a burst.
            queue.events = VecDeque::new();
        }
        Ok(Some(event))
    }
}

#[cfg(test)]
impl Watch {
    /// Whether the next event is a resync.
    pub(super) fn next_is_resync(&self) -> bool {
        let queue = self.queue.lock().unwrap();
        matches!(queue.events.front(), Some(WatchEvent::Resync(_)))
    }
}

struct Thread<W> {
    tree: Tree,
    stopped: OwnedFd,
    queue: Arc<Mutex<Queue>>,
    wake: W,
}

/// What a wait ended with.
enum Wait {
    Changes,
    Timeout,
    Stopped,
}

impl<W: Fn()> Thread<W> {
    fn run_to_end(mut self) {
        if let Err(failure) = self.run() {
            self.queue.lock().unwrap_or_else(PoisonError::into_inner).failure = Some(failure);
            (self.wake)();
        }
    }

    fn run(&mut self) -> Result<(), WatchError> {
        let mut batch = Vec::new();
        loop {
            let interval = if self.tree.has_root() { ROOT_CHECK_INTERVAL } else { MISSING_ROOT_INTERVAL };
            match self.wait(interval) {
                Wait::Stopped => return Ok(()),
                Wait::Timeout => {
                    self.tree.check_root(&mut batch)?;
                    self.tree.settle();
                }
                Wait::Changes => {
                    let end = Instant::now() + COALESCE_WINDOW;
                    self.tree.read(&mut batch)?;
                    while let left = end.saturating_duration_since(Instant::now())
                        && !left.is_zero()
                        && batch.len() < MAX_QUEUED_EVENTS
                    {
                        match self.wait(left) {
                            Wait::Stopped => return Ok(()),
                            Wait::Timeout => break,
                            Wait::Changes => self.tree.read(&mut batch)?,
                        };
                    }
                    self.tree.settle();
                }
            }
            self.deliver(&mut batch);
        }
    }

    fn wait(&self, timeout: Duration) -> Wait {
        let tree = self.tree.descriptor();
        let mut descriptors = [
            PollFd::new(&tree, PollFlags::IN),
            PollFd::from_borrowed_fd(self.stopped.as_fd(), PollFlags::IN),
        ];
        // Never fails: the times are short.
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut descriptors, timeout.as_ref()) {
            Ok(0) | Err(_) => Wait::Timeout,
            Ok(_) if !descriptors[1].revents().is_empty() => Wait::Stopped,
            Ok(_) => Wait::Changes,
        }
    }

    fn deliver(&self, batch: &mut Vec<WatchEvent>) {
        coalesce(batch);
        if batch.is_empty() {
            return;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        // A new vector, so that a burst does not keep its memory.
        for event in std::mem::take(batch) {
            queue.push(event);
        }
        drop(queue);
        (self.wake)();
    }
}
