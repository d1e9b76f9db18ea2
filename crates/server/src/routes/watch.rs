//! Watches: `/api/watch` and `/api/watch/check`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use futures_util::stream;
use sandcrab_api::watch::{
    ChangeKind, ExpiryReason, ResyncReason, WatchChangeEvent, WatchCheckRequest, WatchCheckResponse,
    WatchEvent, WatchRequest, WatchResyncEvent, WatchStartedEvent, WatchStatus, WatchStoppedEvent,
};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_workspace::{Change, CheckError, CheckStatus, Checks, Watch, WatchError, WatchOptions};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::app::App;
use crate::convert;
use crate::error::ApiError;
use crate::events::{Event, EventStream, HEARTBEAT, Item};
use crate::files::{Files, GivenPath};
use crate::input::Json;
use crate::layer::RequestId;
use crate::origin::Origin;
use crate::routes::execute::SessionQuery;

/// Maximum number of watches at the same time.
const MAX_WATCHES: usize = 64;

/// The watches of a server.
#[derive(Debug)]
pub(crate) struct Watches {
    free: Arc<Semaphore>,
    checks: Arc<Checks>,
}

impl Default for Watches {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(MAX_WATCHES)), checks: Arc::default() }
    }
}

impl From<WatchError> for ApiError {
    fn from(e: WatchError) -> Self {
        let message = e.to_string();
        match e {
            WatchError::File(e) => e.into(),
            WatchError::InvalidGlob(why) => Self::invalid("include or exclude", why),
            WatchError::NoWatchesLeft | WatchError::NoInstancesLeft | WatchError::TooManyDirectories => {
                Self::new(ErrorCode::LimitExceeded, message)
            }
        }
    }
}

impl From<CheckError> for ApiError {
    fn from(e: CheckError) -> Self {
        match e {
            CheckError::Watch(e) => e.into(),
            CheckError::InvalidVersion => {
                Self::invalid("since", e).suggest("omit it to get the current version")
            }
        }
    }
}

/// The options of a watch. The reference's client sends empty lists for none.
fn options(
    recursive: Option<bool>,
    include: Option<Vec<String>>,
    exclude: Option<Vec<String>>,
    events: Option<Vec<ChangeKind>>,
) -> Result<WatchOptions, ApiError> {
    let given = |globs: Option<Vec<String>>| globs.filter(|globs| !globs.is_empty());
    let (include, exclude) = (given(include), given(exclude));
    let default = WatchOptions::default();
    let (include, exclude) = match (include, exclude) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("exclude", "cannot be used together with include")
                .suggest("use include for what is reported, or exclude for what is not"));
        }
        (Some(include), None) => (include, Vec::new()),
        (None, exclude) => (Vec::new(), exclude.unwrap_or(default.exclude)),
    };
    let mut kinds: Vec<_> = events.unwrap_or_default().into_iter().map(kind_of).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.is_empty() {
        kinds = default.kinds;
    }
    Ok(WatchOptions { is_recursive: recursive != Some(false), include, exclude, kinds })
}

fn kind_of(kind: ChangeKind) -> sandcrab_workspace::ChangeKind {
    match kind {
        ChangeKind::Create => sandcrab_workspace::ChangeKind::Create,
        ChangeKind::Modify => sandcrab_workspace::ChangeKind::Modify,
        ChangeKind::Delete => sandcrab_workspace::ChangeKind::Delete,
        ChangeKind::MoveFrom => sandcrab_workspace::ChangeKind::MoveFrom,
        ChangeKind::MoveTo => sandcrab_workspace::ChangeKind::MoveTo,
        ChangeKind::Attrib => sandcrab_workspace::ChangeKind::Attrib,
    }
}

fn event_type(kind: sandcrab_workspace::ChangeKind) -> ChangeKind {
    match kind {
        sandcrab_workspace::ChangeKind::Create => ChangeKind::Create,
        sandcrab_workspace::ChangeKind::Modify => ChangeKind::Modify,
        sandcrab_workspace::ChangeKind::Delete => ChangeKind::Delete,
        sandcrab_workspace::ChangeKind::MoveFrom => ChangeKind::MoveFrom,
        sandcrab_workspace::ChangeKind::MoveTo => ChangeKind::MoveTo,
        sandcrab_workspace::ChangeKind::Attrib => ChangeKind::Attrib,
    }
}

/// The stream of a watch.
struct Streamed {
    app: App,
    watch: Watch,
    /// Notified when there are events.
    woken: Arc<Notify>,
    /// The first event, until it is sent.
    first: Option<WatchStartedEvent>,
    /// When the watch ends.
    deadline: Option<Instant>,
    is_over: bool,
    _permit: OwnedSemaphorePermit,
}

/// Streams the changes of a directory, or of a single file, as they happen.
///
/// The stream begins when all directories are watched. Changes of one path within 10 ms are one event. The watch ends when the
/// client disconnects. A server that stops sends an `error` with the code `SHUTTING_DOWN`: begin the watch again.
#[utoipa::path(post, path = "/api/watch", operation_id = "watch", tag = "watch", params(SessionQuery),
    request_body = WatchRequest, responses((status = 200,
        description = "Events: `watching`, then `event` and `resync`, then `stopped` or `error`.",
        body = WatchEvent, content_type = "text/event-stream")))]
pub(crate) async fn watch(
    State(app): State<App>,
    files: Files,
    id: RequestId,
    request: Json<WatchRequest>,
) -> Result<EventStream, ApiError> {
    let WatchRequest { path, path_base64, session_id, recursive, include, exclude, events, timeout_ms } =
        request.value;
    let given = GivenPath::new("path", path, path_base64)?;
    let options = options(recursive, include, exclude, events)?;
    let place = files.place(session_id).await?;
    let path = place.resolve(&given)?;
    app.check_open()?;
    let permit = Arc::clone(&app.watches.free).try_acquire_owned().map_err(|_| {
        ApiError::too_many(&format!("watches; at most {MAX_WATCHES} at the same time, end one first"))
    })?;
    let woken = Arc::new(Notify::new());
    let wake = Arc::clone(&woken);
    let watch = place.run_search(move || Watch::open(&path, &options, move || wake.notify_one())).await?;
    let first = WatchStartedEvent {
        path: given.shown(),
        watch_id: app.watches.checks.new_id(),
        timestamp: Timestamp::now(),
    };
    let deadline = timeout_ms.and_then(|timeout| Instant::now().checked_add(Duration::from_millis(timeout)));
    let state = Streamed { app, watch, woken, first: Some(first), deadline, is_over: false, _permit: permit };
    Ok(EventStream::new(stream::unfold(state, next), Origin::request(id)))
}

async fn next(mut state: Streamed) -> Option<(Item, Streamed)> {
    if state.is_over {
        return None;
    }
    let event = match state.first.take() {
        Some(first) => WatchEvent::Watching(first),
        None => loop {
            match state.watch.take() {
                Ok(Some(event)) => break event_of(event),
                Ok(None) => {}
                Err(failure) => {
                    state.is_over = true;
                    break failed(&failure.into());
                }
            }
            let last = tokio::select! {
                () = state.woken.notified() => continue,
                () = tokio::time::sleep(HEARTBEAT) => return Some((Item::Heartbeat, state)),
                () = passed(state.deadline) => WatchEvent::Stopped(WatchStoppedEvent {
                    reason: "timeout".into(),
                    timestamp: Timestamp::now(),
                }),
                // An error, as in other streams: the watch was not to end yet, and a client begins it again.
                () = state.app.stopping.begun() => failed(&ApiError::shutting_down()),
            };
            state.is_over = true;
            break last;
        },
    };
    Some((Item::Event(Box::new(Event { id: None, payload: event.into() })), state))
}

/// Waits for a deadline, if there is one.
async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn event_of(event: sandcrab_workspace::WatchEvent) -> WatchEvent {
    let timestamp = Timestamp::now();
    match event {
        sandcrab_workspace::WatchEvent::Change(Change { kind, path, is_directory, cookie }) => {
            let (path, path_base64) = convert::path(&path);
            WatchEvent::Event(WatchChangeEvent {
                event_type: event_type(kind),
                path,
                path_base64,
                is_directory,
                move_id: (cookie != 0).then_some(cookie),
                timestamp,
            })
        }
        sandcrab_workspace::WatchEvent::Resync(reason) => WatchEvent::Resync(WatchResyncEvent {
            reason: match reason {
                sandcrab_workspace::ResyncReason::KernelOverflow => ResyncReason::Overflow,
                sandcrab_workspace::ResyncReason::SlowReader => ResyncReason::SlowReader,
                sandcrab_workspace::ResyncReason::Replaced => ResyncReason::Replaced,
            },
            timestamp,
        }),
    }
}

fn failed(error: &ApiError) -> WatchEvent {
    WatchEvent::Error(error.event())
}

/// Returns whether a directory has changed since a version.
///
/// A version is kept for ten minutes after its last use. The same path and options must be given.
#[utoipa::path(post, path = "/api/watch/check", operation_id = "checkWatch", tag = "watch", params(SessionQuery),
    request_body = WatchCheckRequest,
    responses((status = 200, description = "Whether it has changed.", body = WatchCheckResponse)))]
pub(crate) async fn check(
    State(app): State<App>,
    files: Files,
    request: Json<WatchCheckRequest>,
) -> Result<axum::Json<WatchCheckResponse>, ApiError> {
    let request = request.value;
    let given = GivenPath::new("path", request.path, request.path_base64)?;
    let options = options(request.recursive, request.include, request.exclude, request.events)?;
    let place = files.place(request.session_id).await?;
    let path = place.resolve(&given)?;
    let checks = Arc::clone(&app.watches.checks);
    let since = request.since;
    let checked = place.run_search(move || checks.check(&path, &options, since.as_deref())).await?;
    let (status, reason) = match checked.status {
        CheckStatus::Unchanged => (WatchStatus::Unchanged, None),
        CheckStatus::Changed => (WatchStatus::Changed, None),
        CheckStatus::Restarted => (WatchStatus::Resync, Some(ExpiryReason::Restarted)),
        CheckStatus::Expired => (WatchStatus::Resync, Some(ExpiryReason::Expired)),
    };
    let version = checked.version;
    Ok(axum::Json(WatchCheckResponse { success: true, status, version, reason, timestamp: Timestamp::now() }))
}
