//! Extractors of bodies and path parameters. Their errors name the invalid field.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_ENCODING};
use axum::http::request::Parts;
use bytes::Bytes;
use sandcrab_api::{JsonProblem, Object};
use sandcrab_engine::{Execution, ExecutionId, Session, SessionId, Terminal};
use serde::de::DeserializeOwned;
use tracing::Span;

use crate::access::Multiplexed;
use crate::app::{App, BodyBytes};
use crate::body::read::read_body;
use crate::error::ApiError;
use crate::query::pairs;
use crate::sandbox::Sandbox;
use crate::services::Handle;

/// Maximum length of an id or name in a header or query parameter.
const MAX_NAME_BYTES: usize = 512;

/// Maximum size of text that is parsed on the async thread. Parsing more would delay other connections.
pub(crate) const INLINE_PARSE_BYTES: usize = 256 << 10;
/// Fields whose values may be secret. Errors do not repeat these values.
const SECRET_FIELDS: &[&str] = &[
    "env",
    "vars",
    "stdin",
    "envVars",
    "text",
    "keys",
    "credentials",
    "content",
    "repoUrl",
    "message",
    "replacement",
];

/// Refuses a compressed body.
pub(crate) fn check_coding(headers: &HeaderMap) -> Result<(), ApiError> {
    match headers.get(CONTENT_ENCODING) {
        Some(coding) if !coding.as_bytes().eq_ignore_ascii_case(b"identity") => Err(ApiError::invalid(
            "content-encoding",
            "`Content-Encoding` is not supported; send the body unencoded",
        )),
        _ => Ok(()),
    }
}

/// Whether the client asks for a stream of events.
pub(crate) fn accepts_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds =
        accepted.flat_map(|value| value.split(',')).map(|kind| kind.split(';').next().unwrap_or_default());
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// Parses a JSON object. An empty body is an empty object.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let bytes = if bytes.trim_ascii().is_empty() { b"{}" } else { bytes };
    // serde would read an array as the fields in order. Other values may be secret, so the message does not
    // repeat them.
    let first = bytes.trim_ascii_start().first();
    if matches!(first, Some(b'[' | b'"' | b'0'..=b'9' | b'-' | b't' | b'f' | b'n')) {
        return Err(ApiError::invalid("body", "expected a JSON object"));
    }
    // Following the path of every field costs more than parsing, and only errors need it.
    if let Ok(Object(value)) = serde_json::from_slice(bytes) {
        return Ok(value);
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let Object(value) = serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let path = e.path().to_string();
        let field = if matches!(path.as_str(), "." | "?") { "body" } else { &path };
        let is_secret = SECRET_FIELDS.contains(&path.split(['.', '[']).next().unwrap_or_default());
        match unknown_field(&e.inner().to_string()) {
            Some((name, known)) => {
                let parent = path.strip_suffix(name).unwrap_or("").trim_end_matches('.');
                let name = if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") };
                let known: Vec<_> = known
                    .iter()
                    .map(|known| match parent {
                        "" => (*known).to_owned(),
                        parent => format!("{parent}.{known}"),
                    })
                    .collect();
                ApiError::unknown("field", &name, known.iter().map(String::as_str))
            }
            None => {
                let problem = JsonProblem::new(e.inner(), is_secret);
                match problem.field {
                    Some(name) if field == "body" => ApiError::invalid(&name, problem.message),
                    Some(name) => ApiError::invalid(&format!("{field}.{name}"), problem.message),
                    // The syntax of the whole document.
                    None if e.inner().is_data() => ApiError::invalid(field, problem.message),
                    None => ApiError::invalid("body", problem.message),
                }
            }
        }
    })?;
    json.end().map_err(|e| ApiError::invalid("body", JsonProblem::new(&e, false).message))?;
    Ok(value)
}

/// Returns the unknown field that a message of serde names, and the known ones.
fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    // The name comes from the client, and may contain anything.
    let (name, known) =
        rest.rsplit_once("`, expected ").or_else(|| rest.rsplit_once("`, there are no fields"))?;
    Some((name, known.split('`').skip(1).step_by(2).collect()))
}

/// A JSON body, with its bytes for the digest of an idempotency key.
pub(crate) struct Json<T> {
    pub(crate) value: T,
    pub(crate) bytes: Bytes,
    /// Counts the body until the request has ended.
    pub(crate) held: BodyBytes,
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        check_coding(request.headers())?;
        let is_counted = request.extensions().get::<Multiplexed>().is_some();
        let (bytes, held) = read_body(app, request.into_body(), is_counted).await?;
        if bytes.len() <= INLINE_PARSE_BYTES {
            return Ok(Self { value: parse(&bytes)?, bytes, held });
        }
        let copy = bytes.clone();
        let parsed = tokio::task::spawn_blocking(move || parse(&copy)).await.map_err(ApiError::internal)?;
        Ok(Self { value: parsed?, bytes, held })
    }
}

async fn segment(parts: &mut Parts, app: &App) -> Result<String, ApiError> {
    match Path::<String>::from_request_parts(parts, app).await {
        Ok(Path(id)) => Ok(id),
        Err(_) => Err(ApiError::invalid("path", "the id is not valid percent-encoded UTF-8")),
    }
}

/// The id in the path, of something that need not exist.
pub(crate) struct PathId(pub(crate) String);

impl FromRequestParts<App> for PathId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        segment(parts, app).await.map(Self)
    }
}

/// The execution named in the path.
pub(crate) struct PathExecution(pub(crate) Execution);

impl FromRequestParts<App> for PathExecution {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let Ok(sandbox) = Sandbox::from_request_parts(parts, app).await;
        let id = segment(parts, app).await?;
        // An invalid id cannot exist.
        let found = id.parse::<ExecutionId>().ok().and_then(|id| sandbox.engine.execution(&id));
        let found = found.ok_or_else(|| ApiError::no_process(&id))?;
        Span::current().record("execution", &id);
        Ok(Self(found))
    }
}

/// The session named in the path.
pub(crate) struct PathSession(pub(crate) Session);

impl FromRequestParts<App> for PathSession {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let Ok(sandbox) = Sandbox::from_request_parts(parts, app).await;
        let id = segment(parts, app).await?;
        find_session(&sandbox, &id).map(Self)
    }
}

/// The service that the path names.
pub(crate) struct PathService(pub(crate) Arc<Handle>);

impl FromRequestParts<App> for PathService {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let id = segment(parts, app).await?;
        app.services.find(&id).map(Self)
    }
}

/// The terminal that the path names.
pub(crate) struct PathTerminal(pub(crate) Terminal);

impl FromRequestParts<App> for PathTerminal {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let Ok(sandbox) = Sandbox::from_request_parts(parts, app).await;
        let id = segment(parts, app).await?;
        find_terminal(&sandbox, &id).map(Self)
    }
}

/// The terminal with this id.
pub(crate) fn find_terminal(sandbox: &Sandbox, id: &str) -> Result<Terminal, ApiError> {
    let found = id.parse::<ExecutionId>().ok().and_then(|id| sandbox.engine.terminal(&id));
    let found = found.ok_or_else(|| ApiError::no_terminal(id))?;
    Span::current().record("execution", id);
    Ok(found)
}

/// Finds a session by id.
pub(crate) fn find_session(sandbox: &Sandbox, id: &str) -> Result<Session, ApiError> {
    let found = id.parse::<SessionId>().ok().and_then(|id| sandbox.engine.session(&id));
    let found = found.ok_or_else(|| ApiError::no_session(id))?;
    Span::current().record("session", id);
    Ok(found)
}

/// Returns the session that a request names in its body, header or query, in this order. `None` means no
/// session.
pub(crate) fn session_id(
    body: Option<String>,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Option<String>, ApiError> {
    Ok(named_session(body, headers, query)?.filter(|id| id != sandcrab_api::NO_SESSION))
}

/// Returns the session id of a request as given in its body, header or query.
pub(crate) fn named_session(
    body: Option<String>,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Option<String>, ApiError> {
    let in_query = || {
        let query = query?;
        let find = |wanted: &str| pairs(query).find(|(name, _)| name == wanted).map(|(_, id)| id);
        find("session").or_else(|| find("sessionId"))
    };
    let named = match body {
        Some(id) => Some(id),
        None => match name_header(headers, sandcrab_api::SESSION_HEADER)? {
            Some(id) => Some(id.to_owned()),
            None => in_query(),
        },
    };
    if named.as_deref() == Some("") {
        return Err(ApiError::invalid("sessionId", "it must not be empty; omit it for no session"));
    }
    Ok(named)
}

/// Returns a header that contains an id or name, within the length limit.
pub(crate) fn name_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ApiError> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let text = value.to_str().map_err(|_| ApiError::invalid(name, "expected visible ASCII"))?;
    if text.is_empty() || text.len() > MAX_NAME_BYTES {
        return Err(ApiError::invalid(name, format!("expected 1 to {MAX_NAME_BYTES} bytes")));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use sandcrab_api::execute::CommandRequest;
    use sandcrab_api::process::EmptyRequest;

    use super::*;

    #[test]
    fn unknown_fields_are_named() {
        for name in ["timeout", "`, expected `", "a.b", "`", "", "☃", "x` at line 1"] {
            let body = serde_json::json!({ "command": "true", name: 1 }).to_string();
            let error = parse::<CommandRequest>(body.as_bytes()).unwrap_err();
            assert!(error.message().starts_with(&format!("{name}: unknown field")), "{}", error.message());
            let body = serde_json::json!({ name: 1 }).to_string();
            assert!(parse::<EmptyRequest>(body.as_bytes()).is_err());
        }
        let secrets = r#"{"repoUrl": "x", "credentials": {"username": "a", "password": 1234567}}"#;
        let error = parse::<sandcrab_api::git::GitCheckoutRequest>(secrets.as_bytes()).unwrap_err();
        assert_eq!(error.field(), Some("credentials.password"));
        assert!(!error.message().contains("1234567"), "{}", error.message());
        assert!(parse::<EmptyRequest>(b"").is_ok() && parse::<EmptyRequest>(b" {} ").is_ok());
    }
}
