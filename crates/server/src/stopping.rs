//! [`Stopping`]: whether the server is on its way out.

use tokio_util::sync::CancellationToken;

/// Whether the server is stopping, and whether its patience is over. A handle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stopping {
    stopping: CancellationToken,
    over: CancellationToken,
}

impl Stopping {
    /// No new work from now on.
    pub(crate) fn begin(&self) {
        self.stopping.cancel();
    }

    /// What still runs is cut off.
    pub(crate) fn cut(&self) {
        self.over.cancel();
    }

    /// Whether new work is refused.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Waits until new work is refused.
    pub(crate) async fn begun(&self) {
        self.stopping.cancelled().await;
    }

    /// Waits until what still runs is cut off.
    pub(crate) async fn cut_off(&self) {
        self.over.cancelled().await;
    }
}
