//! Waits until the screen of a terminal has a text, or does not change.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sandcrab_api::ErrorCode;
use tokio::time::{Instant, sleep, sleep_until};

use super::hub::{Hub, blocking};
use super::matching::{Match, Pattern, ScreenText};
use crate::error::ApiError;
use crate::stopping::Stopping;
use crate::summary::with_retries;

/// Minimum time between two looks at the screen of a program that writes all the time.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Size of a screen above which it is searched on a blocking thread.
const QUICK_SEARCH_BYTES: usize = 16 << 10;

/// What to wait for.
#[derive(Debug)]
pub(crate) enum Condition {
    Shows(Pattern),
    Idle(Duration),
}

/// Waits. A match, if the condition is about text.
pub(crate) async fn wait(
    hub: &Arc<Hub>,
    condition: Condition,
    timeout: Option<Duration>,
    stopping: &Stopping,
) -> Result<Option<Match>, ApiError> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let execution = hub.terminal.execution();
    let _guard = hub.begin_wait();
    let (mut positions, mut sizes) = (hub.positions(), hub.terminal.sizes());
    let mut last = None;
    // When the screen last changed, as far as that is known.
    let mut changed_at = instant(hub.terminal.last_activity());
    loop {
        // Both before the screen is read, so that nothing is missed.
        positions.mark_unchanged();
        sizes.mark_unchanged();
        let is_ended = execution.status().end().is_some();
        let screen = with_retries(|| hub.screen()).await?;
        let changes = screen.emulator().screen.changes();
        let is_new = last.replace(changes).is_none_or(|before| before != changes);
        let mut idle_at = None;
        match &condition {
            Condition::Shows(pattern) => {
                let text = is_new.then(|| ScreenText::of(&screen.emulator().screen));
                drop(screen);
                if let Some(text) = text
                    && let Some(found) = search(text, pattern).await
                {
                    return Ok(Some(found));
                }
                if is_ended {
                    let message = "the terminal has ended, and its screen does not match";
                    return Err(ApiError::new(ErrorCode::ProcessEnded, message)
                        .suggest("GET /api/terminal/{id}/screen shows its last screen"));
                }
            }
            Condition::Idle(time) => {
                drop(screen);
                if is_ended {
                    return Ok(None);
                }
                // The first look finds changes of the past.
                let active_at = instant(hub.terminal.last_activity());
                if is_new {
                    changed_at = changed_at.max(active_at);
                }
                let at = changed_at + *time;
                if at <= Instant::now() {
                    return Ok(None);
                }
                idle_at = Some(at);
            }
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            let message = "the screen has not become as requested within the timeout; the terminal continues";
            return Err(
                ApiError::new(ErrorCode::WaitTimeout, message).with("terminalId", hub.terminal.id().as_str())
            );
        }
        let far = Instant::now() + Duration::from_secs(3600);
        let next = idle_at.into_iter().chain(deadline).min().unwrap_or(far);
        tokio::select! {
            _ = positions.changed() => {
                sleep(LOOK_INTERVAL.min(next.saturating_duration_since(Instant::now()))).await;
            }
            Ok(()) = sizes.changed() => {}
            _ = execution.wait(), if !is_ended => {}
            () = sleep_until(next) => {}
            () = stopping.cut_off() => return Err(ApiError::shutting_down()),
        }
    }
}

async fn search(text: ScreenText, pattern: &Pattern) -> Option<Match> {
    if text.len() <= QUICK_SEARCH_BYTES {
        return text.find(pattern);
    }
    let pattern = pattern.clone();
    blocking(move || text.find(&pattern)).await
}

/// A time of the past as an instant; now, if it is not in the past.
fn instant(time: SystemTime) -> Instant {
    let now = Instant::now();
    let ago = SystemTime::now().duration_since(time).unwrap_or_default();
    now.checked_sub(ago).unwrap_or(now)
}
