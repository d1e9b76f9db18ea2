//! Search in files: `/api/search`.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use sandcrab_api::search::{
    SearchCompleteEvent, SearchEvent, SearchMatch, SearchMatchEvent, SearchRequest, SearchResponse,
};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_workspace::{
    Cancel, CancelOnDrop, FileMatches, Match, Pattern, SearchError, SearchOptions, SearchReceiver,
    SearchSummary, WalkOptions,
};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::app::App;
use crate::convert;
use crate::error::ApiError;
use crate::events::{Event, EventStream, HEARTBEAT, Item};
use crate::files::{Files, GivenPath, Place};
use crate::input::{Json, accepts_events};
use crate::json_list::JsonList;
use crate::layer::RequestId;
use crate::origin::Origin;
use crate::routes::execute::SessionQuery;
use crate::searches::SearchTurn;

/// Default of `maxMatches`.
const DEFAULT_MATCHES: u32 = 1000;

/// Maximum size of the results in a JSON response.
pub(crate) const MAX_RESULT_BYTES: usize = 8 << 20;

/// Number of lists of matches that wait for a client, of about 64 KiB each.
const QUEUED_LISTS: usize = 4;

/// A search ends if its client takes no match for this time.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

impl From<SearchError> for ApiError {
    fn from(e: SearchError) -> Self {
        match e {
            SearchError::InvalidPattern(why) => Self::invalid("pattern", why),
            SearchError::InvalidGlob(why) => Self::invalid("glob", why),
            SearchError::File(e) => e.into(),
        }
    }
}

/// Refuses a number outside its range.
pub(crate) fn in_range(
    field: &str,
    given: u32,
    range: std::ops::RangeInclusive<u32>,
) -> Result<u32, ApiError> {
    if range.contains(&given) {
        return Ok(given);
    }
    Err(ApiError::invalid(field, format!("expected {} to {}, found {given}", range.start(), range.end())))
}

fn options(request: SearchRequest) -> Result<SearchOptions, ApiError> {
    let context_lines = in_range("contextLines", request.context_lines.unwrap_or(0), 0..=50)?;
    let max_matches = in_range("maxMatches", request.max_matches.unwrap_or(DEFAULT_MATCHES), 1..=100_000)?;
    Ok(SearchOptions {
        pattern: Pattern {
            text: request.pattern,
            is_regex: request.regex == Some(true),
            is_case_sensitive: request.case_sensitive != Some(false),
            is_word: request.word == Some(true),
        },
        walk: WalkOptions {
            globs: request.glob.unwrap_or_default(),
            visits_hidden: request.hidden == Some(true),
            respects_ignore_files: request.ignore_files != Some(false),
        },
        context_lines: context_lines as usize,
        max_matches: max_matches.into(),
        max_bytes: MAX_RESULT_BYTES,
    })
}

/// Searches files for lines that contain a text or match a regular expression.
///
/// With `Accept: text/event-stream`, matches are sent as they are found. Binary files, which contain a NUL byte, are left
/// out. Symbolic links are not followed, except `path` itself. The search ends when the client disconnects.
#[utoipa::path(post, path = "/api/search", operation_id = "search", tag = "search", params(SessionQuery),
    request_body = SearchRequest, responses((status = 200, description = "The matching lines.",
        content((SearchResponse = "application/json"), (SearchEvent = "text/event-stream")))))]
pub(crate) async fn search(
    State(app): State<App>,
    files: Files,
    id: RequestId,
    headers: HeaderMap,
    mut request: Json<SearchRequest>,
) -> Result<Response, ApiError> {
    let SearchRequest { path, path_base64, session_id, .. } = &mut request.value;
    let given = GivenPath::new("path", path.take(), path_base64.take())?;
    let place = files.place(session_id.take()).await?;
    let path = place.resolve(&given)?;
    let options = options(request.value)?;
    if accepts_events(&headers) {
        return streamed(app, place, path, options, id).await;
    }
    let cancel = Cancel::default();
    let _cancel = cancel.on_drop();
    let has_context = options.context_lines > 0;
    let permit = app.searches.permit(&place.sandbox.file_threads).await?;
    // Serializing many matches takes a while too.
    let work =
        move || collect(&path, &options, &cancel).map(|(found, summary)| json(found, &summary, has_context));
    let json = place.run_permitted(permit, work).await?;
    app.outgoing.json_bytes(json.map_err(ApiError::internal)?)
}

/// The response.
fn json(found: Vec<FileMatches>, summary: &SearchSummary, has_context: bool) -> serde_json::Result<Vec<u8>> {
    let mut matches = JsonList::new("matches");
    for found in found.into_iter().flat_map(|file| converted(file, has_context)) {
        matches.push(&found);
    }
    matches.finish(&SearchResponse {
        success: true,
        matches: Vec::new(),
        files_searched: summary.files_searched,
        unreadable: summary.unreadable,
        truncated: summary.is_truncated,
        timestamp: Timestamp::now(),
    })
}

/// Searches, and sorts the matches.
fn collect(
    path: &Path,
    options: &SearchOptions,
    cancel: &Cancel,
) -> Result<(Vec<FileMatches>, SearchSummary), SearchError> {
    let found = Mutex::new(Vec::new());
    let summary = sandcrab_workspace::search(path, options, cancel, &|mut matches: FileMatches| {
        // Most files have one match, and their lists room for four.
        matches.matches.shrink_to_fit();
        found.lock().unwrap_or_else(PoisonError::into_inner).push(matches);
        ControlFlow::Continue(())
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Stable: the lists of one file stay in their order.
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((found, summary))
}

fn converted(file: FileMatches, has_context: bool) -> impl Iterator<Item = SearchMatch> {
    let (path, path_base64) = convert::path(&file.path);
    file.matches.into_iter().map(move |found| {
        let Match { line, column, text, text_column, is_cut, before, after } = found;
        let lines = |shared: Vec<Arc<str>>| shared.iter().map(|line| String::from(&**line)).collect();
        SearchMatch {
            path: path.clone(),
            path_base64: path_base64.clone(),
            line,
            column,
            text,
            text_column: (text_column > 1).then_some(text_column),
            cut: is_cut,
            before: has_context.then(|| lines(before)),
            after: has_context.then(|| lines(after)),
        }
    })
}

/// What the threads of a search send to its stream.
enum SearchMessage {
    Matches(FileMatches),
    End(Result<SearchSummary, ApiError>),
}

/// The stream of a search.
struct Streamed {
    app: App,
    found: mpsc::Receiver<SearchMessage>,
    ready: VecDeque<SearchMatch>,
    has_context: bool,
    is_over: bool,
    /// Ends the search when the client disconnects.
    _cancel: CancelOnDrop,
}

async fn streamed(
    app: App,
    place: Place,
    path: PathBuf,
    options: SearchOptions,
    id: RequestId,
) -> Result<Response, ApiError> {
    app.check_open()?;
    let options = Arc::new(SearchOptions { max_bytes: usize::MAX, ..options });
    let stream = app.searches.stream()?;
    let permit = app.searches.permit(&place.sandbox.file_threads).await?;
    // An invalid request is answered with an error status, not with an event.
    let (checked, root) = (Arc::clone(&options), path.clone());
    place.run_permitted((), move || sandcrab_workspace::check_search(&root, &checked)).await?;

    let cancel = Cancel::default();
    let (sender, found) = mpsc::channel(QUEUED_LISTS);
    let has_context = options.context_lines > 0;
    let state = Streamed {
        app: Arc::clone(&app),
        found,
        ready: VecDeque::new(),
        has_context,
        is_over: false,
        _cancel: cancel.on_drop(),
    };
    let turn = app.searches.turn(permit, place.sandbox.file_threads.clone());
    app.tasks.spawn(async move {
        let receiver = StreamReceiver { turn, matches: sender.clone(), cut_off: Mutex::new(None) };
        let work = move || {
            let outcome = sandcrab_workspace::search(&path, &options, &cancel, &receiver);
            let cut_off = receiver.cut_off.into_inner().unwrap_or_else(PoisonError::into_inner);
            cut_off.map_or_else(|| outcome.map_err(ApiError::from), Err)
        };
        let outcome = place.run_permitted(stream, work).await;
        // Without a receiver, the client has disconnected.
        drop(sender.send_timeout(SearchMessage::End(outcome), CLIENT_TIMEOUT).await);
    });
    Ok(EventStream::new(stream::unfold(state, next), Origin::request(id)).into_response())
}

/// Sends matches to a stream. A search works only while its client reads.
struct StreamReceiver {
    turn: SearchTurn,
    matches: mpsc::Sender<SearchMessage>,
    /// Why the search ended early.
    cut_off: Mutex<Option<ApiError>>,
}

impl SearchReceiver for StreamReceiver {
    fn deliver(&self, file: FileMatches) -> ControlFlow<()> {
        let full = match self.matches.try_send(SearchMessage::Matches(file)) {
            Ok(()) => return ControlFlow::Continue(()),
            Err(TrySendError::Full(full)) => full,
            Err(TrySendError::Closed(_)) => return ControlFlow::Break(()),
        };
        let too_many = || ApiError::too_many("unread matches; read them faster, or lower maxMatches");
        let failure = match self.turn.pause(self.matches.send_timeout(full, CLIENT_TIMEOUT)) {
            Ok(Ok(())) => return ControlFlow::Continue(()),
            Ok(Err(_)) => too_many(),
            Err(error) => error,
        };
        self.cut_off.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        ControlFlow::Break(())
    }

    fn before_file(&self) {
        self.turn.wait();
    }
}

async fn next(mut state: Streamed) -> Option<(Item, Streamed)> {
    if state.is_over {
        return None;
    }
    let event = loop {
        if let Some(found) = state.ready.pop_front() {
            break match_event(found);
        }
        let found = tokio::select! {
            found = state.found.recv() => found,
            () = tokio::time::sleep(HEARTBEAT) => return Some((Item::Heartbeat, state)),
            () = state.app.stopping.cut_off() => Some(SearchMessage::End(Err(ApiError::shutting_down()))),
        };
        match found {
            Some(SearchMessage::Matches(file)) => state.ready = converted(file, state.has_context).collect(),
            Some(SearchMessage::End(outcome)) => {
                state.is_over = true;
                break end_event(outcome);
            }
            None => {
                state.is_over = true;
                break end_event(Err(ApiError::new(
                    ErrorCode::LimitExceeded,
                    "the client did not read the matches in time; read faster, or lower maxMatches",
                )));
            }
        }
    };
    Some((Item::Event(Box::new(Event { id: None, payload: event.into() })), state))
}

fn match_event(found: SearchMatch) -> SearchEvent {
    let SearchMatch { path, path_base64, line, column, text, text_column, cut, before, after } = found;
    let timestamp = Timestamp::now();
    SearchEvent::Match(SearchMatchEvent {
        path,
        path_base64,
        line,
        column,
        text,
        text_column,
        cut,
        before,
        after,
        timestamp,
    })
}

fn end_event(outcome: Result<SearchSummary, ApiError>) -> SearchEvent {
    let timestamp = Timestamp::now();
    match outcome {
        Ok(summary) => SearchEvent::Complete(SearchCompleteEvent {
            matches: summary.matches,
            files_searched: summary.files_searched,
            unreadable: summary.unreadable,
            truncated: summary.is_truncated,
            timestamp,
        }),
        Err(error) => SearchEvent::Error(error.event()),
    }
}
