//! [`Params`]: the extractor of query parameters. Its errors name the parameter, the expected and the given value.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::error::ApiError;

/// Maximum number of characters of a value in a message.
const MAX_SHOWN_CHARS: usize = 64;

/// The query parameters.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        parse(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

/// Returns all parameters in order, decoded.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned()
}

fn parse<T: DeserializeOwned>(query: &str) -> Result<T, ApiError> {
    let deserializer = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let path = error.path().to_string();
        let message = error.inner().to_string();
        if let Some(name) = quoted(&message, "missing field ") {
            return ApiError::invalid(name, "required, but not given");
        }
        if let Some(name) = quoted(&message, "duplicate field ") {
            return ApiError::invalid(name, "given more than once; give it once");
        }
        let value = pairs(query).find(|(name, _)| *name == path).map(|(_, value)| value);
        let value: String = value.unwrap_or_default().chars().take(MAX_SHOWN_CHARS).collect();
        ApiError::invalid(&path, format!("{}, got {value:?}", expected(&message)))
    })
}

/// Returns the name that follows in backquotes.
fn quoted<'a>(message: &'a str, prefix: &str) -> Option<&'a str> {
    message.strip_prefix(prefix)?.strip_prefix('`')?.strip_suffix('`')
}

/// Translates a message of the deserializer.
fn expected(message: &str) -> String {
    match message {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "expected a whole number, at least 0".to_owned()
        }
        "number too large to fit in target type" => "expected a smaller number".to_owned(),
        "provided string was not `true` or `false`" => "expected true or false".to_owned(),
        // "unknown variant `x`, expected `a` or `b`"
        other => other
            .split_once(", expected ")
            .map_or_else(|| other.to_owned(), |(_, known)| format!("expected {known}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[expect(dead_code, reason = "only parsed")]
    struct Options {
        terminal_id: String,
        tail: Option<u16>,
        #[serde(default)]
        read_only: bool,
        format: Option<Format>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Format {
        Text,
        Cells,
    }

    #[test]
    fn errors_name_the_parameter_and_the_expected_value() {
        assert!(parse::<Options>("terminalId=a&tail=3&readOnly=true&format=text").is_ok());
        for (query, field, message) in [
            ("tail=3", "terminalId", "terminalId: required, but not given"),
            ("terminalId=a&tail=x%0A", "tail", "tail: expected a whole number, at least 0, got \"x\\n\""),
            ("terminalId=a&tail=-1", "tail", "tail: expected a whole number, at least 0, got \"-1\""),
            ("terminalId=a&tail=", "tail", "tail: expected a whole number, at least 0, got \"\""),
            ("terminalId=a&tail=65536", "tail", "tail: expected a smaller number, got \"65536\""),
            ("terminalId=a&readOnly=yes", "readOnly", "readOnly: expected true or false, got \"yes\""),
            ("terminalId=a&tail=1&tail=2", "tail", "tail: given more than once; give it once"),
            ("terminalId=a&format=x", "format", "format: expected `text` or `cells`, got \"x\""),
        ] {
            let error = parse::<Options>(query).unwrap_err();
            assert_eq!((error.field(), error.message()), (Some(field), message), "{query}");
        }
    }
}
