//! Terminals: interactive programs.

use sandcrab_client::api::ErrorCode;
use sandcrab_client::api::terminal::{
    ScreenResponse, TerminalInputRequest, TerminalRequest, TerminalStatus, TerminalWaitRequest,
};
use sandcrab_client::{ScreenOptions, Terminal};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::exec::pick;
use crate::catalog::{Call, Effect, Entry, ToolResult, entry};
use crate::cut;
use crate::failure::ToolError;
use crate::limits::{DEFAULT_OUTPUT_BYTES, MAX_SETTLE_MS, SETTLE_MS, wait};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OpenArguments {
    /// Shell text; or, with `args`, a program. Default: an interactive bash.
    command: Option<String>,
    /// Arguments of the program, which is run without a shell.
    args: Option<Vec<String>>,
    /// Id of the terminal. Default: a generated id. If it runs already, that one is used.
    id: Option<String>,
    /// Working directory. Default: the workspace.
    cwd: Option<String>,
    /// Session whose state it starts from.
    session_id: Option<String>,
    /// Number of columns, 1 to 1000. Default: 80.
    cols: Option<u16>,
    /// Number of rows, 1 to 1000. Default: 24.
    rows: Option<u16>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScreenArguments {
    /// Id of the terminal.
    id: String,
    /// Number of lines of the scrollback to show before the screen. Default: 0.
    scrollback: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SendArguments {
    /// Id of the terminal.
    id: String,
    /// Text to type, sent unchanged, before `keys`.
    text: Option<String>,
    /// Keys to press: `enter`, `tab`, `escape`, `backspace`, `up`, `down`, `left`, `right`, `home`, `end`, `pageup`,
    /// `pagedown`, `f1` to `f12`, or one character; with modifiers `ctrl-c`, `alt-x`, `shift-tab`.
    keys: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WaitArguments {
    /// Id of the terminal.
    id: String,
    /// Wait until the screen contains this text.
    text: Option<String>,
    /// Wait until this regular expression matches on the screen.
    regex: Option<String>,
    /// Wait until the screen has not changed for this many milliseconds.
    idle_ms: Option<u64>,
    /// Maximum time to wait in milliseconds, at most 600000. Default: 30000.
    timeout_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CloseArguments {
    /// Id of the terminal.
    id: String,
}

pub(crate) fn entries() -> Vec<Entry> {
    vec![
        entry(
            "terminal_open",
            "Open a terminal",
            Effect::Runs,
            "Start an interactive program in a terminal, and return the id of the terminal and its screen. It stays open \
             until terminal_close.",
            open,
        ),
        entry(
            "terminal_screen",
            "Show the screen",
            Effect::Reads,
            "Return the text that the terminal shows now, and the position of the cursor.",
            screen,
        ),
        entry(
            "terminal_send",
            "Type into a terminal",
            Effect::Changes,
            "Type text and press keys, and return the screen after the program has reacted. End a command line with the key \
             `enter`.",
            send,
        ),
        entry(
            "terminal_wait",
            "Wait for the screen",
            Effect::Reads,
            "Wait until the screen contains a text, matches a regular expression, or stays unchanged, and return it.",
            await_screen,
        ),
        entry(
            "terminal_close",
            "Close a terminal",
            Effect::Changes,
            "Close a terminal and end everything that it has started.",
            close,
        ),
    ]
}

async fn open(call: Call, arguments: OpenArguments) -> Result<ToolResult, ToolError> {
    let OpenArguments { command, args, id, cwd, session_id, cols, rows } = arguments;
    let has_id = id.is_some();
    let request =
        TerminalRequest { command, args, id, cwd, session_id, cols, rows, ..TerminalRequest::default() };
    let terminal = call.sandbox().terminal(request).await?;
    let mut unknown = CloseOnDrop((!has_id).then(|| terminal.clone()));
    settle(&call, terminal.id()).await?;
    let answer = show(&call, terminal.id(), None).await?;
    unknown.0 = None;
    Ok(answer)
}

/// Closes a terminal whose id the model does not know: the call was cancelled or has failed before its answer.
struct CloseOnDrop(Option<Terminal>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        let Some(terminal) = self.0.take() else { return };
        // Outside of a runtime no request can be sent.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // The call is over, so nothing can wait for the end or learn of a failure.
            runtime.spawn(async move { drop(terminal.destroy().await) });
        }
    }
}

async fn screen(call: Call, arguments: ScreenArguments) -> Result<ToolResult, ToolError> {
    show(&call, &arguments.id, arguments.scrollback).await
}

async fn send(call: Call, arguments: SendArguments) -> Result<ToolResult, ToolError> {
    let SendArguments { id, text, keys } = arguments;
    if text.is_none() && keys.is_none() {
        return Err(ToolError::argument("give `text`, `keys` or both"));
    }
    call.client.type_into_terminal(&id, &TerminalInputRequest { text, keys }).await?;
    settle(&call, &id).await?;
    show(&call, &id, None).await
}

async fn await_screen(mut call: Call, arguments: WaitArguments) -> Result<ToolResult, ToolError> {
    let WaitArguments { id, text, regex, idle_ms, timeout_ms } = arguments;
    let timeout = u64::try_from(wait(timeout_ms).as_millis()).unwrap_or(u64::MAX);
    let request = TerminalWaitRequest { text, regex, idle_ms, timeout_ms: Some(timeout) };
    let client = call.client.clone();
    let waited = client.wait_for_screen(&id, &request);
    let mut waited = std::pin::pin!(waited);
    let waited = loop {
        tokio::select! {
            biased;
            waited = &mut waited => break waited,
            () = call.progress.due() => call.progress.send(None).await,
        }
    };
    match waited {
        Ok(_) => show(&call, &id, None).await,
        Err(error) if error.code() == Some(ErrorCode::WaitTimeout) => {
            // What is there instead tells the model what to do.
            let shown = show(&call, &id, None).await.map(|answer| answer.text).unwrap_or_default();
            Err(ToolError::from(error).with_details(shown))
        }
        Err(error) => Err(error.into()),
    }
}

async fn close(call: Call, arguments: CloseArguments) -> Result<ToolResult, ToolError> {
    let deleted = call.client.delete_terminal(&arguments.id).await?;
    let text = format!("closed terminal {}; {} processes ended", deleted.id, deleted.killed.len());
    let fields = json!({ "id": deleted.id, "ended": deleted.killed.len(), "survivors": deleted.survivors });
    Ok(ToolResult::new(text, fields))
}

/// Waits for a short time until the program has drawn. A program that draws without a pause does not prevent an answer.
async fn settle(call: &Call, id: &str) -> Result<(), ToolError> {
    let request = TerminalWaitRequest {
        idle_ms: Some(SETTLE_MS),
        timeout_ms: Some(MAX_SETTLE_MS),
        ..TerminalWaitRequest::default()
    };
    match call.client.wait_for_screen(id, &request).await {
        Err(error) if error.code() != Some(ErrorCode::WaitTimeout) => Err(error.into()),
        _ => Ok(()),
    }
}

async fn show(call: &Call, id: &str, scrollback: Option<u32>) -> Result<ToolResult, ToolError> {
    let options = ScreenOptions { format: None, scrollback };
    let screen: ScreenResponse = call.client.screen(id, &options).await?;
    let terminal = call.client.terminal(id).await?;
    let shown = cut::middle(screen.text.trim_end(), DEFAULT_OUTPUT_BYTES);
    let state = match (terminal.status, terminal.exit_code) {
        (TerminalStatus::Exited, Some(code)) => format!("the program has ended with exit code {code}"),
        (TerminalStatus::Exited, None) => "the program has ended".to_owned(),
        _ => format!("cursor in row {}, column {}", screen.cursor.row + 1, screen.cursor.col + 1),
    };
    let text = format!("{shown}\n[terminal {id}, {} × {}, {state}]", screen.cols, screen.rows);
    let mut fields = pick(&screen, &["cols", "rows", "cursor", "title", "alternate", "scrollbackLines"]);
    fields["id"] = id.into();
    fields["text"] = shown.into();
    fields["running"] = (terminal.status == TerminalStatus::Running).into();
    if let Some(code) = terminal.exit_code {
        fields["exitCode"] = code.into();
    }
    Ok(ToolResult::new(text, fields))
}
