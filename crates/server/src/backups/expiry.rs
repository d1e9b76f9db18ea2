//! The task that removes expired backups.

use std::time::{Duration, SystemTime};

use crate::app::App;
use crate::files::Place;

/// Maximum time between two looks, because the clock may be changed.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// Removes expired backups until the server stops.
pub(crate) async fn run(app: App) {
    let place = Place::of_sandbox(app.sandbox.clone()).as_server();
    loop {
        let store = app.backups.clone();
        // Created before the look, so that a backup that is created meanwhile is noticed.
        let changed = app.backup_created.notified();
        let next = match place.run_search(move || store.expire()).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(error = error.message(), "expired backups could not be removed");
                None
            }
        };
        let pause = next.and_then(|next| next.duration_since(SystemTime::now()).ok());
        tokio::select! {
            () = tokio::time::sleep(pause.unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE)) => {}
            () = changed => {}
            () = app.stopping.begun() => return,
        }
    }
}
