//! How an execution ended, in words.

use sandcrab_api::execute::{End, EndReason, ProcessName};
use sandcrab_api::signal;

use crate::table;

/// The most leftover processes that a message lists.
const LISTED_LEFTOVERS: usize = 3;

/// The reason in one or two words, for a column.
pub(crate) fn reason(end: &End) -> String {
    match (end.reason, end.signal) {
        (EndReason::Exited, _) => "exited".to_owned(),
        (EndReason::Signaled, Some(number)) => signal::name(number),
        (EndReason::Signaled, None) => "signal".to_owned(),
        (EndReason::Timeout, _) => "timeout".to_owned(),
        (EndReason::IdleTimeout, _) => "idle timeout".to_owned(),
        (EndReason::Killed, _) => "killed".to_owned(),
        (EndReason::Oom, _) => "out of memory".to_owned(),
        (EndReason::OutputLimit, _) => "output limit".to_owned(),
        (EndReason::SessionEnded, _) => "session ended".to_owned(),
        (EndReason::Lost, _) => "lost".to_owned(),
        (EndReason::Unknown, _) => "unknown".to_owned(),
    }
}

/// What happened, after the name of the process: "exited", "was killed".
pub(crate) fn predicate(end: &End) -> String {
    match (end.reason, end.signal) {
        (EndReason::Exited, _) => "exited".to_owned(),
        (EndReason::Signaled, Some(number)) => format!("was ended by {}", signal::name(number)),
        (EndReason::Signaled, None) => "was ended by a signal".to_owned(),
        (EndReason::Timeout, _) => "exceeded its timeout and was ended".to_owned(),
        (EndReason::IdleTimeout, _) => {
            "wrote nothing for longer than its idle timeout and was ended".to_owned()
        }
        (EndReason::Killed, _) => "was killed by a request to the server".to_owned(),
        (EndReason::Oom, _) => "ran out of memory and was killed by the kernel".to_owned(),
        (EndReason::OutputLimit, _) => "exceeded its output limit and was ended".to_owned(),
        (EndReason::SessionEnded, _) => "was ended with its session".to_owned(),
        (EndReason::Lost, _) => {
            "was lost: its supervisor was killed or the machine restarted, and its exit code is unknown"
                .to_owned()
        }
        (EndReason::Unknown, _) => "ended for a reason that this version does not support".to_owned(),
    }
}

/// "2 processes: sleep 1000 (PID 17), sleep 1000 (PID 18)".
pub(crate) fn leftovers(count: u32, names: &[ProcessName]) -> String {
    let shown = names.iter().take(LISTED_LEFTOVERS);
    let mut list: Vec<String> =
        shown.map(|name| format!("{} (PID {})", table::plain(&name.command), name.pid)).collect();
    if usize::try_from(count).unwrap_or(usize::MAX) > list.len() {
        list.push("…".to_owned());
    }
    let noun = if count == 1 { "process" } else { "processes" };
    format!("{count} {noun}: {}", list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_listed_up_to_a_bound() {
        let names: Vec<_> = (1..=5).map(|pid| ProcessName { pid, command: "sleep\t9".into() }).collect();
        assert_eq!(leftovers(1, &names[..1]), "1 process: sleep 9 (PID 1)");
        assert!(leftovers(5, &names).starts_with("5 processes: sleep 9 (PID 1), sleep 9 (PID 2), "));
        assert!(leftovers(5, &names).ends_with("(PID 3), …"));
    }
}
