//! `exec`: runs a command and waits for it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};

use sandcrab_client::api::event::{CompleteEvent, ExecuteEvent, OutputEvent};
use sandcrab_client::api::execute::{CommandRequest, Encoding, EndReason, OnDisconnect};
use sandcrab_client::api::process::StreamName;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::catalog::{Call, Effect, Entry, ToolResult, entry};
use crate::failure::ToolError;
use crate::limits::{DEFAULT_COMMAND_TIMEOUT_MS, MAX_PROGRESS_BYTES, output_bytes};
use crate::output::{Omitted, Output, OutputText};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExecArguments {
    /// Shell text for bash; or, with `args`, a program that is run without a shell.
    command: String,
    /// Arguments of the program.
    args: Option<Vec<String>>,
    /// Session to run the command in. Its working directory, variables and functions are kept. Default: a fresh shell.
    session_id: Option<String>,
    /// Working directory. Default: that of the session, or the workspace.
    cwd: Option<String>,
    /// Environment variables to set.
    env: Option<BTreeMap<String, String>>,
    /// Text for standard input. Default: empty.
    stdin: Option<String>,
    /// The command is ended after this many milliseconds. Default: 120000; 0 for no limit.
    timeout_ms: Option<u64>,
    /// Maximum size of the output in the result, 64 to 262144 bytes. Default: 32768. Beginning and end are kept.
    max_output_bytes: Option<u64>,
}

pub(crate) fn entries() -> Vec<Entry> {
    vec![entry(
        "exec",
        "Run a command",
        Effect::Runs,
        "Run a command, wait for its end, and return its output and exit code. A command that fails is not an error: look \
         at the exit code. Use process_start for servers and other long work, and a terminal for interactive programs.",
        exec,
    )]
}

async fn exec(mut call: Call, arguments: ExecArguments) -> Result<ToolResult, ToolError> {
    let mut output = Output::both_ends(output_bytes(arguments.max_output_bytes));
    let mut events = call.client.execute_stream(&request(arguments)).await?;
    let mut id = String::new();
    loop {
        let event = tokio::select! {
            // Progress first, so that a flood of output does not delay it.
            biased;
            () = call.progress.due() => {
                let line = output.last_line(MAX_PROGRESS_BYTES);
                call.progress.send(line).await;
                continue;
            }
            event = events.next() => event?,
        };
        match event {
            Some(ExecuteEvent::Start(start)) => {
                id = start.execution_id;
                call.progress.send(Some(format!("started execution {id}"))).await;
            }
            Some(ExecuteEvent::Stdout(event)) => add(&call, &mut output, StreamName::Stdout, &event)?,
            Some(ExecuteEvent::Stderr(event)) => add(&call, &mut output, StreamName::Stderr, &event)?,
            Some(ExecuteEvent::Gap(gap)) => output.skip_to(gap.to),
            Some(ExecuteEvent::Complete(complete)) => {
                return Ok(answer(&complete, &output.render(true)));
            }
            Some(ExecuteEvent::Error(error)) => {
                let text = completed(&output.render(true), &id);
                return Err(ToolError::from(error).with_details(text));
            }
            None => {
                return Err(ToolError::new(
                    "INVALID_RESPONSE",
                    "the stream ended before the command did",
                    "try again",
                ));
            }
        }
    }
}

/// The command ends with this call: the server kills it when the connection of a cancelled call is closed.
fn request(arguments: ExecArguments) -> CommandRequest {
    let ExecArguments { command, args, session_id, cwd, env, stdin, timeout_ms, .. } = arguments;
    CommandRequest {
        execution_id: Some(new_id()),
        command,
        args,
        session_id,
        cwd,
        env: env.map(|env| env.into_iter().map(|(name, value)| (name, Some(value))).collect()),
        stdin,
        timeout_ms: Some(timeout_ms.unwrap_or(DEFAULT_COMMAND_TIMEOUT_MS)),
        encoding: Some(Encoding::Base64),
        on_disconnect: Some(OnDisconnect::Kill),
        ..CommandRequest::default()
    }
}

/// An id that is short, because models repeat it, and differs from that of every other execution.
fn new_id() -> String {
    let random = RandomState::new().hash_one((std::process::id(), std::time::SystemTime::now()));
    format!("x-{:012x}", random & 0xffff_ffff_ffff)
}

fn add(call: &Call, output: &mut Output, stream: StreamName, event: &OutputEvent) -> Result<(), ToolError> {
    output.push(stream, &call.client.decode(&event.data)?);
    Ok(())
}

fn answer(complete: &CompleteEvent, output: &OutputText) -> ToolResult {
    let CompleteEvent { exit_code, end, result, .. } = complete;
    let id = &result.execution_id;
    let mut text = completed(output, id);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let why = match end.reason {
        EndReason::Exited => String::new(),
        EndReason::Signaled => {
            end.signal.map_or(String::new(), |signal| format!(", ended by signal {signal}"))
        }
        EndReason::Timeout => ", the timeout has passed".to_owned(),
        reason => format!(", {}", word(reason)),
    };
    let _ = write!(text, "[exit code {exit_code}{why}, {:.0} ms, execution {id}]", result.duration);
    let left = result.leftover_count.unwrap_or(0);
    if left > 0 {
        let _ =
            write!(text, "\n[{left} processes that it started are still running; process_kill ends them]");
    }
    if result.session_restarted == Some(true) {
        text.push_str("\n[the shell of the session was restored before this command]");
    }
    let mut fields = json!({
        "executionId": id,
        "exitCode": exit_code,
        "success": result.success,
        "end": end,
        "durationMs": result.duration,
        "leftoverCount": left,
    });
    put_output(&mut fields, output, id);
    ToolResult::new(text, fields)
}

/// A word of the wire.
pub(crate) fn word(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

/// The text, with a note in place of what was left out.
pub(crate) fn completed(output: &OutputText, id: &str) -> String {
    let mut text = output.text_with(&omission(output, id));
    text.push_str(&dropped(output));
    text
}

fn omission(output: &OutputText, id: &str) -> String {
    output.omitted.map_or(String::new(), |Omitted { cursor, bytes, .. }| {
        format!(
            "\n[… {bytes} bytes omitted; continue with process_output, id \"{id}\", cursor \"{cursor}\" …]\n"
        )
    })
}

/// A note about output that the server has dropped.
pub(crate) fn dropped(output: &OutputText) -> String {
    match output.dropped {
        0 => String::new(),
        bytes => format!("\n[{bytes} bytes were dropped: the record of the output is full]\n"),
    }
}

/// Adds the output to the fields of an answer. A client may show only these to the model, so they have the same note.
pub(crate) fn put_output(fields: &mut Value, output: &OutputText, id: &str) {
    let [stdout, stderr] = output.streams_with(&omission(output, id));
    let mut put = |name: &str, value: Value| fields[name] = value;
    put("stdout", stdout.into());
    put("stderr", stderr.into());
    put("cursor", output.cursor.to_string().into());
    if let Some(Omitted { cursor, bytes, .. }) = output.omitted {
        put("omitted", json!({ "bytes": bytes, "cursor": cursor.to_string() }));
    }
    if output.dropped > 0 {
        put("droppedBytes", output.dropped.into());
    }
}

/// The fields of a wire type that a model needs.
pub(crate) fn pick(value: impl serde::Serialize, names: &[&str]) -> Value {
    let Ok(Value::Object(mut all)) = serde_json::to_value(value) else { return Value::Null };
    let picked: Map<String, Value> =
        names.iter().filter_map(|name| all.remove(*name).map(|value| ((*name).to_owned(), value))).collect();
    Value::Object(picked)
}
