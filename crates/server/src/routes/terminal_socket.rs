//! Opening the WebSocket of a terminal: `/ws/terminal`, and the reference's `/ws/pty`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use sandcrab_engine::{CommandSpec, ExecutionId, SessionId, Terminal, TerminalSize, TerminalSpec};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;

use crate::access::is_websocket_upgrade;
use crate::app::App;
use crate::error::ApiError;
use crate::input::{find_session, find_terminal};
use crate::query::Params;
use crate::routes::socket::{upgrade, upgrade_required};
use crate::routes::terminal;
use crate::sandbox::Sandbox;
use crate::terminal::{Attachment, Dialect, TrackFrom, hub, serve};

/// Maximum length of a session id that is part of the id of its terminal as it is.
const MAX_PLAIN_ID_BYTES: usize = 100;

/// Number of terminals of one session with leftovers, after which a client of the reference gets no further terminal.
const MAX_PTY_IDS: usize = 16;

/// Parameters of a viewer.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ViewerOptions {
    /// Id of a terminal.
    terminal_id: String,
    /// Number of columns of the client. The terminal gets its size if it has both.
    #[param(minimum = 1, maximum = 1000)]
    cols: Option<u16>,
    /// Number of rows of the client.
    #[param(minimum = 1, maximum = 1000)]
    rows: Option<u16>,
    /// The cursor up to which the client has the output. If little was missed, it gets that instead of a repaint.
    since: Option<u64>,
    /// The incarnation of the terminal to which `since` belongs, as in the frame `ready`. If the id belongs to another terminal now,
    /// `since` has no effect.
    incarnation: Option<String>,
    /// Whether the client only watches: it sends neither input nor a size, and does not answer queries of the program.
    #[serde(default)]
    read_only: bool,
}

/// Opens the WebSocket of a terminal.
///
/// Binary messages are the bytes of the terminal, in both directions. Text messages are control frames: the client sends
/// `TerminalClientFrame`, the server `TerminalFrame`. The client first gets a repaint, or the output that it missed, then `ready`,
/// then the output as it is written. The token may come as the subprotocol `bearer.TOKEN`, or `bearer64.` and the
/// token as base64url without padding.
#[utoipa::path(get, path = "/ws/terminal", operation_id = "openTerminalSocket", tag = "terminals", params(ViewerOptions),
    extensions(("x-websocket" = json!({
        "clientMessage": {"$ref": "#/components/schemas/TerminalClientFrame"},
        "serverMessage": {"$ref": "#/components/schemas/TerminalFrame"},
    }))),
    responses((status = 101, description = "The connection was upgraded.")))]
pub(crate) async fn open(
    State(app): State<App>,
    sandbox: Sandbox,
    options: Result<Params<ViewerOptions>, ApiError>,
    request: Request,
) -> Result<Response, ApiError> {
    require_upgrade(&request)?;
    let Params(options) = options?;
    let size = client_size(options.cols, options.rows)?;
    let terminal = find_terminal(&sandbox, &options.terminal_id)?;
    let is_watcher = options.read_only;
    if is_watcher && size.is_some() {
        return Err(ApiError::invalid("readOnly", "a read-only viewer has no size; omit cols and rows"));
    }
    let is_same = options.incarnation.is_none_or(|known| known == terminal.incarnation());
    let since = options.since.filter(|_| is_same);
    let attachment = Attachment { since, size, is_watcher, dialect: Dialect::Native };
    attach(&app, request, &terminal, attachment)
}

/// Refuses a client that does not speak WebSocket, before anything is created for it.
pub(crate) fn require_upgrade(request: &Request) -> Result<(), ApiError> {
    if is_websocket_upgrade(request.headers()) { Ok(()) } else { Err(upgrade_required()) }
}

/// The size of a client, if it has one.
fn client_size(cols: Option<u16>, rows: Option<u16>) -> Result<Option<TerminalSize>, ApiError> {
    let size = terminal::size(cols, rows)?;
    match (cols, rows) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Ok(Some(size)),
        (None, Some(_)) => Err(ApiError::invalid("cols", "rows is given without cols; give both or none")),
        (Some(_), None) => Err(ApiError::invalid("rows", "cols is given without rows; give both or none")),
    }
}

fn attach(
    app: &App,
    request: Request,
    terminal: &Terminal,
    attachment: Attachment,
) -> Result<Response, ApiError> {
    app.check_open()?;
    let (response, upgraded) = upgrade(request)?;
    let hub = hub(app, terminal, TrackFrom::Now);
    let app = Arc::clone(app);
    // A viewer does not delay a shutdown: it is told to close when the server stops.
    app.tasks.clone().spawn(async move {
        // A client that has disconnected gets nothing.
        if let Ok(stream) = upgraded.await {
            serve(app, hub, attachment, stream).await;
        }
    });
    Ok(response)
}

/// Parameters of the reference's terminals.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct PtyOptions {
    /// Id of a session. It has one terminal, which is created on first use and starts from the state of the session.
    pub(crate) session_id: String,
    /// Number of columns of a new terminal. Default: 80.
    #[param(minimum = 1, maximum = 1000)]
    cols: Option<u16>,
    /// Number of rows of a new terminal. Default: 24.
    #[param(minimum = 1, maximum = 1000)]
    rows: Option<u16>,
    /// Program of a new terminal. Default: an interactive bash.
    shell: Option<String>,
}

/// Opens the WebSocket of the terminal of a session, as clients of the reference do.
///
/// The messages are those of `/ws/terminal`. Control frames have the fields of the reference, too.
#[utoipa::path(get, path = "/ws/pty", operation_id = "openPtySocket", tag = "terminals", params(PtyOptions),
    extensions(("x-websocket" = json!({
        "clientMessage": {"$ref": "#/components/schemas/TerminalClientFrame"},
        "serverMessage": {"$ref": "#/components/schemas/TerminalFrame"},
    }))),
    responses((status = 101, description = "The connection was upgraded.")))]
pub(crate) async fn open_pty(
    State(app): State<App>,
    sandbox: Sandbox,
    options: Result<Params<PtyOptions>, ApiError>,
    request: Request,
) -> Result<Response, ApiError> {
    require_upgrade(&request)?;
    let Params(options) = options?;
    let session = find_session(&sandbox, &options.session_id)?;
    serve_pty(&app, &sandbox, session.id(), &options, request).await
}

/// Attaches a client of the reference to the terminal of a session, which exists.
pub(crate) async fn serve_pty(
    app: &App,
    sandbox: &Sandbox,
    session: &SessionId,
    options: &PtyOptions,
    request: Request,
) -> Result<Response, ApiError> {
    let size = terminal::size(options.cols, options.rows)?;
    app.check_open()?;
    let mut spec = match options.shell.as_deref() {
        None | Some("" | "bash") => TerminalSpec::shell(),
        Some(shell) => TerminalSpec::command(CommandSpec::argv([shell])),
    };
    spec.command.id = Some(terminal_id(sandbox, session)?);
    spec.size = size;
    spec.session = Some(session.clone());
    let created = terminal::start(app, sandbox, spec).await?;
    // The client sends its size when it is ready.
    let attachment = Attachment { since: None, size: None, is_watcher: false, dialect: Dialect::Reference };
    attach(app, request, &created.terminal, attachment)
}

/// The id of the terminal of a session: of the one that runs, else the first that can be used. The id of an ended one
/// cannot be used while processes that it started still run.
fn terminal_id(sandbox: &Sandbox, session: &SessionId) -> Result<ExecutionId, ApiError> {
    let plain = session.as_str();
    let name = if plain.len() <= MAX_PLAIN_ID_BYTES {
        plain.to_owned()
    } else {
        Sha256::digest(plain).iter().take(20).map(|byte| format!("{byte:02x}")).collect()
    };
    let numbers = std::iter::once(String::new()).chain((2..=MAX_PTY_IDS).map(|number| number.to_string()));
    let ids: Vec<ExecutionId> = numbers
        .map(|number| format!("pty{number}-{name}").parse().map_err(ApiError::internal))
        .collect::<Result<_, _>>()?;
    let info = |id: &ExecutionId| sandbox.engine.execution(id).map(|execution| execution.info());
    let runs = ids.iter().find(|id| info(id).is_some_and(|info| info.status.end().is_none()));
    let free = || ids.iter().find(|id| info(id).is_none_or(|info| !info.has_leftovers));
    // Without a free one, the refusal of the first says what to do.
    Ok(runs.or_else(free).unwrap_or(&ids[0]).clone())
}
