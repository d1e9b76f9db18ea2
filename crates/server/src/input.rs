//! What comes in: bodies, queries and path segments, each refused with the name of what is wrong.

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_ENCODING;
use axum::http::request::Parts;
use bytes::Bytes;
use sandcrab_api::Object;
use sandcrab_engine::{Execution, ExecutionId, Session, SessionId};
use serde::de::DeserializeOwned;

use crate::access::Multiplexed;
use crate::app::{App, BodyBytes};
use crate::body::read::read_body;
use crate::error::ApiError;
use crate::sandbox::Sandbox;

/// The longest a header or a query value may be that names something.
const MAX_NAME_BYTES: usize = 512;

/// Text up to this size is parsed where it came in. More would hold up the other connections of the thread.
pub(crate) const INLINE_PARSE_BYTES: usize = 256 << 10;
/// Fields whose values may be secrets: what is wrong with them is said without them.
const SECRET_FIELDS: [&str; 4] = ["env", "vars", "stdin", "envVars"];

/// A body is taken as it is; one that says it is compressed would be misread.
fn check_coding(headers: &HeaderMap) -> Result<(), ApiError> {
    match headers.get(CONTENT_ENCODING) {
        Some(coding) if !coding.as_bytes().eq_ignore_ascii_case(b"identity") => Err(ApiError::invalid(
            "content-encoding",
            "`Content-Encoding` is not supported; send the body unencoded",
        )),
        _ => Ok(()),
    }
}

/// Reads a JSON object; nothing at all is an empty one.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let bytes = if bytes.trim_ascii().is_empty() { b"{}" } else { bytes };
    // A list would be taken for the fields in their order; and what else it is may hold secrets, and is not repeated.
    let first = bytes.trim_ascii_start().first();
    if matches!(first, Some(b'[' | b'"' | b'0'..=b'9' | b'-' | b't' | b'f' | b'n')) {
        return Err(ApiError::invalid("body", "expected a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let Object(value) = serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let path = e.path().to_string();
        let field = if matches!(path.as_str(), "." | "?") { "body" } else { &path };
        if SECRET_FIELDS.contains(&path.split(['.', '[']).next().unwrap_or_default()) {
            return ApiError::invalid(field, "invalid type; see the API document");
        }
        let message = e.inner().to_string();
        match unknown_field(&message) {
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
            None => ApiError::invalid(field, message),
        }
    })?;
    json.end().map_err(|e| ApiError::invalid("body", e))?;
    Ok(value)
}

/// The field that a message of serde says is unknown, and those that are known.
fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    // The name is the client's, and may hold anything.
    let (name, known) =
        rest.rsplit_once("`, expected ").or_else(|| rest.rsplit_once("`, there are no fields"))?;
    Some((name, known.split('`').skip(1).step_by(2).collect()))
}

/// A JSON body, with its bytes for whoever wants to compare.
pub(crate) struct Json<T> {
    pub(crate) value: T,
    pub(crate) bytes: Bytes,
    /// Counted for as long as the request is under way.
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

/// The query.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match Query::from_request_parts(parts, app).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(e) => Err(ApiError::invalid("query", e.body_text())),
        }
    }
}

async fn segment(parts: &mut Parts, app: &App) -> Result<String, ApiError> {
    match Path::<String>::from_request_parts(parts, app).await {
        Ok(Path(id)) => Ok(id),
        Err(e) => Err(ApiError::invalid("path", e.body_text())),
    }
}

/// The execution that the path names.
pub(crate) struct PathExecution(pub(crate) Execution);

impl FromRequestParts<App> for PathExecution {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let Ok(sandbox) = Sandbox::from_request_parts(parts, app).await;
        let id = segment(parts, app).await?;
        // What is no id cannot be there.
        let found = id.parse::<ExecutionId>().ok().and_then(|id| sandbox.engine.execution(&id));
        found.map(Self).ok_or_else(|| ApiError::no_process(&id))
    }
}

/// The session that the path names.
pub(crate) struct PathSession(pub(crate) Session);

impl FromRequestParts<App> for PathSession {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let Ok(sandbox) = Sandbox::from_request_parts(parts, app).await;
        let id = segment(parts, app).await?;
        find_session(&sandbox, &id).map(Self)
    }
}

/// The session with this id.
pub(crate) fn find_session(sandbox: &Sandbox, id: &str) -> Result<Session, ApiError> {
    let found = id.parse::<SessionId>().ok().and_then(|id| sandbox.engine.session(&id));
    found.ok_or_else(|| ApiError::no_session(id))
}

/// Which session a request means: the one its body, else its header, else its query names. `None` is none.
pub(crate) fn session_id(
    body: Option<String>,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Option<String>, ApiError> {
    Ok(named_session(body, headers, query)?.filter(|id| id != sandcrab_api::NO_SESSION))
}

/// What a request says of its session, in its body, header or query.
pub(crate) fn named_session(
    body: Option<String>,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Option<String>, ApiError> {
    let in_query = || {
        let pairs: Vec<(String, String)> = serde_urlencoded(query?)?;
        let find = |wanted: &str| pairs.iter().find(|(name, _)| name == wanted).map(|(_, id)| id.clone());
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

fn serde_urlencoded(query: &str) -> Option<Vec<(String, String)>> {
    let uri = format!("/?{query}").parse().ok()?;
    Query::<Vec<(String, String)>>::try_from_uri(&uri).ok().map(|Query(pairs)| pairs)
}

/// A header that names something, bounded.
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
    fn unknown_fields_are_named_as_they_came() {
        for name in ["timeout", "`, expected `", "a.b", "`", "", "☃", "x` at line 1"] {
            let body = serde_json::json!({ "command": "true", name: 1 }).to_string();
            let error = parse::<CommandRequest>(body.as_bytes()).unwrap_err();
            assert!(error.message().starts_with(&format!("{name}: unknown field")), "{}", error.message());
            let body = serde_json::json!({ name: 1 }).to_string();
            assert!(parse::<EmptyRequest>(body.as_bytes()).is_err());
        }
        assert!(parse::<EmptyRequest>(b"").is_ok() && parse::<EmptyRequest>(b" {} ").is_ok());
    }
}
