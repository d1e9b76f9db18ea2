//! Input and sizes of terminals.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use sandcrab_api::terminal::{ResizeRequest, ResizeResponse, TerminalInputRequest, TerminalInputResponse};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_engine::{ControlError, InputError, Terminal};
use tokio::time::timeout;

use crate::app::App;
use crate::error::ApiError;
use crate::input::{Json, PathTerminal};
use crate::routes::terminal::size;
use crate::terminal::keys::{Key, MAX_KEYS};
use crate::terminal::{self, TrackFrom};

/// Sets the size of a terminal. Attached viewers are notified.
#[utoipa::path(post, path = "/api/terminal/{id}/resize", operation_id = "resizeTerminal", tag = "terminals",
    params(("id" = String, Path, description = "Id of a terminal.")), request_body = ResizeRequest,
    responses((status = 200, description = "The terminal has this size.", body = ResizeResponse)))]
pub(crate) async fn resize(
    PathTerminal(terminal): PathTerminal,
    request: Json<ResizeRequest>,
) -> Result<axum::Json<ResizeResponse>, ApiError> {
    let ResizeRequest { cols, rows } = request.value;
    terminal.resize(size(Some(cols), Some(rows))?).await.map_err(control_error)?;
    Ok(axum::Json(ResizeResponse { success: true, cols, rows, timestamp: Timestamp::now() }))
}

/// Sends input to a terminal: raw bytes, or text and keys as JSON (`Content-Type: application/json`).
///
/// The response comes when the input is queued. It does not wait until the program reads it. If the queue is full, the error
/// states how many bytes were accepted.
#[utoipa::path(post, path = "/api/terminal/{id}/input", operation_id = "sendTerminalInput", tag = "terminals",
    params(("id" = String, Path, description = "Id of a terminal.")),
    request_body(content((TerminalInputRequest = "application/json"), (Vec<u8> = "application/octet-stream"))),
    responses((status = 200, description = "The input is queued.", body = TerminalInputResponse)))]
pub(crate) async fn input(
    State(app): State<App>,
    PathTerminal(terminal): PathTerminal,
    headers: HeaderMap,
    request: Request,
) -> Result<axum::Json<TerminalInputResponse>, ApiError> {
    let written = if is_json(&headers) {
        let request =
            <Json<TerminalInputRequest> as axum::extract::FromRequest<App>>::from_request(request, &app);
        let bytes = encode(&app, &terminal, request.await?.value).await?;
        write(&terminal, &bytes, 0).await?
    } else {
        let mut body = request.into_body();
        let mut written = 0;
        let pause = app.limits.body_timeout;
        let stalled = |_| ApiError::invalid("body", format!("no data for {pause:?}; send the rest again"));
        while let Some(frame) = timeout(pause, body.frame()).await.map_err(stalled)? {
            let frame = frame.map_err(|e| ApiError::invalid("body", format!("incomplete: {e}")))?;
            if let Ok(data) = frame.into_data() {
                written = write(&terminal, &data, written).await?;
            }
        }
        written
    };
    Ok(axum::Json(TerminalInputResponse { success: true, written, timestamp: Timestamp::now() }))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// The bytes of text and keys.
async fn encode(app: &App, terminal: &Terminal, request: TerminalInputRequest) -> Result<Vec<u8>, ApiError> {
    let TerminalInputRequest { text, keys } = request;
    if text.is_none() && keys.is_none() {
        return Err(ApiError::invalid("text", "there is no input; give text, keys or both"));
    }
    let names = keys.unwrap_or_default();
    if names.len() > MAX_KEYS {
        return Err(ApiError::invalid("keys", format!("expected at most {MAX_KEYS}, got {}", names.len())));
    }
    let keys: Vec<_> =
        names.iter().enumerate().map(|(at, name)| Key::parse(name, at)).collect::<Result<_, _>>()?;
    let mut is_application = false;
    if keys.iter().any(|key| key.depends_on_mode()) && terminal.execution().status().end().is_none() {
        let hub = terminal::hub(app, terminal, TrackFrom::Now);
        let screen = hub.present_screen().await?;
        is_application = screen.emulator().screen.modes().application_cursor_keys;
    }
    let mut bytes = text.unwrap_or_default().into_bytes();
    bytes.extend(keys.iter().flat_map(|key| key.bytes(is_application).unwrap_or_default()));
    Ok(bytes)
}

/// Queues input. Returns the number of bytes that are queued in total.
async fn write(terminal: &Terminal, bytes: &[u8], before: u64) -> Result<u64, ApiError> {
    match terminal.write(bytes).await {
        Ok(()) => Ok(before + bytes.len() as u64),
        Err(InputError::Full { accepted }) => {
            let written = before + accepted as u64;
            let message = format!("the program does not read; {written} bytes were accepted");
            Err(ApiError::new(ErrorCode::TerminalInputFull, message)
                .with("written", written)
                .suggest("send the rest when the program has read some, or send ctrl-c"))
        }
        Err(InputError::Ended) => Err(ended()),
        Err(InputError::Control(e)) => Err(control_error(e)),
        Err(e) => Err(ApiError::internal(e)),
    }
}

fn ended() -> ApiError {
    ApiError::new(ErrorCode::ProcessEnded, "the terminal has ended; create it again")
}

fn control_error(error: ControlError) -> ApiError {
    match error {
        ControlError::Ended => ended(),
        error => error.into(),
    }
}
