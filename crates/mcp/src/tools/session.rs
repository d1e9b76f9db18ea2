//! Sessions: shells that keep their state.

use std::collections::BTreeMap;

use sandcrab_client::api::session::{InterruptRequest, OnShellExit, SessionEnded, SessionRequest};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::exec::pick;
use crate::catalog::{Call, Effect, Entry, ToolResult, entry};
use crate::failure::ToolError;
use crate::limits::MAX_LISTED;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CreateArguments {
    /// Id of the session: letters, digits, `-`, `_` and `.`. Default: a generated id.
    id: Option<String>,
    /// Initial working directory. Default: the workspace.
    cwd: Option<String>,
    /// Environment variables to set.
    env: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListArguments {}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    Interrupt,
    Reset,
    Delete,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ControlArguments {
    /// Id of the session.
    id: String,
    /// `interrupt` ends the running command and keeps the shell; `reset` starts a new shell without the old state; `delete`
    /// ends the session and everything that runs in it.
    action: Action,
}

pub(crate) fn entries() -> Vec<Entry> {
    vec![
        entry(
            "session_create",
            "Create a session",
            Effect::Adds,
            "Create a session: a bash shell whose working directory, variables, functions and options are kept between \
             commands. Run commands in it with exec and `sessionId`. It stays until it is deleted.",
            create,
        ),
        entry(
            "session_list",
            "List sessions",
            Effect::Reads,
            "List the sessions with their working directory, and whether a command is running.",
            list,
        ),
        entry(
            "session_control",
            "Interrupt, reset or delete a session",
            Effect::Changes,
            "Interrupt the running command of a session, reset its shell, or delete it.",
            control,
        ),
    ]
}

async fn create(call: Call, arguments: CreateArguments) -> Result<ToolResult, ToolError> {
    let CreateArguments { id, cwd, env } = arguments;
    let request = SessionRequest {
        id,
        cwd,
        env: env.map(|env| env.into_iter().map(|(name, value)| (name, Some(value))).collect()),
        // `exit 3` is then a result with exit code 3, and the session goes on.
        on_shell_exit: Some(OnShellExit::Restore),
        ..SessionRequest::default()
    };
    let created = call.sandbox().create_session(request).await?;
    let (id, cwd) = (created.id(), created.initial_cwd().unwrap_or_default());
    let text = format!("created session {id}, working directory {cwd}");
    Ok(ToolResult::new(text, json!({ "sessionId": id, "cwd": cwd })))
}

async fn list(call: Call, _: ListArguments) -> Result<ToolResult, ToolError> {
    let all = call.client.sessions().await?.sessions;
    let shown = &all[all.len().saturating_sub(MAX_LISTED)..];
    let lines: Vec<String> = shown
        .iter()
        .map(|session| {
            let state = if session.busy { "busy" } else { "idle" };
            format!("{}  {state}  {}", session.id, session.cwd.as_deref().unwrap_or("?"))
        })
        .collect();
    let text = if lines.is_empty() { "no sessions".to_owned() } else { lines.join("\n") };
    let sessions: Vec<_> = shown
        .iter()
        .map(|session| pick(session, &["id", "name", "cwd", "busy", "queued", "restarts"]))
        .collect();
    Ok(ToolResult::new(text, json!({ "sessions": sessions, "count": all.len() })))
}

async fn control(call: Call, arguments: ControlArguments) -> Result<ToolResult, ToolError> {
    let ControlArguments { id, action } = arguments;
    let ended: SessionEnded = match action {
        Action::Reset => {
            call.client.reset_session(&id, false).await?;
            return Ok(ToolResult::new(format!("reset session {id}"), json!({ "sessionId": id })));
        }
        Action::Interrupt => call.client.interrupt(&id, &InterruptRequest::default()).await?,
        Action::Delete => call.client.delete_session(&id).await?,
    };
    let done = if matches!(action, Action::Delete) { "deleted" } else { "interrupted" };
    let text = format!("{done} session {id}; {} processes ended", ended.killed.len());
    let fields = json!({ "sessionId": id, "ended": ended.killed.len(), "survivors": ended.survivors });
    Ok(ToolResult::new(text, fields))
}
