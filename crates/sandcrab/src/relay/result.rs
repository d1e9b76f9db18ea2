//! The result of a command as one JSON document.

use sandcrab_api::event::{CompleteEvent, ErrorEvent};
use sandcrab_api::execute::{CommandRequest, Encoding, End, EndReason, ExecuteResult, ResultTag, Usage};
use sandcrab_api::process::ProcessLogs;
use sandcrab_client::{Client, LogOptions};

use crate::exit_code;
use crate::failure::Failure;

async fn logs(client: &Client, id: &str) -> Result<ProcessLogs, Failure> {
    let options = LogOptions { encoding: Some(Encoding::Utf8), ..LogOptions::default() };
    Ok(client.logs(id, &options).await?)
}

/// The result of a command that has completed. The stream reported how it ended; its output is read as text.
pub(super) async fn completed(
    client: &Client,
    request: &CommandRequest,
    complete: CompleteEvent,
) -> Result<ExecuteResult, Failure> {
    let CompleteEvent { end, usage, result, .. } = complete;
    let logs = logs(client, &result.execution_id).await?;
    Ok(ExecuteResult {
        success: result.success,
        exit_code: result.exit_code,
        command: result.command,
        args: request.args.clone(),
        duration: result.duration,
        timestamp: result.timestamp,
        session_id: result.session_id,
        execution_id: result.execution_id,
        end,
        usage,
        leftovers: result.leftovers,
        leftover_count: result.leftover_count,
        session_restarted: result.session_restarted,
        restored_state_age_ms: result.restored_state_age_ms,
        restored_from: result.restored_from,
        shell_ended: result.shell_ended,
        ..of_logs(logs)
    })
}

/// The result of a command that ended its session's shell, for which the stream has an error instead of a result.
pub(super) async fn shell_ended(
    client: &Client,
    request: &CommandRequest,
    id: &str,
    event: ErrorEvent,
) -> Result<ExecuteResult, Failure> {
    let process = client.process(id).await?;
    let exit_code = event.exit_code.unwrap_or_else(|| exit_code::UNKNOWN.into());
    let usage = process.usage;
    let logs = logs(client, id).await?;
    Ok(ExecuteResult {
        success: exit_code == 0,
        exit_code,
        command: request.command.clone(),
        args: request.args.clone(),
        duration: usage.as_ref().map_or(0.0, |usage| usage.wall_ms),
        timestamp: process.end_time.unwrap_or(event.timestamp),
        session_id: request.session_id.clone(),
        execution_id: process.id,
        end: process.end.unwrap_or(End { reason: EndReason::Exited, signal: None }),
        usage: usage.unwrap_or(NO_USAGE),
        leftovers: process.leftovers,
        leftover_count: process.leftover_count,
        session_restarted: None,
        shell_ended: Some(true),
        ..of_logs(logs)
    })
}

const NO_USAGE: Usage = Usage { user_ms: 0.0, system_ms: 0.0, wall_ms: 0.0, max_rss_bytes: 0 };

/// A result with the output, and nothing else filled in.
fn of_logs(logs: ProcessLogs) -> ExecuteResult {
    ExecuteResult {
        stdout: logs.stdout,
        stderr: logs.stderr,
        answer_type: ResultTag::Result,
        invalid_utf8: logs.invalid_utf8,
        truncated: logs.truncated,
        cursor: logs.cursor,
        success: false,
        exit_code: 0,
        encoding: None,
        command: String::new(),
        args: None,
        duration: 0.0,
        timestamp: logs.timestamp,
        session_id: None,
        execution_id: logs.process_id,
        end: End { reason: EndReason::Exited, signal: None },
        usage: NO_USAGE,
        leftovers: None,
        leftover_count: None,
        session_restarted: None,
        restored_state_age_ms: None,
        restored_from: None,
        shell_ended: None,
        replaced: None,
    }
}
