//! The result of an ended command, as a response or event.

use std::future::{Future, ready};
use std::time::Duration;

use axum::response::Response;
use sandcrab_api::event::Summary;
use sandcrab_api::execute::{Encoding, ExecuteResult, ResultTag, Truncated};
use sandcrab_api::session::OnShellExit;
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_engine::{End, EndReason, Execution, ExecutionInfo, ReadError};
use tokio::time::Instant;

use crate::convert;
use crate::error::ApiError;
use crate::launch::Launch;
use crate::layer::RequestId;
use crate::origin::Origin;
use crate::outgoing::{Outgoing, SCARCE_PIECE_BYTES};
use crate::response_output::ResponseOutput;
use crate::text;

/// Maximum size of each stream in an error.
const ERROR_OUTPUT_BYTES: usize = 1 << 20;

/// Maximum size of a journal that is read on the async thread.
const INLINE_READ_BYTES: u64 = 1 << 20;

/// Duration and interval of read retries while the machine lacks descriptors or memory.
pub(crate) const READ_RETRY_TIMEOUT: Duration = Duration::from_secs(5);
pub(crate) const READ_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the response to a command that has ended.
pub(crate) async fn respond(
    launch: Launch,
    end: &End,
    outgoing: &Outgoing,
    request: RequestId,
) -> Result<Response, ApiError> {
    let origin = Origin::execution(request, &launch.execution);
    let (result, output) = result(launch, end, outgoing).await?;
    Ok(output.respond(result, outgoing, origin))
}

/// Returns the result of an ended command without its output, and the output.
pub(crate) async fn result(
    launch: Launch,
    end: &End,
    outgoing: &Outgoing,
) -> Result<(ExecuteResult, ResponseOutput), ApiError> {
    if let Some(refusal) = session_error(&launch, end) {
        return Err(with_output(refusal, &launch, outgoing).await?);
    }
    let info = launch.execution.info();
    let encoding = launch.encoding;
    let id = launch.execution.id().to_string();
    let (output, cursor) = output(&launch, outgoing).await.map_err(|e| e.with("executionId", id.as_str()))?;
    let ended_at = info.ended_at.map_or_else(Timestamp::now, Timestamp::from);
    let result = ExecuteResult {
        stdout: String::new(),
        stderr: String::new(),
        answer_type: ResultTag::Result,
        invalid_utf8: false,
        encoding: (encoding == Encoding::Base64).then_some(encoding),
        success: convert::exit_code(end) == 0,
        exit_code: convert::exit_code(end),
        command: launch.command,
        args: launch.args,
        duration: convert::millis(end.usage.wall),
        timestamp: ended_at,
        session_id: launch.session,
        execution_id: id,
        end: convert::end(end),
        usage: convert::usage(&end.usage),
        truncated: output.truncated,
        leftovers: (end.leftover_count > 0).then(|| convert::names(&end.leftovers)),
        leftover_count: (end.leftover_count > 0).then_some(end.leftover_count),
        session_restarted: end.restored.is_some().then_some(true),
        restored_state_age_ms: end.restored.map(convert::millis),
        restored_from: end.restored_from.map(convert::restored_from),
        shell_ended: end.shell_ended.then_some(true),
        replaced: convert::replaced(&info),
        cursor,
    };
    Ok((result, output))
}

/// Returns the output of an ended command. If the machine has no descriptors to read it even after retries,
/// the output is omitted and reported as truncated: the command has run, so its result must be sent.
async fn output(launch: &Launch, outgoing: &Outgoing) -> Result<(ResponseOutput, u64), ApiError> {
    let (limit, encoding) = (launch.max_output_bytes, launch.encoding);
    let read = || {
        let piece = outgoing.piece_bytes() as u64;
        read_blocking(&launch.execution, move |execution| {
            ResponseOutput::of(execution, limit, encoding, piece)
        })
    };
    match with_retries(read).await {
        Err(ReadError::OutOf(_)) => {
            Ok((ResponseOutput::omitted(launch.encoding, all_omitted(&launch.execution.info())), 0))
        }
        read => Ok(read?),
    }
}

/// Reads the journal of an execution. A long journal is read on a blocking thread, so that other clients are
/// not delayed.
pub(crate) async fn read_blocking<T, E>(
    execution: &Execution,
    read: impl FnOnce(&Execution) -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<ReadError> + Send + 'static,
{
    if execution.output_bytes() <= INLINE_READ_BYTES {
        return read(execution);
    }
    let execution = execution.clone();
    match tokio::task::spawn_blocking(move || read(&execution)).await {
        Ok(read) => read,
        Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
        // The runtime is shutting down.
        Err(e) => Err(ReadError::Journal(e.to_string()).into()),
    }
}

/// Reports all output as omitted.
fn all_omitted(info: &ExecutionInfo) -> Truncated {
    let stderr_bytes = info.stderr_bytes.min(info.output_bytes);
    Truncated { stdout_bytes: info.output_bytes - stderr_bytes, stderr_bytes, ..Truncated::default() }
}

/// Reads, with retries while the machine lacks descriptors or memory.
pub(crate) async fn with_retries<T, F>(mut read: impl FnMut() -> F) -> Result<T, ReadError>
where
    F: Future<Output = Result<T, ReadError>>,
{
    let deadline = Instant::now() + READ_RETRY_TIMEOUT;
    loop {
        match read().await {
            Err(ReadError::OutOf(_)) if Instant::now() < deadline => {
                tokio::time::sleep(READ_RETRY_INTERVAL).await;
            }
            read => return read,
        }
    }
}

/// Returns the result for the last event of a stream.
pub(crate) fn summary(launch: &Launch, end: &End, timestamp: Timestamp) -> Summary {
    Summary {
        success: convert::exit_code(end) == 0,
        exit_code: convert::exit_code(end),
        command: launch.command.clone(),
        duration: convert::millis(end.usage.wall),
        execution_id: launch.execution.id().to_string(),
        session_id: launch.session.clone(),
        leftovers: (end.leftover_count > 0).then(|| convert::names(&end.leftovers)),
        leftover_count: (end.leftover_count > 0).then_some(end.leftover_count),
        session_restarted: end.restored.is_some().then_some(true),
        restored_state_age_ms: end.restored.map(convert::millis),
        restored_from: end.restored_from.map(convert::restored_from),
        shell_ended: end.shell_ended.then_some(true),
        timestamp,
    }
}

/// Returns the error response if the command ended its session's shell, or its session ended.
pub(crate) fn session_error(launch: &Launch, end: &End) -> Option<ApiError> {
    let session = launch.session.as_deref()?;
    // Checked first, because the shell ends with its session.
    let error = if end.reason == EndReason::SessionEnded {
        let message = "the session was deleted or reset while the command was running or queued";
        ApiError::new(ErrorCode::SessionDestroyed, message)
    } else if end.shell_ended {
        if launch.on_shell_exit == OnShellExit::Restore {
            return None;
        }
        let message = "the command ended the session's shell, which is restored for the next command";
        ApiError::new(ErrorCode::SessionTerminated, message)
            .suggest("create the session with onShellExit \"restore\" to get its result instead")
    } else {
        return None;
    };
    let error = error.with("sessionId", session).with("exitCode", convert::exit_code(end));
    Some(error.with("executionId", launch.execution.id().as_str()))
}

async fn with_output(error: ApiError, launch: &Launch, outgoing: &Outgoing) -> Result<ApiError, ApiError> {
    // An error is held whole in memory, so it contains less when memory is scarce.
    let most = if outgoing.is_scarce() { SCARCE_PIECE_BYTES } else { ERROR_OUTPUT_BYTES };
    let limit = usize::try_from(launch.max_output_bytes).unwrap_or(usize::MAX).min(most);
    let output = match with_retries(|| ready(launch.execution.output(limit))).await {
        Err(ReadError::OutOf(_)) => {
            return Ok(error.with("truncatedBytes", launch.execution.output_bytes()));
        }
        output => output?,
    };
    let text = |bytes| text::encode(bytes, launch.encoding).0;
    let omitted = output.stdout.omitted + output.stderr.omitted;
    let error = error.with("stdout", text(output.stdout.bytes)).with("stderr", text(output.stderr.bytes));
    Ok(if omitted > 0 { error.with("truncatedBytes", omitted) } else { error })
}
