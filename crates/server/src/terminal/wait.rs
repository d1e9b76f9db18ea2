//! Waits until the screen of a terminal has a text, or does not change.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sandcrab_api::ErrorCode;
use sandcrab_screen::Screen;
use tokio::time::{Instant, sleep, sleep_until};

use super::hub::{Hub, ScreenGuard, blocking, is_quick_size};
use super::matching::{Match, Pattern, ScreenText};
use crate::error::ApiError;
use crate::stopping::Stopping;

/// Minimum time between two looks at the screen of a program that writes all the time.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Time that a search may take at least, also after the timeout of its wait.
const SEARCH_TIME: Duration = Duration::from_secs(5);
/// Size of a screen above which a text is searched for on a blocking thread.
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
    let (mut last, mut shown) = (None, None);
    // When the screen last changed, as far as that is known.
    let mut changed_at = instant(hub.terminal.last_activity());
    loop {
        // Both before the screen is read, so that nothing is missed.
        positions.mark_unchanged();
        sizes.mark_unchanged();
        let is_ended = execution.status().end().is_some();
        let screen = hub.present_screen().await?;
        let changes = screen.emulator().changes();
        let is_new = last.replace(changes).is_none_or(|before| before != changes);
        // Other clients wait for it, so it is not kept during the wait.
        let screen = is_new.then_some(screen);
        let mut idle_at = None;
        match &condition {
            Condition::Shows(pattern) => {
                if let Some(screen) = screen {
                    let text = read(screen, ScreenText::of).await;
                    // Also a wait whose time is over sees what is on the screen now.
                    let latest = deadline.map(|deadline| deadline.max(Instant::now() + SEARCH_TIME));
                    let found = tokio::select! {
                        found = search(hub, text, pattern) => found,
                        () = passed(latest) => return Err(timed_out(hub)),
                        () = stopping.begun() => return Err(ApiError::shutting_down()),
                    };
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                if is_ended {
                    let message = "the terminal has ended, and its screen does not match";
                    return Err(ApiError::new(ErrorCode::ProcessEnded, message)
                        .suggest("GET /api/terminal/{id}/screen shows its last screen"));
                }
            }
            Condition::Idle(time) => {
                if is_ended {
                    return Ok(None);
                }
                let active_at = instant(hub.terminal.last_activity());
                // Output that paints the same again is not a change. The first look finds changes of the past.
                if let Some(screen) = screen
                    && is_change(&mut shown, read(screen, Screen::digest).await)
                {
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
            return Err(timed_out(hub));
        }
        let next = idle_at.into_iter().chain(deadline).min();
        tokio::select! {
            _ = positions.changed() => {
                let most = next.map_or(LOOK_INTERVAL, |next| next.saturating_duration_since(Instant::now()));
                sleep(LOOK_INTERVAL.min(most)).await;
            }
            Ok(()) = sizes.changed() => {}
            _ = execution.wait(), if !is_ended => {}
            () = passed(next) => {}
            () = stopping.begun() => return Err(ApiError::shutting_down()),
        }
    }
}

/// Whether the screen differs from the one before.
fn is_change(shown: &mut Option<u64>, digest: u64) -> bool {
    shown.replace(digest) != Some(digest)
}

/// Reads the whole screen and releases it. A large one is read on another thread, because it would delay other clients.
async fn read<T: Send + 'static>(screen: ScreenGuard, read: fn(&Screen) -> T) -> T {
    if is_quick_size(screen.emulator().size()) {
        return read(&screen.emulator().screen);
    }
    blocking(move || read(&screen.emulator().screen)).await
}

fn timed_out(hub: &Hub) -> ApiError {
    let message = "the condition was not met within the timeout; the terminal continues to run";
    ApiError::new(ErrorCode::WaitTimeout, message).with("terminalId", hub.terminal.id().as_str())
}

/// Waits until a time has passed, if there is one.
async fn passed(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Searches a screen. Finding a text takes a time that only depends on the screen. An expression may take seconds, and cannot be
/// interrupted. So it is searched for on a blocking thread, and the number of such searches is bounded.
async fn search(hub: &Hub, text: ScreenText, pattern: &Pattern) -> Option<Match> {
    if matches!(pattern, Pattern::Text(_)) && text.len() <= QUICK_SEARCH_BYTES {
        return text.find(pattern);
    }
    let permit = hub.terminals().search_permit().await;
    let pattern = pattern.clone();
    blocking(move || {
        let found = text.find(&pattern);
        drop(permit);
        found
    })
    .await
}

/// A time of the past as an instant; now, if it is not in the past.
fn instant(time: SystemTime) -> Instant {
    let now = Instant::now();
    let ago = SystemTime::now().duration_since(time).unwrap_or_default();
    now.checked_sub(ago).unwrap_or(now)
}
