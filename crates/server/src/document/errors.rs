//! The errors of the OpenAPI document: a named type for each code, and for each operation the codes that it
//! can return.

use sandcrab_api::ErrorCode;
use serde_json::{Map, Value, json};

use super::reference;
use super::unions::{discriminated, pascal};
use crate::operations;

/// Returns the type name of an error, such as `ProcessNotFoundError`.
fn name(code: ErrorCode) -> String {
    let word = code.as_str();
    format!("{}Error", pascal(word.strip_suffix("_ERROR").unwrap_or(word)))
}

/// Returns the schema of an error's context, if it is fixed.
fn context(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::SessionTerminated | ErrorCode::SessionDestroyed => Some("SessionEndContext"),
        ErrorCode::ValidationFailed => Some("ValidationContext"),
        _ => None,
    }
}

/// Adds a type for every code.
pub(super) fn add_types(schemas: &mut Map<String, Value>) {
    let body = schemas["ErrorBody"].clone();
    for code in ErrorCode::ALL {
        let mut schema = body.clone();
        schema["description"] = code.meaning().into();
        let fields = &mut schema["properties"];
        fields["code"] = json!({ "type": "string", "const": code.as_str() });
        fields["httpStatus"] = json!({ "type": "integer", "const": code.status() });
        if let Some(context) = context(*code) {
            fields["context"] = reference(context);
        }
        schemas.insert(name(*code), schema);
    }
    let text = json!({ "type": "string" });
    schemas.insert(
        "SessionEndContext".into(),
        json!({
            "type": "object",
            "description": "The command that was running when its session or shell ended.",
            "properties": {
                "sessionId": text,
                "executionId": text,
                "exitCode": { "type": "integer" },
                "stdout": { "type": "string", "description": "Standard output, at most 1 MiB." },
                "stderr": { "type": "string", "description": "Standard error, at most 1 MiB." },
                "truncatedBytes": { "type": "integer", "minimum": 0, "description": "Number of bytes that were left out." }
            }
        }),
    );
    schemas.insert(
        "ValidationContext".into(),
        json!({
            "type": "object",
            "description": "The invalid part of a request.",
            "properties": {
                "field": { "type": "string", "description": "Name of the field, header or query parameter." },
                "nearest": { "type": "string", "description": "For an unknown name, the most similar known one." },
                "validationErrors": {
                    "type": "array",
                    "items": { "type": "object", "properties": { "field": text, "message": text } }
                }
            }
        }),
    );
}

/// Returns the error responses of an operation, by status.
pub(super) fn responses(operation: &str) -> Map<String, Value> {
    let mut by_status: Vec<(u16, Vec<ErrorCode>)> = Vec::new();
    for code in operations::errors(operation).into_iter().flatten() {
        match by_status.iter_mut().find(|(status, _)| *status == code.status()) {
            Some((_, codes)) => codes.push(code),
            None => by_status.push((code.status(), vec![code])),
        }
    }
    by_status.into_iter().map(|(status, codes)| (status.to_string(), response(status, &codes))).collect()
}

fn response(status: u16, codes: &[ErrorCode]) -> Value {
    let schema = match codes {
        [code] => reference(&name(*code)),
        codes => {
            let mapping: Vec<_> = codes.iter().map(|code| (code.to_string(), name(*code))).collect();
            let mut union = discriminated(&Value::Null, "code", &mapping);
            union.as_object_mut().map(|union| union.remove("description"));
            union
        }
    };
    let lines: Vec<_> = codes.iter().map(|code| format!("- `{code}`: {}", code.meaning())).collect();
    let mut response = json!({
        "description": lines.join("\n"),
        "content": { "application/json": { "schema": schema } }
    });
    let header = |about: &str| json!({ "description": about, "schema": { "type": "string" } });
    match status {
        401 => response["headers"]["WWW-Authenticate"] = header("`Bearer`."),
        416 => response["headers"]["Content-Range"] = header("`bytes */SIZE`: number of available bytes."),
        429 | 503 => response["headers"]["Retry-After"] = header("Number of seconds to wait before a retry."),
        _ => {}
    }
    response
}
