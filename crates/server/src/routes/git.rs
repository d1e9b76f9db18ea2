//! Git: cloning a repository, and working with one.

use std::path::PathBuf;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use sandcrab_api::Timestamp;
use sandcrab_api::git::{
    GitAddRequest, GitAddResult, GitBranches, GitCheckoutRequest, GitCheckoutResult, GitCommitRequest,
    GitCommitResult, GitCompleteEvent, GitCredentials, GitDiff, GitDiffRequest, GitEvent, GitLog,
    GitLogRequest, GitProgressEvent, GitRequest, GitStatus, GitSyncRequest, GitSyncResult,
};
use serde::Serialize;
use tokio::sync::mpsc;
use tracing::Instrument;

use crate::app::App;
use crate::error::ApiError;
use crate::events::{Event, EventStream, HEARTBEAT, Item};
use crate::file_threads::STEP_TIMEOUT;
use crate::files::{Files, GivenPath, Place};
use crate::git::clone::CloneOperation;
use crate::git::command::{DEFAULT_TIMEOUT, Git, GitOutput};
use crate::git::diff::{DIFF_OPTIONS, parse as parse_diff};
use crate::git::parse::{self, LOG_FORMAT, REF_FORMAT};
use crate::git::progress::Progress;
use crate::git::url::RepositoryUrl;
use crate::input::Json;
use crate::layer::RequestId;
use crate::origin::Origin;

/// Default number of commits in a log.
const DEFAULT_LOG_LIMIT: u32 = 100;
/// Maximum number of commits in a log.
const MAX_LOG_LIMIT: u32 = 10_000;
/// Maximum number of paths in a request.
const MAX_PATHS: usize = 10_000;
/// Number of progress reports that wait for the client. Others are dropped.
const MAX_WAITING_REPORTS: usize = 64;
/// Maximum size of output that is parsed without a thread.
const MAX_INLINE_BYTES: usize = 64 << 10;
const DEFAULT_REMOTE: &str = "origin";

/// Clones a repository.
///
/// The clone appears when it is complete; a failed one leaves nothing behind. With `Accept: text/event-stream`, the
/// response is a stream of events with the progress. If the client disconnects, the clone continues.
#[utoipa::path(post, path = "/api/git/checkout", operation_id = "gitCheckout", tag = "git",
    request_body = GitCheckoutRequest,
    responses((status = 200, description = "The clone; or events: `progress`, then `complete` or `error`.",
        content((GitCheckoutResult = "application/json"), (GitEvent = "text/event-stream")))))]
pub(crate) async fn checkout(
    State(app): State<App>,
    request_id: RequestId,
    headers: HeaderMap,
    files: Files,
    Json { value: request, .. }: Json<GitCheckoutRequest>,
) -> Result<Response, ApiError> {
    let (url, in_url) = RepositoryUrl::parse(&request.repo_url)?;
    let branch = request.branch.map(|branch| name("branch", branch)).transpose()?;
    if request.depth == Some(0) {
        return Err(ApiError::invalid("depth", "expected at least 1; omit it for all commits"));
    }
    let timeout = timeout(request.timeout_ms)?;
    let place = files.place(request.session_id).await?;
    let target = match request.target_dir {
        Some(target) => place.resolve(&GivenPath::new("targetDir", Some(target), None)?)?,
        None => place.sandbox.workspace_path.join(url.directory_name()?),
    };
    let mut git = Git::new(app.clone(), place.clone(), place.cwd()?.clone()).timeout(timeout);
    if let Some(credentials) = request.credentials.or(in_url) {
        git = git.credentials(url.origin.clone(), credentials)?;
    }
    let result = GitCheckoutResult {
        success: true,
        repo_url: url.text.clone(),
        branch: String::new(),
        target_dir: target.to_string_lossy().into_owned(),
        timestamp: Timestamp::now(),
    };
    let clone = CloneOperation { place, git, url, branch, depth: request.depth, target };
    let accepts_events = headers
        .get(header::ACCEPT)
        .is_some_and(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/event-stream")));
    if accepts_events {
        let (sender, reports) = mpsc::channel(MAX_WAITING_REPORTS);
        let done = app.tasks.spawn(clone.run(Some(sender)).in_current_span());
        let items = events(CloneStream { app, reports, has_ended: false, done, result });
        return Ok(EventStream::new(items, Origin::request(request_id)).into_response());
    }
    // A task of its own: the clone is finished, or removed, also if the client disconnects.
    let branch = app.tasks.spawn(clone.run(None).in_current_span()).await.map_err(ApiError::internal)??;
    Ok(axum::Json(GitCheckoutResult { branch, timestamp: Timestamp::now(), ..result }).into_response())
}

/// The stream of a clone.
struct CloneStream {
    app: App,
    reports: mpsc::Receiver<Progress>,
    /// Whether git has ended, and its directory gets its name.
    has_ended: bool,
    done: tokio::task::JoinHandle<Result<String, ApiError>>,
    result: GitCheckoutResult,
}

/// The progress of a clone, then its result.
fn events(state: CloneStream) -> impl futures_util::Stream<Item = Item> + Send {
    stream::unfold(Some(state), |state| async move {
        let mut state = state?;
        loop {
            tokio::select! {
                report = state.reports.recv(), if !state.has_ended => {
                    let Some(Progress { phase, percent }) = report else {
                        state.has_ended = true;
                        continue;
                    };
                    let event = GitProgressEvent { phase, percent, timestamp: Timestamp::now() };
                    return Some((item(GitEvent::Progress(event)), Some(state)));
                }
                done = &mut state.done, if state.has_ended => {
                    let done = done.map_err(ApiError::internal).and_then(|done| done);
                    return Some((item(last_event(done, state.result)), None));
                }
                () = tokio::time::sleep(HEARTBEAT) => return Some((Item::Heartbeat, Some(state))),
                () = state.app.stopping.cut_off() => return Some((stopped(state.result), None)),
            }
        }
    })
}

fn item(event: GitEvent) -> Item {
    Item::Event(Box::new(Event { id: None, payload: event.into() }))
}

fn stopped(result: GitCheckoutResult) -> Item {
    item(last_event(Err(ApiError::shutting_down()), result))
}

fn last_event(done: Result<String, ApiError>, result: GitCheckoutResult) -> GitEvent {
    let timestamp = Timestamp::now();
    match done {
        Ok(branch) => {
            let GitCheckoutResult { repo_url, target_dir, .. } = result;
            GitEvent::Complete(GitCompleteEvent { repo_url, branch, target_dir, timestamp })
        }
        Err(e) => GitEvent::Error(e.event()),
    }
}

/// Returns the branch and the files that differ.
#[utoipa::path(post, path = "/api/git/status", operation_id = "gitStatus", tag = "git", request_body = GitRequest,
    responses((status = 200, description = "The state of the repository.", body = GitStatus)))]
pub(crate) async fn status(
    State(app): State<App>,
    files: Files,
    Json { value: request, .. }: Json<GitRequest>,
) -> Result<Response, ApiError> {
    let git = local(&app, files, request.session_id, request.path).await?;
    let args = ["status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all"];
    let output = git.run(&args).await?;
    respond(&app, output, |stdout| {
        let parse::Status { branch, head, upstream, ahead, behind, files } = parse::status(stdout);
        let timestamp = Timestamp::now();
        GitStatus { success: true, branch, head, upstream, ahead, behind, files, timestamp }
    })
    .await
}

/// Parses the output of git, and makes a response of it. A large one takes long, so this needs a thread.
async fn respond<T: Serialize + 'static>(
    app: &App,
    output: GitOutput,
    parse: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> Result<Response, ApiError> {
    if output.stdout.len() <= MAX_INLINE_BYTES {
        return app.outgoing.json(&parse(&output.stdout));
    }
    let work = move || {
        let json = serde_json::to_vec(&parse(&output.stdout));
        // The output counts until the response is made.
        (json, output)
    };
    let (json, _output) = app.sandbox.file_threads.run(STEP_TIMEOUT, work).await?;
    app.outgoing.json_bytes(json.map_err(ApiError::internal)?)
}

/// Returns commits, newest first.
#[utoipa::path(post, path = "/api/git/log", operation_id = "gitLog", tag = "git", request_body = GitLogRequest,
    responses((status = 200, description = "The commits.", body = GitLog)))]
pub(crate) async fn log(
    State(app): State<App>,
    files: Files,
    Json { value: request, .. }: Json<GitLogRequest>,
) -> Result<Response, ApiError> {
    let limit = request.limit.unwrap_or(DEFAULT_LOG_LIMIT);
    if limit == 0 || limit > MAX_LOG_LIMIT {
        return Err(ApiError::invalid("limit", format!("expected 1 to {MAX_LOG_LIMIT}")));
    }
    let branch = name("branch", request.branch.unwrap_or_else(|| "HEAD".into()))?;
    let paths = paths(request.paths)?;
    let git = local(&app, files, request.session_id, request.path).await?;
    let mut args = vec![
        "log".into(),
        "--no-show-signature".into(),
        "-z".into(),
        LOG_FORMAT.into(),
        format!("--max-count={limit}"),
        branch,
        "--".into(),
    ];
    args.extend(paths);
    let output = git.run(&args).await?;
    let log =
        |stdout: &[u8]| GitLog { success: true, commits: parse::log(stdout), timestamp: Timestamp::now() };
    respond(&app, output, log).await
}

/// Returns the local branches and those of remotes.
#[utoipa::path(post, path = "/api/git/branches", operation_id = "gitBranches", tag = "git", request_body = GitRequest,
    responses((status = 200, description = "The branches.", body = GitBranches)))]
pub(crate) async fn branches(
    State(app): State<App>,
    files: Files,
    Json { value: request, .. }: Json<GitRequest>,
) -> Result<Response, ApiError> {
    let git = local(&app, files, request.session_id, request.path).await?;
    let output = git.run(&REFERENCES).await?;
    let branches = |stdout: &[u8]| {
        let branches = parse::branches(stdout);
        GitBranches { success: true, branches, timestamp: Timestamp::now() }
    };
    respond(&app, output, branches).await
}

/// Lists the branches.
const REFERENCES: [&str; 4] = ["for-each-ref", REF_FORMAT, "refs/heads", "refs/remotes"];

/// Returns the differences between worktree, index and commits.
#[utoipa::path(post, path = "/api/git/diff", operation_id = "gitDiff", tag = "git", request_body = GitDiffRequest,
    responses((status = 200, description = "The files that differ.", body = GitDiff)))]
pub(crate) async fn diff(
    State(app): State<App>,
    files: Files,
    Json { value: request, .. }: Json<GitDiffRequest>,
) -> Result<Response, ApiError> {
    let branch = request.branch.map(|branch| name("branch", branch)).transpose()?;
    let paths = paths(request.paths)?;
    let git = local(&app, files, request.session_id, request.path).await?;
    let mut args: Vec<String> = vec!["diff".into()];
    args.extend(DIFF_OPTIONS.map(ToOwned::to_owned));
    args.extend((request.staged == Some(true)).then(|| "--cached".into()));
    args.extend(branch);
    args.push("--".into());
    args.extend(paths);
    let output = git.run(&args).await?;
    let diff =
        |stdout: &[u8]| GitDiff { success: true, files: parse_diff(stdout), timestamp: Timestamp::now() };
    respond(&app, output, diff).await
}

/// Stages files.
#[utoipa::path(post, path = "/api/git/add", operation_id = "gitAdd", tag = "git", request_body = GitAddRequest,
    responses((status = 200, description = "The files were staged.", body = GitAddResult)))]
pub(crate) async fn add(
    State(app): State<App>,
    files: Files,
    Json { value: request, .. }: Json<GitAddRequest>,
) -> Result<axum::Json<GitAddResult>, ApiError> {
    let paths = paths(request.paths)?;
    let git = local(&app, files, request.session_id, request.path).await?;
    let mut args = vec!["add".to_owned(), "--all".into(), "--".into()];
    if paths.is_empty() {
        // The whole repository, also from a directory in it.
        args.push(":/".into());
        git.run(&args).await?;
    } else {
        args.extend(paths);
        git.literal_paths().run(&args).await?;
    }
    Ok(axum::Json(GitAddResult { success: true, timestamp: Timestamp::now() }))
}

/// Commits what is staged.
#[utoipa::path(post, path = "/api/git/commit", operation_id = "gitCommit", tag = "git", request_body = GitCommitRequest,
    responses((status = 200, description = "The commit.", body = GitCommitResult)))]
pub(crate) async fn commit(
    State(app): State<App>,
    files: Files,
    Json { value: request, .. }: Json<GitCommitRequest>,
) -> Result<axum::Json<GitCommitResult>, ApiError> {
    if request.message.trim().is_empty() || request.message.contains('\0') {
        return Err(ApiError::invalid("message", "expected text without NUL bytes, not empty"));
    }
    let mut git = local(&app, files, request.session_id, request.path).await?;
    if let Some(author) = request.author {
        for (field, value) in [("author.name", &author.name), ("author.email", &author.email)] {
            if value.trim().is_empty() || value.contains(['\0', '\n', '<', '>']) {
                return Err(ApiError::invalid(
                    field,
                    "expected text without line breaks, `<` and `>`, not empty",
                ));
            }
        }
        git = git.author(author);
    }
    let mut args = vec!["commit", "--quiet", "--file=-"];
    args.extend((request.all == Some(true)).then_some("--all"));
    git.run_with(&args, Some(request.message.into_bytes())).await?;
    let hash = git.run(&["rev-parse", "HEAD"]).await?.stdout;
    let hash = String::from_utf8_lossy(&hash).trim().to_owned();
    Ok(axum::Json(GitCommitResult { success: true, hash, timestamp: Timestamp::now() }))
}

/// Fetches from a remote, and advances the current branch.
///
/// The branch must be an ancestor of the remote one: otherwise git refuses, and nothing is changed in the worktree.
#[utoipa::path(post, path = "/api/git/pull", operation_id = "gitPull", tag = "git", request_body = GitSyncRequest,
    responses((status = 200, description = "The references that changed.", body = GitSyncResult)))]
pub(crate) async fn pull(
    State(app): State<App>,
    files: Files,
    Json { value: request, .. }: Json<GitSyncRequest>,
) -> Result<axum::Json<GitSyncResult>, ApiError> {
    sync(&app, files, request, &["pull", "--ff-only", "--quiet"], &[]).await
}

/// Sends the commits of a branch to a remote.
#[utoipa::path(post, path = "/api/git/push", operation_id = "gitPush", tag = "git", request_body = GitSyncRequest,
    responses((status = 200, description = "The references that changed.", body = GitSyncResult)))]
pub(crate) async fn push(
    State(app): State<App>,
    files: Files,
    Json { value: request, .. }: Json<GitSyncRequest>,
) -> Result<axum::Json<GitSyncResult>, ApiError> {
    sync(&app, files, request, &["push", "--quiet", "--set-upstream"], &["--push"]).await
}

/// Pulls or pushes. `url_options` select the URL of the remote.
async fn sync(
    app: &App,
    files: Files,
    request: GitSyncRequest,
    command: &[&str],
    url_options: &[&str],
) -> Result<axum::Json<GitSyncResult>, ApiError> {
    let remote = name("remote", request.remote.unwrap_or_else(|| DEFAULT_REMOTE.into()))?;
    let branch = request.branch.map(|branch| name("branch", branch)).transpose()?;
    // A remote with a colon is a URL, which may contain a password; a branch with one is a refspec, which may delete.
    let is_plain = |name: &str| !name.contains(':') && !name.starts_with('+');
    if !is_plain(&remote) {
        return Err(ApiError::invalid("remote", "expected the name of a remote, not a URL"));
    }
    if branch.as_deref().is_some_and(|branch| !is_plain(branch)) {
        return Err(ApiError::invalid("branch", "expected the name of a branch, not a refspec"));
    }
    let timeout = timeout(request.timeout_ms)?;
    let git = local(app, files, request.session_id, request.path).await?;
    let branch = match branch {
        Some(branch) => branch,
        None => line(&git.run(&["symbolic-ref", "--short", "HEAD"]).await?.stdout),
    };
    let network = match request.credentials {
        Some(credentials) => with_credentials(&git, &remote, url_options, credentials).await?,
        None => git.clone(),
    };
    let before = parse::references(&git.run(&REFERENCES).await?.stdout);
    let mut args: Vec<String> = command.iter().map(|arg| (*arg).to_owned()).collect();
    args.extend(["--".into(), remote, branch]);
    network.timeout(timeout).run(&args).await?;
    let after = parse::references(&git.run(&REFERENCES).await?.stdout);
    let refs = parse::updates(&before, &after);
    Ok(axum::Json(GitSyncResult { success: true, refs, timestamp: Timestamp::now() }))
}

/// Uses credentials for the origin of a remote.
async fn with_credentials(
    git: &Git,
    remote: &str,
    url_options: &[&str],
    credentials: GitCredentials,
) -> Result<Git, ApiError> {
    let mut args = vec!["remote", "get-url"];
    args.extend(url_options);
    args.extend(["--", remote]);
    let url = line(&git.run(&args).await?.stdout);
    let (url, _) = RepositoryUrl::parse(&url)?;
    git.clone().credentials(url.origin, credentials)
}

fn line(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim_end().to_owned()
}

/// Git in the directory of a request.
async fn local(
    app: &App,
    files: Files,
    session: Option<String>,
    path: Option<String>,
) -> Result<Git, ApiError> {
    let place: Place = files.place(session).await?;
    let directory: PathBuf = match path {
        Some(path) => place.resolve(&GivenPath::new("path", Some(path), None)?)?,
        None => place.cwd()?.clone(),
    };
    let checked = directory.clone();
    place.run(move || sandcrab_workspace::check_directory(&checked)).await?;
    Ok(Git::new(app.clone(), place, directory))
}

/// A name of a branch or remote: not an option.
fn name(field: &str, name: String) -> Result<String, ApiError> {
    if name.is_empty() || name.starts_with('-') || name.len() > 1024 || name.chars().any(char::is_control) {
        let why =
            "expected a name of at most 1,024 bytes that does not begin with `-`, without control characters";
        return Err(ApiError::invalid(field, why));
    }
    Ok(name)
}

fn paths(given: Option<Vec<String>>) -> Result<Vec<String>, ApiError> {
    let given = given.unwrap_or_default();
    if given.len() > MAX_PATHS {
        return Err(ApiError::invalid("paths", format!("expected at most {MAX_PATHS} paths")));
    }
    if given.iter().any(|path| path.is_empty() || path.contains('\0')) {
        return Err(ApiError::invalid("paths", "expected paths without NUL bytes, not empty"));
    }
    Ok(given)
}

fn timeout(given: Option<u64>) -> Result<Duration, ApiError> {
    match given {
        Some(0) => Err(ApiError::invalid("timeoutMs", "expected at least 1")),
        Some(given) => Ok(Duration::from_millis(given)),
        None => Ok(DEFAULT_TIMEOUT),
    }
}
