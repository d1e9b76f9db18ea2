//! Notes on how a command ended, where its exit code does not say it.

use std::time::Duration;

use sandcrab_api::event::{CompleteEvent, Summary};
use sandcrab_api::execute::{CommandRequest, EndReason, Leftovers, RestoredFrom};

use crate::end;
use crate::table;

/// Signals that a shell does not report either: the user or a reader caused them.
const UNREPORTED_SIGNALS: [Option<i32>; 2] = [Some(2), Some(13)];

/// What the user should know beside the exit code.
pub(super) fn notes(request: &CommandRequest, complete: &CompleteEvent) -> Vec<String> {
    let mut notes = Vec::new();
    let result = &complete.result;
    if result.session_restarted == Some(true) {
        notes.push(restored_note(result));
    }
    if result.shell_ended == Some(true) {
        notes.push(shell_ended_note(result.exit_code));
    }
    notes.extend(end_note(request, complete));
    if let (Some(count), Some(names)) = (result.leftover_count, &result.leftovers) {
        let left = end::leftovers(count, names);
        notes.push(match request.leftovers {
            Some(Leftovers::Kill) => format!("killed at the end of the command: {left}"),
            Some(Leftovers::Adopt) => {
                format!("the command left {left}; each is now a process of its own, see `sandcrab ps`")
            }
            _ => {
                let them = if count == 1 { "it" } else { "them" };
                format!("the command left {left}; end {them} with `sandcrab kill {}`", result.execution_id)
            }
        });
    }
    notes
}

/// The command ended the shell of its session.
pub(super) fn shell_ended_note(exit_code: i32) -> String {
    format!(
        "the command ended the session's shell with exit code {exit_code}; the shell is restored with its state"
    )
}

/// The shell was restored before the command.
fn restored_note(result: &Summary) -> String {
    let begin = "the session's shell had ended and was restored before this command";
    match (result.restored_from, result.restored_state_age_ms) {
        (Some(RestoredFrom::Snapshot), Some(age)) => {
            let age = table::duration(Duration::from_secs_f64((age / 1_000.0).max(0.0)));
            format!("{begin}, from a snapshot that is {age} old: later changes are lost")
        }
        _ => begin.to_owned(),
    }
}

fn end_note(request: &CommandRequest, complete: &CompleteEvent) -> Option<String> {
    let milliseconds = |ms: u64| table::duration(Duration::from_millis(ms));
    let limits = request.limits.as_ref();
    let limit = match complete.end.reason {
        EndReason::Exited => return None,
        EndReason::Signaled if UNREPORTED_SIGNALS.contains(&complete.end.signal) => return None,
        EndReason::Timeout => request.timeout_ms.map(milliseconds),
        EndReason::IdleTimeout => request.idle_timeout_ms.map(milliseconds),
        EndReason::Oom => limits.and_then(|limits| limits.memory_bytes).map(table::size),
        EndReason::OutputLimit => limits.and_then(|limits| limits.output_bytes).map(table::size),
        _ => None,
    };
    let limit = limit.map(|limit| format!(" (limit: {limit})")).unwrap_or_default();
    Some(format!("the command {}{limit}", end::predicate(&complete.end)))
}
