//! [`Stopping`]: the state of a shutdown.

use tokio_util::sync::CancellationToken;

/// Whether the server is stopping, and whether its drain window is over. A handle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stopping {
    stopping: CancellationToken,
    over: CancellationToken,
}

impl Stopping {
    /// Refuses new work from now on.
    pub(crate) fn begin(&self) {
        self.stopping.cancel();
    }

    /// Ends what still runs.
    pub(crate) fn cut(&self) {
        self.over.cancel();
    }

    /// Whether new work is refused.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// A token that is cancelled when new work is refused.
    pub(crate) fn token(&self) -> CancellationToken {
        self.stopping.child_token()
    }

    /// Waits until new work is refused.
    pub(crate) async fn begun(&self) {
        self.stopping.cancelled().await;
    }

    /// Waits until the drain window is over.
    pub(crate) async fn cut_off(&self) {
        self.over.cancelled().await;
    }
}
