//! Requests of Sandbox SDK clients. Unknown fields are ignored.

use axum::http::HeaderMap;
use sandcrab_api::execute::{CommandRequest, Variables};
use sandcrab_api::session::{DeleteSessionRequest, SessionRequest};
use sandcrab_engine::SessionId;
use serde::Deserialize;

use crate::error::ApiError;
use crate::input::{self, Json};
use crate::launch::bad_id;

/// Session of requests that name none.
const DEFAULT_SESSION: &str = "default";

/// Parses the body as a request of the native API.
pub(super) fn into_native<T, N>(
    body: Json<T>,
    native: impl FnOnce(T) -> Result<N, ApiError>,
) -> Result<Json<N>, ApiError> {
    let Json { value, bytes, held } = body;
    Ok(Json { value: native(value)?, bytes, held })
}

/// The body of `execute`, `execute/stream` and `process/start`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Command {
    pub(super) command: String,
    session_id: Option<String>,
    process_id: Option<String>,
    timeout_ms: Option<f64>,
    env: Option<Variables>,
    pub(super) cwd: Option<String>,
    pub(super) background: Option<bool>,
    auto_cleanup: Option<bool>,
}

/// The shell that runs a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shell {
    /// The shell of the session.
    Session(SessionId),
    /// A new shell.
    New,
}

impl Command {
    /// Returns the shell that a request names in its body, header or query.
    pub(super) fn shell(&mut self, headers: &HeaderMap, query: Option<&str>) -> Result<Shell, ApiError> {
        let body = self.session_id.take().filter(|id| !id.is_empty());
        let named = input::named_session(body, headers, query)?;
        match named.as_deref() {
            Some(sandcrab_api::NO_SESSION) => Ok(Shell::New),
            Some(id) => id.parse().map(Shell::Session).map_err(|e| bad_id("sessionId", &e)),
            None => Ok(Shell::Session(session_id(DEFAULT_SESSION)?)),
        }
    }

    /// Converts to a request of the native API.
    pub(super) fn into_native(self, shell: &Shell) -> Result<CommandRequest, ApiError> {
        let session = match shell {
            Shell::Session(id) => id.as_str(),
            Shell::New => sandcrab_api::NO_SESSION,
        };
        Ok(CommandRequest {
            command: self.command,
            session_id: Some(session.to_owned()),
            process_id: self.process_id,
            timeout_ms: self.timeout_ms.map(|ms| milliseconds("timeoutMs", ms)).transpose()?,
            env: self.env,
            cwd: self.cwd,
            background: self.background,
            auto_cleanup: self.auto_cleanup,
            ..CommandRequest::default()
        })
    }
}

/// The body of `session/create`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSession {
    id: Option<String>,
    name: Option<String>,
    env: Option<Variables>,
    cwd: Option<String>,
    command_timeout_ms: Option<f64>,
}

impl NewSession {
    /// Converts to a request of the native API.
    pub(super) fn into_native(self) -> Result<SessionRequest, ApiError> {
        let timeout = self.command_timeout_ms.map(|ms| milliseconds("commandTimeoutMs", ms)).transpose()?;
        Ok(SessionRequest {
            id: self.id.filter(|id| !id.is_empty()),
            name: self.name,
            env: Some(environment(self.env.unwrap_or_default())),
            cwd: self.cwd.filter(|cwd| !cwd.is_empty()),
            command_timeout_ms: timeout,
            ..SessionRequest::default()
        })
    }
}

/// The body of `session/delete`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionToDelete {
    session_id: String,
}

impl SessionToDelete {
    /// Converts to a request of the native API.
    pub(super) fn into_native(self) -> DeleteSessionRequest {
        DeleteSessionRequest { session_id: self.session_id }
    }
}

/// The environment of a session: the shells of the reference always use UTF-8.
pub(super) fn environment(mut variables: Variables) -> Variables {
    for name in ["LANG", "LC_ALL"] {
        variables.insert(name.to_owned(), Some("C.UTF-8".to_owned()));
    }
    variables
}

fn session_id(id: &str) -> Result<SessionId, ApiError> {
    id.parse().map_err(|e| bad_id("sessionId", &e))
}

/// Rounds a number of milliseconds, which may have a fraction.
fn milliseconds(field: &str, given: f64) -> Result<u64, ApiError> {
    let whole = given.ceil();
    if !(0.0..=9_007_199_254_740_991.0).contains(&whole) {
        return Err(ApiError::invalid(field, "it must be a number of milliseconds, 0 or more"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
    Ok(whole as u64)
}
