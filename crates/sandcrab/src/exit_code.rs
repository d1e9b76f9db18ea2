//! Exit codes of this program. `docs/exit-codes.md` is the full list.

use sandcrab_api::ErrorCode;

/// Some processes could not be ended.
pub(crate) const SURVIVORS: u8 = 1;
/// A service is not healthy.
pub(crate) const NOT_HEALTHY: u8 = 1;
/// A process has ended before its port was ready.
pub(crate) const NOT_READY: u8 = 1;
/// Invalid usage.
pub(crate) const USAGE: u8 = 2;
/// Standard input or output failed, or output of the command is missing.
pub(crate) const IO: u8 = 74;
/// Sandcrab itself failed. The same code as that of `docker run`, `env` and `timeout`.
pub(crate) const FAILED: u8 = 125;
/// The program cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
pub(crate) const NOT_FOUND: u8 = 127;
/// 128 plus the number of SIGPIPE.
pub(crate) const BROKEN_PIPE: u8 = 141;
/// The exit code of the command is unknown.
pub(crate) const UNKNOWN: u8 = 255;
/// A temporary failure.
const TEMPORARY: u8 = 75;

/// The summary in `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  run, exec, session exec, shell, attach, record and wait exit with the exit code of the command:
  its own, or 128 + n if signal n ended it. In addition:
    0    also: detached from a terminal, which continues
    1    negative result without an error: some processes could not be ended, nothing was found or
         replaced, a service is not healthy, a process ended before its port was ready
    2    invalid usage, also if the server refuses a value as invalid
    74   I/O error, or output of the command is missing
    75   temporary failure, such as a timeout of wait or a limit of the server: try again later
    124  the command exceeded its timeout
    125  Sandcrab failed, not the command; the error message says why
    126  the program cannot be executed
    127  the program was not found
    130  ended by Ctrl-C; 129 by SIGHUP, 131 by SIGQUIT (Ctrl-\\), 143 by SIGTERM
    141  standard output was closed by its reader
    255  the exit code of the command is unknown";

/// The exit code of an error of the server. `is_program` says whether it is about the program to execute.
pub(crate) fn of_error(code: ErrorCode, is_program: bool) -> u8 {
    match code {
        ErrorCode::CommandNotFound => NOT_FOUND,
        ErrorCode::PermissionDenied if is_program => NOT_EXECUTABLE,
        ErrorCode::ValidationFailed
        | ErrorCode::InvalidCommand
        | ErrorCode::InvalidGitUrl
        | ErrorCode::InvalidPort
        | ErrorCode::InvalidBackupConfig => USAGE,
        ErrorCode::WaitTimeout
        | ErrorCode::LimitExceeded
        | ErrorCode::NoSpace
        | ErrorCode::TerminalInputFull
        | ErrorCode::ExecutionLost
        | ErrorCode::RequestCancelled => TEMPORARY,
        _ => FAILED,
    }
}

/// The exit code after a signal.
pub(crate) fn of_signal(signal: u8) -> u8 {
    128_u8.saturating_add(signal)
}

/// The exit code that a command's exit code becomes.
pub(crate) fn of_command(exit_code: i32) -> u8 {
    u8::try_from(exit_code & 0xff).unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../../docs/exit-codes.md");

    /// The error codes that the document lists for an exit code.
    fn documented(exit_code: u8) -> Vec<&'static str> {
        let row = DOCUMENT.lines().find(|line| line.starts_with(&format!("| {exit_code} |")));
        let row = row.unwrap_or_else(|| panic!("docs/exit-codes.md has no row {exit_code}"));
        let is_code =
            |word: &&str| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        row.split('`').filter(is_code).collect()
    }

    #[test]
    fn document_lists_every_error_with_its_own_code() {
        for exit_code in [USAGE, TEMPORARY, NOT_EXECUTABLE, NOT_FOUND] {
            let expected = ErrorCode::ALL.iter().filter(|code| of_error(**code, true) == exit_code);
            let mut expected: Vec<_> = expected.map(|code| code.as_str()).collect();
            let mut found = documented(exit_code);
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "exit code {exit_code}");
        }
        assert_eq!(of_error(ErrorCode::PermissionDenied, false), FAILED);
        assert_eq!(documented(FAILED), Vec::<&str>::new());
    }

    #[test]
    fn the_document_has_every_code_of_the_help() {
        let lines = HELP.lines().filter_map(|line| line.strip_prefix("    "));
        // Others continue the line before.
        for line in lines.filter(|line| !line.starts_with(' ')) {
            let code: u8 = line.split(' ').next().and_then(|code| code.parse().ok()).expect("a number");
            drop(documented(code));
        }
    }
}
