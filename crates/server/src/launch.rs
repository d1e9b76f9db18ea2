//! Starts the execution that a request describes.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use base64::Engine as _;
use sandcrab_api::execute::{
    CommandRequest, Encoding, Leftovers, Limits, OnDisconnect, OnSessionEnd, Overflow, Variables,
};
use sandcrab_api::session::OnShellExit;
use sandcrab_api::{DEFAULT_OUTPUT_BYTES, ErrorCode, IDEMPOTENCY_HEADER};
use sandcrab_engine::{
    CommandSpec, DEFAULT_GRACE, DEFAULT_TIMEOUT_GRACE, Execution, ExecutionId, IdError, LeftoverPolicy,
    Session, SessionEndPolicy, Stdin, User, quoted,
};
use sha2::{Digest, Sha256};
use tracing::Instrument;

use crate::app::App;
use crate::error::ApiError;
use crate::input::{self, Json};
use crate::note::{self, ExecutionNote, SessionNote};
use crate::sandbox::Sandbox;

/// Path segments below `/api/process`, which therefore cannot be ids.
pub(crate) const RESERVED_IDS: [&str; 4] = ["list", "start", "kill-all", "cleanup"];

/// Maximum size of a command and its arguments in responses, which may wait for slow clients.
const MAX_ECHO_BYTES: usize = 16 << 10;
/// The end of a command that was cut off.
const ELLIPSIS: char = '…';

/// Maximum grace period of a timeout.
const MAX_TIMEOUT_GRACE: Duration = Duration::from_secs(600);

/// Whether a request may start an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// The request may start an execution.
    Start,
    /// The request resumes the stream of an execution that an identical request started. If its record was
    /// removed, the command is not run again.
    Resume,
}

/// How a command is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In the foreground: the client waits for it.
    Command,
    /// In the background.
    Process,
}

/// A started command, and the options of its response.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) execution: Execution,
    pub(crate) kind: Kind,
    /// The command as shown in responses.
    pub(crate) command: String,
    pub(crate) args: Option<Vec<String>>,
    pub(crate) session: Option<String>,
    pub(crate) on_shell_exit: OnShellExit,
    pub(crate) encoding: Encoding,
    pub(crate) max_output_bytes: u64,
    /// The timeout.
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_disconnect: OnDisconnect,
    /// Time between SIGTERM and SIGKILL when the client disconnects.
    pub(crate) disconnect_grace: Duration,
}

/// Starts the command of a request. When this returns, a background process has started; a session's command
/// may be queued.
pub(crate) async fn launch(
    app: &App,
    sandbox: &Sandbox,
    request: Json<CommandRequest>,
    headers: &HeaderMap,
    query: Option<&str>,
    kind: Kind,
    intent: Intent,
) -> Result<Launch, ApiError> {
    app.check_open()?;
    let Json { value: mut request, bytes, held } = request;
    let kind = if request.background == Some(true) { Kind::Process } else { kind };
    let session_id = input::session_id(request.session_id.take(), headers, query)?;
    let session = session_id.as_deref().map(|id| input::find_session(sandbox, id)).transpose()?;
    if request.on_session_end.is_some() && session.is_none() {
        return Err(ApiError::invalid("onSessionEnd", "it requires a session; add a sessionId, or omit it"));
    }
    let session_note: SessionNote = note::read(session.as_ref().and_then(Session::note).as_deref());
    let mut spec = spec(sandbox, &mut request, session.is_some(), &session_note, kind)?;
    spec.user = user(sandbox, request.user.take()).await?;
    let key = input::name_header(headers, IDEMPOTENCY_HEADER)?;
    if let Some(key) = key {
        set_idempotency(&mut spec, key, session_id.as_deref(), kind, &bytes);
    }
    drop(bytes);
    let timeout = spec.timeout;
    let disconnect_grace = request.grace_ms.map_or(DEFAULT_GRACE, Duration::from_millis);
    let started = match (&session, kind) {
        _ if intent == Intent::Resume => find_started(sandbox, &spec),
        (None, _) => sandbox.engine.start(spec).await.map_err(ApiError::from),
        (Some(session), Kind::Command) => session.start(spec).await.map_err(ApiError::from),
        (Some(session), Kind::Process) => session.start_process(spec).await.map_err(ApiError::from),
    };
    let execution = started.map_err(|error| name_key(error, key))?;
    drop(held);
    tracing::debug!(execution = %execution.id(), session = session_id.as_deref(), "launched");
    let on_shell_exit = session_note.on_shell_exit.unwrap_or_default();
    let (command, args) = echo(request.command, request.args);
    Ok(Launch {
        execution,
        kind,
        command,
        args,
        session: session_id,
        on_shell_exit,
        encoding: request.encoding.unwrap_or_default(),
        max_output_bytes: request
            .max_output_bytes
            .or(session_note.max_output_bytes)
            .or(sandbox.defaults.max_output_bytes)
            .unwrap_or(DEFAULT_OUTPUT_BYTES),
        timeout,
        on_disconnect: request.on_disconnect.unwrap_or_default(),
        disconnect_grace,
    })
}

/// Returns a command and its arguments as shown in responses: a long command is cut off, and long arguments
/// are omitted.
fn echo(mut command: String, args: Option<Vec<String>>) -> (String, Option<Vec<String>>) {
    if command.len() > MAX_ECHO_BYTES {
        command.truncate(command.floor_char_boundary(MAX_ECHO_BYTES - ELLIPSIS.len_utf8()));
        command.push(ELLIPSIS);
        command.shrink_to_fit();
    }
    // Each argument is a separate string.
    let bytes = |arg: &String| arg.len() + size_of::<String>();
    let is_short =
        |args: &Vec<String>| command.len() + args.iter().map(bytes).sum::<usize>() <= MAX_ECHO_BYTES;
    let args = args.filter(is_short);
    (command, args)
}

/// Starts a foreground command. The guard applies `onDisconnect` when the client disconnects.
pub(crate) async fn launch_guarded(
    app: &App,
    sandbox: &Sandbox,
    request: Json<CommandRequest>,
    headers: &HeaderMap,
    query: Option<&str>,
    intent: Intent,
) -> Result<(Launch, DisconnectGuard), ApiError> {
    if request.value.on_disconnect != Some(OnDisconnect::Kill) {
        let launch = launch(app, sandbox, request, headers, query, Kind::Command, intent).await?;
        let guard = DisconnectGuard::new(app, &launch);
        return Ok((launch, guard));
    }
    // Start in a task: if the client disconnected during the start, the command would run without a guard.
    let tasks = app.tasks.clone();
    let (app, sandbox) = (Arc::clone(app), sandbox.clone());
    let (headers, query) = (headers.clone(), query.map(str::to_owned));
    let launched = async move {
        let launch =
            launch(&app, &sandbox, request, &headers, query.as_deref(), Kind::Command, intent).await?;
        let guard = DisconnectGuard::new(&app, &launch);
        Ok((launch, guard))
    };
    tasks.spawn(launched.in_current_span()).await.map_err(ApiError::internal)?
}

/// Looks up the user that a request names.
pub(crate) async fn user(sandbox: &Sandbox, name: Option<String>) -> Result<Option<User>, ApiError> {
    let Some(name) = name else { return Ok(None) };
    let found = sandbox.engine.find_user(&name).await;
    found.map(Some).map_err(|error| ApiError::invalid("user", error))
}

/// Converts a request to the command of the engine.
pub(crate) fn spec(
    sandbox: &Sandbox,
    request: &mut CommandRequest,
    in_session: bool,
    session: &SessionNote,
    kind: Kind,
) -> Result<CommandSpec, ApiError> {
    let mut spec = match &request.args {
        None => CommandSpec::shell(request.command.as_bytes()),
        Some(args) if in_session => CommandSpec::shell(quoted(std::iter::once(&request.command).chain(args))),
        Some(args) => CommandSpec::argv(std::iter::once(&request.command).chain(args)),
    };
    spec.background = kind == Kind::Process;
    spec.id = id(request)?;
    spec.env = variables(request.env.take());
    spec.cwd = request.cwd.take().map(|cwd| sandbox.working_directory(cwd));
    let timeout = request.timeout_ms.or(session.command_timeout_ms).map(Duration::from_millis);
    let some = |timeout: &Duration| !timeout.is_zero();
    spec.timeout = timeout.or(sandbox.defaults.timeout).filter(some);
    spec.idle_timeout = request.idle_timeout_ms.map(Duration::from_millis).filter(some);
    spec.timeout_grace = grace(request.grace_ms)?;
    spec.limits = limits(request.limits.as_ref().unwrap_or(&Limits::default()));
    spec.leftovers = match request.leftovers.unwrap_or_default() {
        Leftovers::Keep => LeftoverPolicy::Keep,
        Leftovers::Kill => LeftoverPolicy::Kill,
        Leftovers::Adopt => LeftoverPolicy::Adopt,
    };
    spec.overflow = match request.overflow.unwrap_or_default() {
        Overflow::Drop => sandcrab_engine::Overflow::Drop,
        Overflow::Wait => sandcrab_engine::Overflow::Wait,
    };
    spec.on_session_end = match request.on_session_end.unwrap_or_default() {
        OnSessionEnd::Kill => SessionEndPolicy::Kill,
        OnSessionEnd::Keep => SessionEndPolicy::Keep,
    };
    spec.keep_record = request.auto_cleanup == Some(false);
    if let Some(encoding) = request.encoding {
        spec.note =
            Some(note::write(&ExecutionNote { encoding: Some(encoding), ..ExecutionNote::default() }));
    }
    if let Some(stdin) = request.stdin.take() {
        let bytes = match request.stdin_encoding.unwrap_or_default() {
            Encoding::Utf8 => stdin.into_bytes(),
            Encoding::Base64 => base64::engine::general_purpose::STANDARD
                .decode(stdin)
                .map_err(|e| ApiError::invalid("stdin", format!("not valid base64: {e}")))?,
        };
        spec.stdin = Stdin::Bytes(bytes);
    }
    if request.keep_stdin_open == Some(true) {
        spec.stdin = keep_open(spec.stdin);
    }
    Ok(spec)
}

/// Returns the grace period of a timeout.
fn grace(asked: Option<u64>) -> Result<Duration, ApiError> {
    let grace = asked.map_or(DEFAULT_TIMEOUT_GRACE, Duration::from_millis);
    if grace > MAX_TIMEOUT_GRACE {
        let most = MAX_TIMEOUT_GRACE.as_millis();
        return Err(ApiError::invalid("graceMs", format!("at most {most} are allowed")));
    }
    Ok(grace)
}

fn id(request: &CommandRequest) -> Result<Option<ExecutionId>, ApiError> {
    let (field, id) = match (&request.process_id, &request.execution_id) {
        (Some(id), _) => ("processId", id),
        (None, Some(id)) => ("executionId", id),
        (None, None) => return Ok(None),
    };
    if RESERVED_IDS.contains(&id.as_str()) {
        return Err(ApiError::invalid(field, format!("{id:?} is part of a route; choose another id")));
    }
    id.parse().map(Some).map_err(|e| bad_id(field, &e))
}

/// Converts the error of an invalid id.
pub(crate) fn bad_id(field: &str, e: &IdError) -> ApiError {
    match e {
        IdError::TooLong(_) => {
            ApiError::new(ErrorCode::NameTooLong, format!("{field}: {e}")).with("field", field)
        }
        _ => ApiError::invalid(field, e),
    }
}

/// Converts changes to an environment to the type of the engine.
pub(crate) fn variables(variables: Option<Variables>) -> Vec<(OsString, Option<OsString>)> {
    let pairs = variables.unwrap_or_default().into_iter();
    pairs.map(|(name, value)| (name.into(), value.map(Into::into))).collect()
}

pub(crate) fn limits(limits: &Limits) -> sandcrab_engine::Limits {
    let Limits { memory_bytes, cpu_seconds, processes, open_files, file_size_bytes, output_bytes } = *limits;
    sandcrab_engine::Limits {
        memory_bytes,
        cpu_seconds,
        processes,
        open_files,
        file_size_bytes,
        output_bytes,
    }
}

/// Sets id and digest, so that an identical request with the same key finds this execution.
fn set_idempotency(spec: &mut CommandSpec, key: &str, session: Option<&str>, kind: Kind, body: &[u8]) {
    let mut digest = Sha256::new();
    for part in [format!("{kind:?}").as_bytes(), session.unwrap_or_default().as_bytes()] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.update(body);
    // The digest contains the key: the same id and body with another key is another request.
    spec.digest = Some([Sha256::digest(key), digest.finalize()].concat());
    spec.id = spec.id.take().or_else(|| id_of_key(key));
}

/// Derives the id of an execution from its idempotency key. Never `None`: hexadecimal digits are a valid id.
fn id_of_key(key: &str) -> Option<ExecutionId> {
    let name: String = Sha256::digest(key).iter().take(20).map(|byte| format!("{byte:02x}")).collect();
    format!("key-{name}").parse().ok()
}

/// Finds the execution that an identical earlier request started. The handle is taken in one step, so the
/// record cannot be removed in between.
fn find_started(sandbox: &Sandbox, spec: &CommandSpec) -> Result<Execution, ApiError> {
    sandbox.engine.find_started(spec)?.ok_or_else(|| {
        let id = spec.id.as_ref().map_or("", |id| id.as_str());
        ApiError::no_process(id)
            .suggest("the record of the execution was removed; run the command again without a cursor")
    })
}

/// Adds the idempotency key to the error of a conflict.
fn name_key(error: ApiError, key: Option<&str>) -> ApiError {
    match key {
        Some(key) if error.code() == ErrorCode::ExecutionConflict => {
            let message =
                format!("Idempotency-Key {key:?} was used for a different request; use another key");
            error.reword(message).with("idempotencyKey", key)
        }
        _ => error,
    }
}

/// Keeps standard input open after the given bytes, if requested.
fn keep_open(stdin: Stdin) -> Stdin {
    match stdin {
        Stdin::Bytes(bytes) if !bytes.is_empty() => Stdin::OpenWith(bytes),
        _ => Stdin::Open,
    }
}

/// Kills an execution when dropped before [`DisconnectGuard::release`], because its client has disconnected.
#[derive(Debug)]
pub(crate) struct DisconnectGuard {
    app: App,
    execution: Option<Execution>,
    grace: Duration,
}

impl DisconnectGuard {
    pub(crate) fn new(app: &App, launch: &Launch) -> Self {
        let kills = launch.on_disconnect == OnDisconnect::Kill;
        let execution = kills.then(|| launch.execution.clone());
        Self { app: Arc::clone(app), execution, grace: launch.disconnect_grace }
    }

    pub(crate) fn release(&mut self) {
        self.execution = None;
    }
}

impl Drop for DisconnectGuard {
    fn drop(&mut self) {
        // When the server stops, the server disconnects, not the client.
        if let Some(execution) = self.execution.take()
            && !self.app.stopping.is_stopping()
        {
            let grace = self.grace;
            self.app.tasks.spawn(async move {
                drop(execution.kill(crate::signal::TERM, grace).await);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_commands_are_echoed() {
        let args = |count| Some(vec!["é".to_owned(); count]);
        assert_eq!(echo("ls".into(), args(9)), ("ls".into(), args(9)));
        assert_eq!(echo("ls".into(), args(9_000)), ("ls".into(), None));
        let (command, _) = echo("é".repeat(MAX_ECHO_BYTES), None);
        assert!(command.len() <= MAX_ECHO_BYTES && command.ends_with("é…"));
    }
}
