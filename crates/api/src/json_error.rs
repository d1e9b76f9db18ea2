//! [`JsonProblem`]: what is wrong with a JSON document, in words of JSON instead of those of the parser.

use std::fmt;

use serde_json::error::Category;

/// Maximum number of characters of a value in a message.
const MAX_SHOWN_CHARS: usize = 64;

/// What is wrong with a JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonProblem {
    /// The field that is missing or given twice, in the object that the error is about.
    pub field: Option<String>,
    /// What was expected and what was given.
    pub message: String,
}

impl JsonProblem {
    /// Describes an error. The value that was given is part of the message only if it is no secret.
    #[must_use]
    pub fn new(error: &serde_json::Error, is_secret: bool) -> Self {
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let text = text.strip_suffix(&place).unwrap_or(&text);
        if matches!(error.classify(), Category::Syntax | Category::Eof) {
            return Self {
                field: None,
                message: format!("invalid JSON at line {}, column {}: {text}", error.line(), error.column()),
            };
        }
        for (prefix, message) in [
            ("missing field `", "required, but not given"),
            ("duplicate field `", "given more than once; give it once"),
        ] {
            if let Some(name) = text.strip_prefix(prefix).and_then(|name| name.strip_suffix('`')) {
                return Self { field: Some(name.to_owned()), message: message.to_owned() };
            }
        }
        Self { field: None, message: described(text, is_secret) }
    }
}

impl fmt::Display for JsonProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Translates a message about a value. Other messages are those of our own types.
fn described(text: &str, is_secret: bool) -> String {
    // The value comes from the client, and may contain anything.
    let Some((given, expected)) = text.rsplit_once(", expected ") else { return text.to_owned() };
    let Some((problem, given)) = given.split_once(": ").or_else(|| given.split_once(" variant ")) else {
        return text.to_owned();
    };
    let given = match problem {
        "invalid type" | "invalid value" => given_value(given, is_secret),
        "unknown" if is_secret => "another value".to_owned(),
        "unknown" => format!("{:?}", shortened(given.trim_matches('`'))),
        _ => return text.to_owned(),
    };
    format!("expected {}, given {given}", expected_value(expected))
}

/// What a message says about the given value: its type, or the value itself if it may be shown.
fn given_value(given: &str, is_secret: bool) -> String {
    let (kind, value) = given.split_once(' ').unwrap_or((given, ""));
    let number = || format!("the number {}", value.trim_matches('`'));
    match kind {
        "integer" if !is_secret => number(),
        "floating" if !is_secret => {
            format!("the number {}", value.trim_start_matches("point ").trim_matches('`'))
        }
        "integer" | "floating" => "a number".to_owned(),
        "boolean" => "a boolean".to_owned(),
        "string" => "a string".to_owned(),
        "sequence" => "an array".to_owned(),
        "map" => "an object".to_owned(),
        "null" => "null".to_owned(),
        _ => "another value".to_owned(),
    }
}

/// Translates the expectation of a type of Rust.
fn expected_value(expected: &str) -> String {
    let text = match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "a nonzero u16" => "a whole number from 1 to 65535",
        "a nonzero u32" | "a nonzero u64" => "a whole number, 1 or more",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        "a map" => "an object",
        "string or map" => "a string or an object",
        other if other.starts_with("struct ") || other.contains("tagged enum") => "an object",
        other if other.contains('`') => return alternatives(other),
        other => other,
    };
    text.to_owned()
}

/// Words in backquotes, as a list.
fn alternatives(text: &str) -> String {
    let words: Vec<_> = text.split('`').skip(1).step_by(2).map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        Some((last, _)) => last.clone(),
        None => text.to_owned(),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::execute::CommandRequest;

    fn problem<T: for<'a> Deserialize<'a> + std::fmt::Debug>(json: &str) -> JsonProblem {
        JsonProblem::new(&serde_json::from_str::<T>(json).unwrap_err(), false)
    }

    #[test]
    fn problems_are_in_words_of_json() {
        for (json, message) in [
            (r#"{"command":5}"#, "expected a string, given the number 5"),
            (r#"{"command":"x","timeoutMs":"5"}"#, "expected a whole number, 0 or more, given a string"),
            (r#"{"command":"x","timeoutMs":-1}"#, "expected a whole number, 0 or more, given the number -1"),
            (
                r#"{"command":"x","timeoutMs":1.5}"#,
                "expected a whole number, 0 or more, given the number 1.5",
            ),
            (r#"{"command":"x","keepStdinOpen":"yes"}"#, "expected true or false, given a string"),
            (r#"{"command":"x","args":"y"}"#, "expected at most 65536 strings, given a string"),
            (r#"{"command":"x","limits":[]}"#, "expected an object, given an array"),
            (
                r#"{"command":"x","encoding":"a, expected b"}"#,
                "expected `utf8` or `base64`, given \"a, expected b\"",
            ),
            (
                r#"{"command":"x","encoding":null,"overflow":{}}"#,
                "expected `drop` or `wait`, given an object",
            ),
            (r#"{"command":"x",}"#, "invalid JSON at line 1, column 16: trailing comma"),
            ("{", "invalid JSON at line 1, column 1: EOF while parsing an object"),
        ] {
            assert_eq!(problem::<CommandRequest>(json).message, message, "{json}");
        }
        assert_eq!(problem::<CommandRequest>("{}").field.as_deref(), Some("command"));
        let twice = problem::<CommandRequest>(r#"{"command":"x","command":"y"}"#);
        assert_eq!(
            (twice.field.as_deref(), twice.message.as_str()),
            (Some("command"), "given more than once; give it once")
        );
        assert_eq!(
            problem::<u16>("70000").message,
            "expected a whole number from 0 to 65535, given the number 70000"
        );
    }

    #[test]
    fn secrets_are_not_repeated() {
        let error = serde_json::from_str::<CommandRequest>(r#"{"command":1234567}"#).unwrap_err();
        assert_eq!(JsonProblem::new(&error, true).message, "expected a string, given a number");
        let error =
            serde_json::from_str::<CommandRequest>(r#"{"command":"x","encoding":"1234567"}"#).unwrap_err();
        assert!(!JsonProblem::new(&error, true).message.contains("1234567"));
    }
}
