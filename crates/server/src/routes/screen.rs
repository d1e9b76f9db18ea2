//! The screen of a terminal: read, and waited for.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use sandcrab_api::terminal::{
    Color, ScreenCursor, ScreenFormat, ScreenResponse, ScreenRun, TerminalWaitRequest, TerminalWaitResponse,
    UnderlineStyle,
};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_screen::{Run, SCROLLBACK_LINES, Screen, Style, Underline};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::error::ApiError;
use crate::input::{Json, PathTerminal};
use crate::query::Params;
use crate::terminal::matching::Pattern;
use crate::terminal::wait::{self, Condition};
use crate::terminal::{self, ScreenGuard, TrackFrom};

/// Maximum number of runs in a response. Each has some 50 bytes or more.
const MAX_RUNS: usize = 200_000;

/// Options of a screen.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ScreenOptions {
    /// Number of lines of the scrollback to include. Default: 0.
    scrollback: Option<usize>,
    /// Form of the response. Default: `text`.
    #[param(inline)]
    format: Option<ScreenFormat>,
}

/// Returns the screen of a terminal as it is now, or as it was when the terminal ended.
#[utoipa::path(get, path = "/api/terminal/{id}/screen", operation_id = "getTerminalScreen", tag = "terminals",
    params(("id" = String, Path, description = "Id of a terminal."), ScreenOptions),
    responses((status = 200, description = "The screen.", body = ScreenResponse)))]
pub(crate) async fn screen(
    State(app): State<App>,
    PathTerminal(terminal): PathTerminal,
    Params(options): Params<ScreenOptions>,
) -> Result<Response, ApiError> {
    let hub = terminal::hub(&app, &terminal, TrackFrom::Now);
    let scrollback = options.scrollback.unwrap_or(0).min(SCROLLBACK_LINES);
    let format = options.format.unwrap_or_default();
    let guard = hub.present_screen().await?;
    let is_large =
        usize::from(terminal.size().cols) * (usize::from(terminal.size().rows) + scrollback) > 100_000;
    let response = move |guard: &ScreenGuard| {
        let emulator = guard.emulator();
        let source = emulator.source(&terminal);
        let screen = &emulator.screen;
        let cells = (format == ScreenFormat::Cells).then(|| cells(screen, scrollback)).transpose()?;
        let size = emulator.size();
        let cursor = screen.cursor();
        Ok::<_, ApiError>(ScreenResponse {
            success: true,
            text: text(screen, scrollback),
            cells,
            cols: size.cols,
            rows: size.rows,
            cursor: ScreenCursor { row: cursor.row, col: cursor.col, visible: cursor.visible },
            title: screen.title().to_owned(),
            alternate: screen.is_alternate(),
            scrollback_lines: screen.scrollback_len(),
            source,
            output_dropped: !emulator.is_complete() || *terminal.unrecorded().borrow(),
            output_cursor: emulator.cursor(),
            timestamp: Timestamp::now(),
        })
    };
    let response = if is_large {
        tokio::task::spawn_blocking(move || response(&guard)).await.map_err(ApiError::internal)??
    } else {
        response(&guard)?
    };
    app.outgoing.json(&response)
}

/// The lines, each without trailing blanks. Empty lines at the end of the screen are kept: they are part of it.
fn text(screen: &Screen, scrollback: usize) -> String {
    let mut text = String::new();
    for (at, row) in screen.rows(scrollback).enumerate() {
        if at > 0 {
            text.push('\n');
        }
        text.push_str(&row.text());
    }
    text
}

fn cells(screen: &Screen, scrollback: usize) -> Result<Vec<Vec<ScreenRun>>, ApiError> {
    let mut count = 0;
    let mut rows = Vec::new();
    for row in screen.rows(scrollback) {
        count += row.runs.len();
        if count > MAX_RUNS {
            let message = format!("the screen has more than {MAX_RUNS} runs of equal attributes");
            return Err(ApiError::new(ErrorCode::LimitExceeded, message)
                .suggest("use format=text, less scrollback, or a smaller terminal"));
        }
        rows.push(row.runs.into_iter().map(run).collect());
    }
    Ok(rows)
}

fn run(run: Run) -> ScreenRun {
    let Style {
        fg,
        bg,
        underline_color,
        underline,
        bold,
        dim,
        italic,
        blink,
        inverse,
        invisible,
        strikethrough,
        overline,
    } = run.style;
    ScreenRun {
        text: run.text,
        fg: color(fg),
        bg: color(bg),
        bold,
        dim,
        italic,
        underline: underline != Underline::None,
        underline_style: match underline {
            Underline::Double => Some(UnderlineStyle::Double),
            Underline::Curly => Some(UnderlineStyle::Curly),
            Underline::Dotted => Some(UnderlineStyle::Dotted),
            Underline::Dashed => Some(UnderlineStyle::Dashed),
            _ => None,
        },
        underline_color: color(underline_color),
        blink,
        inverse,
        hidden: invisible,
        strikethrough,
        overline,
        link: run.link,
    }
}

fn color(color: sandcrab_screen::Color) -> Option<Color> {
    match color {
        sandcrab_screen::Color::Indexed(index) => Some(Color::Index(index)),
        sandcrab_screen::Color::Rgb(red, green, blue) => Some(Color::Rgb(red, green, blue)),
        sandcrab_screen::Color::Default => None,
    }
}

/// Waits until the screen of a terminal shows a text, matches a regular expression, or has not changed for a while.
#[utoipa::path(post, path = "/api/terminal/{id}/wait", operation_id = "waitForTerminal", tag = "terminals",
    params(("id" = String, Path, description = "Id of a terminal.")), request_body = TerminalWaitRequest,
    responses((status = 200, description = "The screen is as requested.", body = TerminalWaitResponse)))]
pub(crate) async fn wait(
    State(app): State<App>,
    PathTerminal(terminal): PathTerminal,
    request: Json<TerminalWaitRequest>,
) -> Result<axum::Json<TerminalWaitResponse>, ApiError> {
    let TerminalWaitRequest { text, regex, idle_ms, timeout_ms } = request.value;
    let condition = match (text, regex, idle_ms) {
        (Some(text), None, None) => Condition::Shows(Pattern::text(text)?),
        (None, Some(regex), None) => Condition::Shows(Pattern::regex(&regex)?),
        (None, None, Some(idle)) => Condition::Idle(Duration::from_millis(idle)),
        _ => return Err(ApiError::invalid("text", "give exactly one of text, regex and idleMs")),
    };
    let hub = terminal::hub(&app, &terminal, TrackFrom::Now);
    let timeout = timeout_ms.map(Duration::from_millis);
    let found = wait::wait(&hub, condition, timeout, &app.stopping).await?;
    let (row, col, text) =
        found.map_or((None, None, None), |found| (Some(found.row), Some(found.col), Some(found.text)));
    let timestamp = Timestamp::now();
    Ok(axum::Json(TerminalWaitResponse { success: true, matched: true, row, col, text, timestamp }))
}
