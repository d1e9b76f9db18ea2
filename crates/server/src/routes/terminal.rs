//! Terminals: created, listed, deleted.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use sandcrab_api::Timestamp;
use sandcrab_api::execute::Limits;
use sandcrab_api::terminal::{
    DEFAULT_COLS, DEFAULT_ROWS, DEFAULT_TERM, MAX_TERMINAL_SIZE, Terminal as WireTerminal, TerminalCreated,
    TerminalDeleted, TerminalList, TerminalRequest, TerminalResponse, TerminalStatus,
};
use sandcrab_engine::{
    CommandSpec, ControlError, CreatedTerminal, DEFAULT_GRACE, ExecutionId, SessionId, Terminal,
    TerminalSize, TerminalSpec,
};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::app::App;
use crate::convert;
use crate::error::ApiError;
use crate::input::{self, Json, PathTerminal};
use crate::launch::{RESERVED_IDS, bad_id, limits, user, variables};
use crate::routes::execute::SessionQuery;
use crate::sandbox::Sandbox;
use crate::terminal::{self, TrackFrom};

/// Maximum time for which a list reads titles from the screens of running terminals. Others are as last known.
const TITLES_TIME: Duration = Duration::from_millis(250);

/// Maximum time for which the deletion of an ended terminal waits until its record can be removed.
const FORGET_TIME: Duration = Duration::from_secs(2);
const FORGET_INTERVAL: Duration = Duration::from_millis(10);

/// Creates a terminal, and responds when its program runs.
///
/// If a terminal with this id is running, the response describes it, and the other fields of the request have no effect. The id of
/// a terminal that has ended can be used again.
#[utoipa::path(post, path = "/api/terminal/create", operation_id = "createTerminal", tag = "terminals",
    params(SessionQuery), request_body = TerminalRequest,
    responses((status = 200, description = "The terminal is running.", body = TerminalCreated)))]
pub(crate) async fn create(
    State(app): State<App>,
    sandbox: Sandbox,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    request: Json<TerminalRequest>,
) -> Result<axum::Json<TerminalCreated>, ApiError> {
    app.check_open()?;
    let mut request = request.value;
    let session = input::session_id(request.session_id.take(), &headers, query.as_deref())?;
    let mut spec = spec(&sandbox, &mut request)?;
    spec.command.user = user(&sandbox, request.user.take()).await?;
    spec.session = session.map(|id| find_session(&sandbox, &id)).transpose()?;
    let CreatedTerminal { terminal, created } = start(&app, &sandbox, spec).await?;
    let TerminalSize { cols, rows } = terminal.size();
    let id = terminal.id().to_string();
    Ok(axum::Json(TerminalCreated {
        success: true,
        execution_id: id.clone(),
        id,
        pid: terminal.execution().info().pid,
        cols,
        rows,
        created,
        timestamp: Timestamp::now(),
    }))
}

/// Creates a terminal, and answers its queries from the start.
pub(crate) async fn start(
    app: &App,
    sandbox: &Sandbox,
    spec: TerminalSpec,
) -> Result<CreatedTerminal, ApiError> {
    let created = sandbox.engine.create_terminal(spec).await?;
    let from = if created.created { TrackFrom::Start } else { TrackFrom::Now };
    drop(terminal::hub(app, &created.terminal, from));
    Ok(created)
}

fn find_session(sandbox: &Sandbox, id: &str) -> Result<SessionId, ApiError> {
    input::find_session(sandbox, id).map(|session| session.id().clone())
}

fn spec(sandbox: &Sandbox, request: &mut TerminalRequest) -> Result<TerminalSpec, ApiError> {
    let mut spec = match (request.command.take(), request.args.take()) {
        (None, None) => TerminalSpec::shell(),
        (Some(command), None) => TerminalSpec::command(CommandSpec::shell(command)),
        (Some(command), Some(args)) => {
            TerminalSpec::command(CommandSpec::argv(std::iter::once(command).chain(args)))
        }
        (None, Some(_)) => {
            return Err(ApiError::invalid("args", "there is no command; give the program as command"));
        }
    };
    spec.size = size(request.cols, request.rows)?;
    spec.term = request.term.take().unwrap_or_else(|| DEFAULT_TERM.into());
    let command = &mut spec.command;
    command.id = request.id.take().map(|id| parse_id(&id)).transpose()?;
    command.env = variables(request.env.take());
    command.cwd = request.cwd.take().map(|cwd| sandbox.working_directory(cwd));
    let some = |timeout: &Duration| !timeout.is_zero();
    command.timeout = request.timeout_ms.map(Duration::from_millis).filter(some);
    command.idle_timeout = request.idle_timeout_ms.map(Duration::from_millis).filter(some);
    command.limits = limits(request.limits.as_ref().unwrap_or(&Limits::default()));
    Ok(spec)
}

fn parse_id(id: &str) -> Result<ExecutionId, ApiError> {
    if id == "create" || RESERVED_IDS.contains(&id) {
        return Err(ApiError::invalid("id", format!("{id:?} is part of a route; choose another id")));
    }
    id.parse().map_err(|e| bad_id("id", &e))
}

/// A size, or the default.
pub(crate) fn size(cols: Option<u16>, rows: Option<u16>) -> Result<TerminalSize, ApiError> {
    let check = |field, side: u16| match side {
        1..=MAX_TERMINAL_SIZE => Ok(side),
        _ => Err(ApiError::invalid(field, format!("expected 1 to {MAX_TERMINAL_SIZE}, got {side}"))),
    };
    let cols = check("cols", cols.unwrap_or(DEFAULT_COLS))?;
    let rows = check("rows", rows.unwrap_or(DEFAULT_ROWS))?;
    Ok(TerminalSize { cols, rows })
}

/// Lists terminals, the oldest first.
#[utoipa::path(get, path = "/api/terminal/list", operation_id = "listTerminals", tag = "terminals",
    responses((status = 200, description = "The terminals.", body = TerminalList)))]
pub(crate) async fn list(State(app): State<App>, sandbox: Sandbox) -> Result<Response, ApiError> {
    let until = Instant::now() + TITLES_TIME;
    let known = sandbox.engine.terminals();
    app.terminals.keep_titles(&known);
    let mut terminals = Vec::new();
    for terminal in known {
        let has_ended = terminal.execution().status().end().is_some();
        let mut title = app.terminals.ended_title(&terminal);
        let mut hub = app.terminals.find(&terminal);
        if hub.is_none() && has_ended && title.is_none() && Instant::now() < until {
            hub = Some(terminal::hub(&app, &terminal, TrackFrom::Now));
        }
        if let Some(hub) = &hub {
            if title.is_none() && Instant::now() < until && !hub.is_title_current() {
                // A task is not cancelled: it may have read queries, whose answers would be lost.
                drop(timeout_at(until, tokio::spawn(Arc::clone(hub).refresh_title())).await);
            }
            title = title.or_else(|| hub.title());
            if let Some(title) = title.clone().filter(|_| has_ended && hub.is_title_current()) {
                app.terminals.remember_title(&terminal, title);
            }
        }
        let viewers = hub.map_or(0, |hub| hub.viewers());
        terminals.push(describe(&terminal, title.unwrap_or_default(), viewers));
    }
    app.outgoing.json(&TerminalList { success: true, terminals, timestamp: Timestamp::now() })
}

/// Returns one terminal.
#[utoipa::path(get, path = "/api/terminal/{id}", operation_id = "getTerminal", tag = "terminals",
    params(("id" = String, Path, description = "Id of a terminal.")),
    responses((status = 200, description = "The terminal.", body = TerminalResponse)))]
pub(crate) async fn get(
    State(app): State<App>,
    PathTerminal(terminal): PathTerminal,
) -> Result<axum::Json<TerminalResponse>, ApiError> {
    let hub = terminal::hub(&app, &terminal, TrackFrom::Now);
    let title = {
        let screen = hub.present_screen().await?;
        screen.emulator().screen.title().to_owned()
    };
    let terminal = describe(&terminal, title, hub.viewers());
    Ok(axum::Json(TerminalResponse { success: true, terminal, timestamp: Timestamp::now() }))
}

fn describe(terminal: &Terminal, title: String, viewers: usize) -> WireTerminal {
    let info = terminal.execution().info();
    let ended = info.status.end();
    let TerminalSize { cols, rows } = terminal.size();
    WireTerminal {
        id: info.id.to_string(),
        execution_id: info.id.to_string(),
        // The kernel may have given it to another process.
        pid: info.pid.filter(|_| ended.is_none()),
        command: info.command.clone(),
        cols,
        rows,
        title,
        status: if ended.is_some() { TerminalStatus::Exited } else { TerminalStatus::Running },
        exit_code: ended.map(|end| convert::exit_code(end)),
        end: ended.map(|end| convert::end(end)),
        session_id: info.session.as_ref().map(ToString::to_string),
        viewers,
        created_at: info.created_at.into(),
        last_activity: terminal.last_activity().into(),
    }
}

/// Ends a terminal and everything that it started, daemons included.
///
/// Its record stays, as that of an ended terminal, until retention or another deletion removes it or the id is used again. If the
/// terminal has ended before, its record is removed.
#[utoipa::path(delete, path = "/api/terminal/{id}", operation_id = "deleteTerminal", tag = "terminals",
    params(("id" = String, Path, description = "Id of a terminal.")),
    responses((status = 200, description = "No process of the terminal is left.", body = TerminalDeleted)))]
pub(crate) async fn delete(
    PathTerminal(terminal): PathTerminal,
) -> Result<axum::Json<TerminalDeleted>, ApiError> {
    let had_ended = terminal.execution().status().end().is_some();
    let (killed, survivors) = convert::killed(terminal.delete(DEFAULT_GRACE).await?);
    if had_ended && survivors.is_empty() {
        // Its supervisor may still be about to close it, or to report that no process is left.
        let removed = timeout(FORGET_TIME, async {
            loop {
                match terminal.forget() {
                    Ok(()) => return Ok(()),
                    Err(e @ ControlError::Os { .. }) => return Err(e),
                    Err(_) => sleep(FORGET_INTERVAL).await,
                }
            }
        });
        // Otherwise it stays, and can be deleted again.
        removed.await.unwrap_or(Ok(()))?;
    }
    Ok(axum::Json(TerminalDeleted {
        success: survivors.is_empty(),
        id: terminal.id().to_string(),
        killed,
        survivors,
        timestamp: Timestamp::now(),
    }))
}
