//! Background processes, and the output of every execution.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use sandcrab_client::api::event::ProcessEvent;
use sandcrab_client::api::execute::{CommandRequest, Encoding};
use sandcrab_client::api::process::{Process, StreamName};
use sandcrab_client::{FollowOptions, KillOptions, ProcessFilter};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::exec::{dropped, pick, put_output, word};
use crate::catalog::{Call, Effect, Entry, ToolResult, entry};
use crate::cut;
use crate::failure::ToolError;
use crate::limits::{ANSWER_TIMEOUT, MAX_LISTED, MAX_PROGRESS_BYTES, MAX_WAIT_MS, output_bytes};
use crate::output::{Output, OutputText};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StartArguments {
    /// Shell text for bash; or, with `args`, a program that is run without a shell.
    command: String,
    /// Arguments of the program.
    args: Option<Vec<String>>,
    /// Id of the process. Default: a generated id.
    id: Option<String>,
    /// Session whose state the process starts from. The process ends with the session.
    session_id: Option<String>,
    /// Working directory. Default: that of the session, or the workspace.
    cwd: Option<String>,
    /// Environment variables to set.
    env: Option<BTreeMap<String, String>>,
    /// Text for standard input. Default: empty.
    stdin: Option<String>,
    /// Keep standard input open for process_input. Default: false.
    keep_stdin_open: Option<bool>,
    /// The process is ended after this many milliseconds. Default: no limit.
    timeout_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListArguments {
    /// Also list commands of exec and terminals. Default: only processes of process_start.
    all: Option<bool>,
    /// Only those of this session.
    session_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OutputArguments {
    /// Id of a process, of an execution of exec, or of a terminal.
    id: String,
    /// Cursor of an earlier result, to continue there. Default: the beginning.
    cursor: Option<String>,
    /// Wait for at most this many milliseconds (600000 at most) until the process has ended, `until` appears, or the result
    /// is full. Default: 0, return what there is.
    wait_ms: Option<u64>,
    /// With `waitMs`: stop waiting when this text appears in the new output.
    until: Option<String>,
    /// Maximum size of the output in the result, 64 to 262144 bytes. Default: 32768.
    max_output_bytes: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InputArguments {
    /// Id of the process, which was started with `keepStdinOpen`.
    id: String,
    /// Text to write. Add a line end where the program expects one.
    text: Option<String>,
    /// Close standard input afterwards. Default: false.
    close: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignalArguments {
    /// Id of the process.
    id: String,
    /// Name of the signal, such as `INT`, `HUP` or `USR1`.
    signal: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KillArguments {
    /// Id of a process, or of an execution of exec.
    id: String,
    /// Time between SIGTERM and SIGKILL in milliseconds. Default: 1000.
    grace_ms: Option<u64>,
}

pub(crate) fn entries() -> Vec<Entry> {
    vec![
        entry(
            "process_start",
            "Start a process",
            Effect::Runs,
            "Start a process in the background and return its id. It continues after this conversation until it ends by \
             itself or process_kill ends it.",
            start,
        ),
        entry(
            "process_list",
            "List processes",
            Effect::Reads,
            "List processes with their status and exit code, the newest last.",
            list,
        ),
        entry(
            "process_output",
            "Read or await output",
            Effect::Reads,
            "Read the output of a process, from a cursor on, and its status. With `waitMs`, wait for its end or for a text \
             such as a server's start message. Also continues the output of exec that was cut.",
            output,
        ),
        entry(
            "process_input",
            "Write to standard input",
            Effect::Changes,
            "Write text to the standard input of a process, or close it.",
            input,
        ),
        entry("process_signal", "Send a signal", Effect::Changes, "Send a signal to a process.", signal),
        entry(
            "process_kill",
            "End a process",
            Effect::Changes,
            "End a process and everything that it has started, also what a finished command has left running.",
            kill,
        ),
    ]
}

async fn start(call: Call, arguments: StartArguments) -> Result<ToolResult, ToolError> {
    let StartArguments { command, args, id, session_id, cwd, env, stdin, keep_stdin_open, timeout_ms } =
        arguments;
    let request = CommandRequest {
        command,
        args,
        process_id: id,
        session_id,
        cwd,
        env: env.map(|env| env.into_iter().map(|(name, value)| (name, Some(value))).collect()),
        stdin,
        keep_stdin_open,
        timeout_ms,
        ..CommandRequest::default()
    };
    let started = call.sandbox().start_process(request).await?;
    let id = started.id();
    let text = format!("started process {id}; process_output reads its output, process_kill ends it");
    Ok(ToolResult::new(text, json!({ "id": id, "pid": started.pid() })))
}

async fn list(call: Call, arguments: ListArguments) -> Result<ToolResult, ToolError> {
    let filter =
        ProcessFilter { all: arguments.all == Some(true), session_id: arguments.session_id, status: None };
    let all = call.client.processes(&filter).await?.processes;
    let shown = &all[all.len().saturating_sub(MAX_LISTED)..];
    let mut lines: Vec<String> = shown.iter().map(line).collect();
    if shown.len() < all.len() {
        lines.insert(0, format!("[{} older processes are not listed]", all.len() - shown.len()));
    }
    let text = if lines.is_empty() { "no processes".to_owned() } else { lines.join("\n") };
    Ok(ToolResult::new(
        text,
        json!({ "processes": shown.iter().map(fields).collect::<Vec<_>>(), "count": all.len() }),
    ))
}

fn line(process: &Process) -> String {
    let code = process.exit_code.map_or(String::new(), |code| format!(" ({code})"));
    let command = cut::start(process.command.lines().next().unwrap_or_default(), 100);
    format!("{}  {}{code}  {command}", process.id, word(process.status))
}

fn fields(process: &Process) -> Value {
    let mut fields =
        pick(process, &["id", "pid", "command", "status", "exitCode", "end", "sessionId", "startTime"]);
    fields["command"] = cut::start(&process.command, 1_000).into();
    fields
}

async fn output(mut call: Call, arguments: OutputArguments) -> Result<ToolResult, ToolError> {
    let OutputArguments { id, cursor, wait_ms, until, max_output_bytes } = arguments;
    let from = match &cursor {
        None => 0,
        Some(text) => text.parse().map_err(|_| {
            ToolError::argument(format!("invalid cursor {text:?}: give the `cursor` of an earlier result"))
        })?,
    };
    let wait = Duration::from_millis(wait_ms.unwrap_or(0).min(MAX_WAIT_MS));
    let deadline = Instant::now() + wait;
    let mut output = Output::forward(output_bytes(max_output_bytes), from);
    let since = cursor.is_some().then(|| from.to_string());
    let options =
        FollowOptions { encoding: Some(Encoding::Base64), since, stop_when_caught_up: wait.is_zero() };
    let opened = timeout_at(deadline.max(Instant::now() + ANSWER_TIMEOUT), call.client.follow(&id, &options));
    let Ok(opened) = opened.await else {
        return Err(ToolError::new("CONNECTION_LOST", "the server has not answered in time", "try again"));
    };
    let mut events = opened?;
    let mut exit = None;
    let mut matched = false;
    while !output.is_full() && !matched {
        let event = tokio::select! {
            biased;
            event = events.next() => event?,
            () = call.progress.due() => {
                let line = output.last_line(MAX_PROGRESS_BYTES);
                call.progress.send(line).await;
                continue;
            }
            // Without a wait, the stream ends by itself.
            () = tokio::time::sleep_until(deadline), if !wait.is_zero() => break,
        };
        let (stream, event) = match event {
            Some(ProcessEvent::Stdout(event)) => (StreamName::Stdout, event),
            Some(ProcessEvent::Stderr(event)) => (StreamName::Stderr, event),
            Some(ProcessEvent::ProcessInfo(_)) => continue,
            Some(ProcessEvent::Gap(gap)) => {
                output.skip_to(gap.to);
                continue;
            }
            Some(ProcessEvent::Exit(event)) => {
                exit = Some(event);
                break;
            }
            Some(ProcessEvent::Error(error)) => return Err(error.into()),
            Some(ProcessEvent::CaughtUp(_)) | None => break,
        };
        output.push(stream, &call.client.decode(&event.data)?);
        matched = until.as_ref().is_some_and(|until| output.contains(until));
    }
    drop(events);
    // The rest is not omitted: the next call reads it.
    let rendered = OutputText { omitted: None, ..output.render(exit.is_some()) };
    let mut text = rendered.text.clone();
    text.push_str(&dropped(&rendered));
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let (state, mut fields) = match &exit {
        Some(exit) => {
            let fields = json!({ "id": id, "running": false, "exitCode": exit.exit_code, "end": exit.end });
            (format!("ended with exit code {}", exit.exit_code), fields)
        }
        None if output.is_full() => ("more output follows".to_owned(), json!({ "id": id, "more": true })),
        None => ("running".to_owned(), json!({ "id": id, "running": true })),
    };
    let _ = write!(text, "[{state}; cursor \"{}\"]", rendered.cursor);
    put_output(&mut fields, &rendered, &id);
    if until.is_some()
        && let Value::Object(fields) = &mut fields
    {
        fields.insert("matched".to_owned(), matched.into());
    }
    Ok(ToolResult::new(text, fields))
}

async fn input(call: Call, arguments: InputArguments) -> Result<ToolResult, ToolError> {
    let InputArguments { id, text, close } = arguments;
    let close = close == Some(true);
    if text.is_none() && !close {
        return Err(ToolError::argument("give `text`, or `close` as true"));
    }
    let written = call.client.write_stdin(&id, text.unwrap_or_default(), close).await?.written;
    let closed = if close { ", and closed standard input" } else { "" };
    Ok(ToolResult::new(format!("wrote {written} bytes{closed}"), json!({ "id": id, "written": written })))
}

async fn signal(call: Call, arguments: SignalArguments) -> Result<ToolResult, ToolError> {
    let SignalArguments { id, signal } = arguments;
    call.client.signal(&id, &signal).await?;
    Ok(ToolResult::new(format!("sent {signal} to {id}"), json!({ "id": id, "signal": signal })))
}

async fn kill(call: Call, arguments: KillArguments) -> Result<ToolResult, ToolError> {
    let KillArguments { id, grace_ms } = arguments;
    let options = KillOptions { signal: None, grace: grace_ms.map(Duration::from_millis) };
    let killed = call.client.kill(&id, &options).await?;
    let (ended, left) = (killed.killed.len(), killed.survivors.len());
    let survivors = if left > 0 { format!("; {left} could not be ended") } else { String::new() };
    let fields = json!({ "id": id, "ended": ended, "survivors": killed.survivors });
    Ok(ToolResult::new(format!("ended {ended} processes of {id}{survivors}"), fields))
}
