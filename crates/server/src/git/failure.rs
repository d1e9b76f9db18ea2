//! Why git failed, from its messages in the C locale.

use sandcrab_api::ErrorCode;

use super::secrets::Secrets;
use crate::error::ApiError;

/// Maximum length of git's message in an error.
const MAX_MESSAGE_BYTES: usize = 4096;

/// Texts of git, and what they mean. The first match counts, so that a specific text precedes a general one.
const MEANINGS: &[(ErrorCode, &[&str])] = &[
    (ErrorCode::NoSpace, &["No space left on device", "Disk quota exceeded"]),
    // The answer of `git daemon` to an unknown repository: "access denied or repository not exported".
    (ErrorCode::GitRepositoryNotFound, &["repository not exported"]),
    (
        ErrorCode::GitAuthFailed,
        &[
            "Authentication failed",
            "could not read Username",
            "could not read Password",
            "terminal prompts disabled",
            "Permission denied (",
            "Host key verification failed",
            "returned error: 401",
            "returned error: 403",
            "access denied",
        ],
    ),
    (
        ErrorCode::GitBranchNotFound,
        &[
            "Could not find remote branch",
            "couldn't find remote ref",
            "unknown revision or path",
            "ambiguous argument",
            "bad revision",
            "does not match any",
            "not a valid object name",
        ],
    ),
    (ErrorCode::GitBranchNotFound, &["Remote branch "]),
    (
        ErrorCode::GitNetworkError,
        &[
            "Could not resolve host",
            "Could not resolve proxy",
            "Failed to connect",
            "unable to connect",
            "Couldn't connect to server",
            "Connection refused",
            "Connection timed out",
            "Connection reset",
            "Connection closed",
            "Operation timed out",
            "Operation too slow",
            "early EOF",
            "RPC failed",
            "the remote end hung up unexpectedly",
            "Network is unreachable",
            "No route to host",
            "Empty reply from server",
            "returned error: 5",
            "SSL",
            "certificate",
        ],
    ),
    (
        ErrorCode::GitRepositoryNotFound,
        &[
            "not a git repository",
            "does not appear to be a git repository",
            "Repository not found",
            "returned error: 404",
            "returned error: 410",
        ],
    ),
];

/// Classifies a failure by git's standard error.
pub(crate) fn classify(stderr: &str) -> ErrorCode {
    let is_missing_repository = |line: &str| {
        line.starts_with("fatal: repository '")
            && (line.ends_with("' not found") || line.ends_with("' does not exist"))
    };
    if stderr.lines().any(is_missing_repository) {
        return ErrorCode::GitRepositoryNotFound;
    }
    let found = MEANINGS.iter().find(|(_, texts)| texts.iter().any(|text| stderr.contains(text)));
    found.map_or(ErrorCode::GitOperationFailed, |(code, _)| *code)
}

/// The error of a failed `git OPERATION`. `stderr` is its message, or the end of it if `is_cut`. A remote may have sent the
/// credentials back in it.
pub(crate) fn failed(
    operation: &str,
    exit_code: Option<i32>,
    stderr: &str,
    is_cut: bool,
    secrets: &Secrets,
) -> ApiError {
    let code = classify(stderr);
    let said = message(&secrets.masked(stderr, is_cut));
    let said = if said.is_empty() { format!("exit code {}", exit_code.unwrap_or(-1)) } else { said };
    let error = ApiError::new(code, format!("git {operation} failed: {said}")).with("stderr", said);
    let error = exit_code.into_iter().fold(error, |error, exit_code| error.with("exitCode", exit_code));
    match code {
        ErrorCode::GitAuthFailed => {
            error.suggest("give credentials with a user name and a password or token")
        }
        ErrorCode::GitRepositoryNotFound => {
            error.suggest("check the URL or path; a private repository requires credentials")
        }
        ErrorCode::GitBranchNotFound => error.suggest("list the branches: POST /api/git/branches"),
        _ => error,
    }
}

/// The lines of git's message that matter, without progress.
fn message(stderr: &str) -> String {
    let is_progress = |line: &&str| line.contains('%') || line.starts_with("Cloning into");
    let lines = stderr.split(['\n', '\r']).map(str::trim_end).filter(|line| !line.is_empty());
    let mut text = lines.filter(|line| !is_progress(line)).collect::<Vec<_>>().join("\n");
    if text.len() > MAX_MESSAGE_BYTES {
        let at = (0..=MAX_MESSAGE_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(at);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use sandcrab_api::git::GitCredentials;

    use super::*;

    #[test]
    fn messages_of_git() {
        for (stderr, code) in [
            ("fatal: repository 'https://h/x.git/' not found", ErrorCode::GitRepositoryNotFound),
            ("fatal: repository '/no/such' does not exist", ErrorCode::GitRepositoryNotFound),
            (
                "fatal: not a git repository (or any of the parent directories): .git",
                ErrorCode::GitRepositoryNotFound,
            ),
            (
                "warning: Could not find remote branch x to clone.\nfatal: Remote branch x not found in upstream origin",
                ErrorCode::GitBranchNotFound,
            ),
            (
                "fatal: could not read Username for 'https://h': terminal prompts disabled",
                ErrorCode::GitAuthFailed,
            ),
            ("fatal: Authentication failed for 'https://h/x.git/'", ErrorCode::GitAuthFailed),
            ("fatal: unable to access 'https://h/': Could not resolve host: h", ErrorCode::GitNetworkError),
            ("fatal: unable to connect to localhost:\nerrno=Connection refused", ErrorCode::GitNetworkError),
            ("fatal: write error: No space left on device", ErrorCode::NoSpace),
            ("nothing to commit, working tree clean", ErrorCode::GitOperationFailed),
        ] {
            assert_eq!(classify(stderr), code, "{stderr}");
        }
    }

    #[test]
    fn message_has_no_progress_no_secret_and_a_bound() {
        let given = GitCredentials { username: "me".into(), password: "secret".into() };
        let secrets = Secrets::new(Some(&given));
        let said = "Cloning into 'x'...\nReceiving objects:  50% (1/2)\rremote: no secret\nfatal: broken\n";
        let error = failed("clone", Some(128), said, false, &secrets);
        assert_eq!(error.message(), "git clone failed: remote: no ***\nfatal: broken");
        let error = failed("clone", Some(1), &"é".repeat(10_000), false, &secrets);
        assert!(error.message().len() < 5_000);
    }
}
