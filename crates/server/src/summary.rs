//! What a command did, as its answer says it.

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

/// The most bytes of each stream that an error carries.
const ERROR_OUTPUT_BYTES: usize = 1 << 20;

/// Journals up to this size are read where the request is handled.
const INLINE_READ_BYTES: u64 = 1 << 20;

/// How long reading is tried again when the machine is out of something, and how often.
pub(crate) const READ_RETRY_TIMEOUT: Duration = Duration::from_secs(5);
pub(crate) const READ_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The answer to a command that has ended.
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

/// The result of a command that has ended, without its output, and its output.
pub(crate) async fn result(
    launch: Launch,
    end: &End,
    outgoing: &Outgoing,
) -> Result<(ExecuteResult, ResponseOutput), ApiError> {
    if let Some(refusal) = refusal(&launch, end) {
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

/// The output of a command that has ended. It has run, so there is an answer: where the machine has no descriptor left to
/// read it with for a while, all of it is left out, and said to be.
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

/// Reads the journal of an execution. A long one is read on a thread of its own: finding what is in it takes as long as
/// reading it, and other clients wait for the runtime's threads.
pub(crate) async fn read_blocking<T, E>(
    execution: &Execution,
    read: impl FnOnce(&Execution) -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<ReadError> + Send + 'static,
{
    if execution.info().output_bytes <= INLINE_READ_BYTES {
        return read(execution);
    }
    let execution = execution.clone();
    match tokio::task::spawn_blocking(move || read(&execution)).await {
        Ok(read) => read,
        Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
        // The runtime is going down.
        Err(e) => Err(ReadError::Journal(e.to_string()).into()),
    }
}

/// What is missing where all output is left out.
fn all_omitted(info: &ExecutionInfo) -> Truncated {
    let stderr_bytes = info.stderr_bytes.min(info.output_bytes);
    Truncated { stdout_bytes: info.output_bytes - stderr_bytes, stderr_bytes, ..Truncated::default() }
}

/// Reads, and tries again for a while when the machine is out of descriptors or memory.
pub(crate) async fn with_retries<T, F>(mut read: impl FnMut() -> F) -> Result<T, ReadError>
where
    F: Future<Output = Result<T, ReadError>>,
{
    let deadline = Instant::now() + READ_RETRY_TIMEOUT;
    loop {
        match read().await {
            Err(ReadError::OutOf(_)) if Instant::now() < deadline => {
                tokio::time::sleep(READ_RETRY_INTERVAL).await
            }
            read => return read,
        }
    }
}

/// The same for the end of a stream.
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

/// What is answered instead of a result: the command ended its session's shell, or the session ended under it.
pub(crate) fn refusal(launch: &Launch, end: &End) -> Option<ApiError> {
    let session = launch.session.as_deref()?;
    // The shell goes with its session, so this comes first.
    let error = if end.reason == EndReason::SessionEnded {
        let message = "the session was deleted or reset while the command ran or waited for its turn";
        ApiError::new(ErrorCode::SessionDestroyed, message)
    } else if end.shell_ended {
        if launch.on_shell_exit == OnShellExit::Restore {
            return None;
        }
        let message = "the command ended the session's shell; the next command finds it restored";
        ApiError::new(ErrorCode::SessionTerminated, message)
            .suggest("create the session with onShellExit \"restore\" to get its result instead")
    } else {
        return None;
    };
    let error = error.with("sessionId", session).with("exitCode", convert::exit_code(end));
    Some(error.with("executionId", launch.execution.id().as_str()))
}

async fn with_output(error: ApiError, launch: &Launch, outgoing: &Outgoing) -> Result<ApiError, ApiError> {
    // An error is made whole, so it gets less when memory is scarce.
    let most = if outgoing.is_scarce() { SCARCE_PIECE_BYTES } else { ERROR_OUTPUT_BYTES };
    let limit = usize::try_from(launch.max_output_bytes).unwrap_or(usize::MAX).min(most);
    let output = match with_retries(|| ready(launch.execution.output(limit))).await {
        Err(ReadError::OutOf(_)) => {
            return Ok(error.with("truncatedBytes", launch.execution.info().output_bytes));
        }
        output => output?,
    };
    let text = |bytes| text::encode(bytes, launch.encoding).0;
    let omitted = output.stdout.omitted + output.stderr.omitted;
    let error = error.with("stdout", text(output.stdout.bytes)).with("stderr", text(output.stderr.bytes));
    Ok(if omitted > 0 { error.with("truncatedBytes", omitted) } else { error })
}
