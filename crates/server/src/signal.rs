//! Signals by name or number.

use serde_json::Value;

use crate::error::ApiError;

/// SIGINT.
pub(crate) const INT: i32 = 2;
/// SIGTERM.
pub(crate) const TERM: i32 = 15;

/// The number of a signal that is given as `TERM`, `SIGTERM`, `15`.
pub(crate) fn from_text(text: &str) -> Result<i32, ApiError> {
    sandcrab_api::signal::number(text).ok_or_else(|| {
        let shown: String = text.chars().take(32).collect();
        ApiError::invalid(
            "signal",
            format!("invalid signal {shown:?}; expected a name like SIGTERM, or 1 to 31"),
        )
    })
}

/// The number of a signal that is given as a string or a number.
pub(crate) fn from_value(value: &Value) -> Result<i32, ApiError> {
    match value {
        Value::String(text) => from_text(text),
        Value::Number(number) => from_text(&number.to_string()),
        _ => Err(ApiError::invalid("signal", "expected a name like \"SIGTERM\", or a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for text in ["TERM", "SIGTERM", "sigterm", "15", " 15 "] {
            assert_eq!(from_text(text).unwrap(), TERM, "{text}");
        }
        assert_eq!(from_text("SYS").unwrap(), 31);
        for text in ["", "0", "32", "-1", "SIG", "SIGSIGTERM", "15.0", "NOPE"] {
            assert!(from_text(text).is_err(), "{text}");
        }
        assert!(from_value(&serde_json::json!(9)).is_ok());
        assert!(from_value(&serde_json::json!([9])).is_err());
    }
}
