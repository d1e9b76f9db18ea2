//! [`Git`]: runs the `git` program in a directory.
//!
//! Credentials never are in an argument, an environment or a file. They are the standard input of the command, a memory
//! file, which a fixed script makes descriptor 3 of git. The credential helper, which git starts, reads that descriptor.
//! The helper is configured for the origin of the repository only, so that a redirect cannot ask for them. A remote may send
//! them back, so the record of such a command, with its output, is removed at its end.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandcrab_api::ErrorCode;
use sandcrab_api::git::{GitAuthor, GitCredentials};
use sandcrab_engine::{CommandSpec, End, EndReason, Execution, LeftoverPolicy, Output, Stdin};

use super::failure::failed;
use super::secrets::Secrets;
use super::url::ALLOWED_PROTOCOLS;
use crate::app::{App, BodyBytes};
use crate::error::ApiError;
use crate::files::Place;
use crate::unrecorded::{Abandoned, Unrecorded};

/// Default timeout of commands that use the network.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
/// Timeout of commands that use only local files.
const LOCAL_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum output of a command whose output is parsed.
const MAX_OUTPUT_BYTES: usize = 16 << 20;
/// Memory of a result in relation to the output: the output, its values, and the JSON.
const MEMORY_FACTOR: usize = 3;
/// Maximum size of standard error that is kept. If it has this size, its beginning may be missing.
pub(super) const MAX_ERROR_BYTES: usize = 64 << 10;
/// Maximum length of a user name or password.
const MAX_CREDENTIAL_BYTES: usize = 4096;
/// A transfer slower than 1,000 bytes per second for 30 seconds is given up.
const LOW_SPEED: [&str; 4] = ["-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=30"];

/// Moves standard input to descriptor 3.
const WITH_CREDENTIALS: &str = "exec 3<&0 </dev/null; exec git \"$@\"";
/// Answers git's question for credentials. `/proc/self/fd/3` opens the memory file again, so every reader begins at its
/// start.
const CREDENTIAL_HELPER: &str = "!f() { test \"$1\" = get && cat /proc/self/fd/3; }; f";

/// The `git` program in a directory.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    app: App,
    place: Place,
    directory: PathBuf,
    timeout: Duration,
    /// Credentials, and the origin for which they are used.
    credentials: Option<(String, GitCredentials)>,
    author: Option<GitAuthor>,
    /// Options before the operation.
    options: Vec<&'static str>,
}

/// The output of a command that succeeded. Keep it until the response is made: it counts the memory of both.
#[derive(Debug)]
pub(crate) struct GitOutput {
    pub(crate) stdout: Vec<u8>,
    _held: BodyBytes,
}

/// A git that was started.
#[derive(Debug)]
pub(super) enum RunningGit {
    /// Its record stays.
    Recorded(Execution),
    /// It has credentials.
    Unrecorded(Unrecorded),
}

impl RunningGit {
    /// The execution, to follow its output.
    pub(super) fn execution(&self) -> Result<&Execution, ApiError> {
        match self {
            Self::Recorded(execution) => Ok(execution),
            Self::Unrecorded(unrecorded) => unrecorded.followed(),
        }
    }

    /// Waits for its end.
    pub(super) async fn wait(&self) -> Result<Arc<End>, ApiError> {
        Ok(self.execution()?.wait().await?)
    }

    fn output(&self, limit: usize) -> Result<Output, ApiError> {
        Ok(self.execution()?.output(limit)?)
    }

    /// Removes the record, if it has to be, after the end and before the answer.
    pub(super) async fn finish(self) {
        if let Self::Unrecorded(unrecorded) = self {
            unrecorded.finish().await;
        }
    }
}

impl Git {
    pub(crate) fn new(app: App, place: Place, directory: PathBuf) -> Self {
        Self {
            app,
            place,
            directory,
            timeout: LOCAL_TIMEOUT,
            credentials: None,
            author: None,
            options: Vec::new(),
        }
    }

    /// Sets the timeout.
    #[must_use]
    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Takes paths as they are: without patterns.
    #[must_use]
    pub(crate) fn literal_paths(mut self) -> Self {
        self.options.push("--literal-pathspecs");
        self
    }

    /// Sets the author and the committer.
    #[must_use]
    pub(crate) fn author(mut self, author: GitAuthor) -> Self {
        self.author = Some(author);
        self
    }

    /// Uses credentials for an origin.
    pub(crate) fn credentials(
        mut self,
        origin: Option<String>,
        given: GitCredentials,
    ) -> Result<Self, ApiError> {
        let Some(origin) = origin else {
            return Err(ApiError::invalid("credentials", "only http and https URLs use credentials"));
        };
        for (field, value) in [("username", &given.username), ("password", &given.password)] {
            // Each is a line for git.
            if value.len() > MAX_CREDENTIAL_BYTES || value.contains(['\n', '\r', '\0']) {
                let why = format!(
                    "expected at most {MAX_CREDENTIAL_BYTES} bytes without line breaks and NUL bytes"
                );
                return Err(ApiError::invalid(&format!("credentials.{field}"), why));
            }
        }
        self.credentials = Some((origin, given));
        Ok(self)
    }

    pub(super) fn app(&self) -> &App {
        &self.app
    }

    /// What must not appear in texts for the client.
    pub(crate) fn secrets(&self) -> Secrets {
        Secrets::new(self.credentials.as_ref().map(|(_, given)| given))
    }

    /// Starts `git ARGS…`.
    pub(super) async fn start<A: AsRef<OsStr>>(
        &self,
        args: &[A],
        stdin: Option<Vec<u8>>,
        note: Option<Vec<u8>>,
    ) -> Result<RunningGit, ApiError> {
        self.app.check_open()?;
        let mut argv: Vec<OsString> = Vec::new();
        let mut input = stdin.map_or(Stdin::Null, Stdin::Bytes);
        match &self.credentials {
            Some((origin, given)) => {
                argv.extend(["/bin/sh", "-c", WITH_CREDENTIALS, "git"].map(Into::into));
                // An empty helper removes configured ones, which would store the credentials.
                argv.extend(["-c", "credential.helper=", "-c"].map(Into::into));
                argv.push(format!("credential.{origin}.helper={CREDENTIAL_HELPER}").into());
                let text = format!("username={}\npassword={}\n", given.username, given.password);
                input = Stdin::Bytes(text.into_bytes());
            }
            None => argv.push("git".into()),
        }
        argv.extend(LOW_SPEED.map(Into::into));
        // Bytes beyond ASCII in paths are not escaped.
        argv.extend(["-c", "core.quotePath=false"].map(Into::into));
        argv.extend(self.options.iter().map(Into::into));
        argv.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        let mut spec = CommandSpec::argv(argv)
            .cwd(&self.directory)
            .stdin(input)
            .timeout(self.timeout)
            .leftovers(LeftoverPolicy::Kill)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ALLOW_PROTOCOL", ALLOWED_PROTOCOLS)
            // Messages are classified, and paths are bytes.
            .env("LC_ALL", "C")
            .unset_env("GIT_ASKPASS")
            .unset_env("SSH_ASKPASS")
            .unset_env("GIT_DIR")
            .unset_env("GIT_WORK_TREE")
            .unset_env("GIT_INDEX_FILE");
        if let Some(GitAuthor { name, email }) = &self.author {
            let both = |role: &str, what: &str| OsString::from(format!("GIT_{role}_{what}"));
            for role in ["AUTHOR", "COMMITTER"] {
                spec = spec.env(both(role, "NAME"), name).env(both(role, "EMAIL"), email);
            }
        }
        spec.note = note;
        spec.user.clone_from(&self.place.user);
        if self.credentials.is_none() {
            return Ok(RunningGit::Recorded(self.place.sandbox.engine.start(spec).await?));
        }
        // The remote may send the credentials back, and then they are in the output.
        Ok(RunningGit::Unrecorded(Unrecorded::start(&self.app, spec, Abandoned::Continues, None).await?))
    }

    /// Runs `git ARGS…` and returns its output. `args[0]` is the operation.
    pub(crate) async fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<GitOutput, ApiError> {
        self.run_with(args, None).await
    }

    /// The same, with standard input.
    pub(crate) async fn run_with<A: AsRef<OsStr>>(
        &self,
        args: &[A],
        stdin: Option<Vec<u8>>,
    ) -> Result<GitOutput, ApiError> {
        let operation =
            args.first().map(|arg| arg.as_ref().to_string_lossy().into_owned()).unwrap_or_default();
        let git = self.start(args, stdin, None).await?;
        let end = git.wait().await?;
        let mut held = self.app.hold();
        held.grow(MAX_OUTPUT_BYTES)?;
        let output = git.output(MAX_OUTPUT_BYTES)?;
        git.finish().await;
        held.set((output.stdout.bytes.len() + output.stderr.bytes.len()) * MEMORY_FACTOR);
        if held.exceeds_limit() {
            return Err(ApiError::too_many("large results of git at the same time; retry later"));
        }
        self.check(&operation, &end, &output.stderr.bytes, &output.stdout.bytes)?;
        if output.stdout.omitted > 0 {
            let message = format!(
                "the output of git {operation} exceeds {MAX_OUTPUT_BYTES} bytes; limit it with paths, or run git as a command"
            );
            return Err(ApiError::new(ErrorCode::BodyTooLarge, message));
        }
        Ok(GitOutput { stdout: output.stdout.bytes, _held: held })
    }

    /// The error of a command that did not succeed.
    pub(crate) fn check(
        &self,
        operation: &str,
        end: &Arc<End>,
        stderr: &[u8],
        stdout: &[u8],
    ) -> Result<(), ApiError> {
        if end.reason == EndReason::Timeout {
            let message = format!("git {operation} timed out after {:?}", self.timeout);
            return Err(ApiError::new(ErrorCode::GitNetworkError, message).suggest("give a longer timeoutMs"));
        }
        match end.exit_code {
            Some(0) => Ok(()),
            Some(127) if self.credentials.is_some() => {
                Err(ApiError::new(ErrorCode::CommandNotFound, "the program git was not found; install it"))
            }
            exit_code => {
                // Some refusals, such as "nothing to commit", are on standard output.
                let said = if stderr.is_empty() { stdout } else { stderr };
                let from = said.len().saturating_sub(MAX_ERROR_BYTES);
                let is_cut = said.len() >= MAX_ERROR_BYTES;
                let said = String::from_utf8_lossy(&said[from..]);
                Err(failed(operation, exit_code, &said, is_cut, &self.secrets()))
            }
        }
    }
}
