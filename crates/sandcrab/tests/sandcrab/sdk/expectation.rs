//! Comparison of a result with what the table of behaviour expects.

use serde_json::Value;

/// Why a value does not fit; `None` if it does.
pub(super) fn mismatch(actual: &Value, expected: &Value, path: &str) -> Option<String> {
    match expected {
        Value::Array(items) => match actual {
            Value::Array(found) if found.len() == items.len() => found
                .iter()
                .zip(items)
                .enumerate()
                .find_map(|(at, (found, item))| mismatch(found, item, &format!("{path}[{at}]"))),
            _ => Some(format!("{path} is {actual}")),
        },
        Value::Object(fields) => fields.iter().find_map(|(key, item)| unlike(actual, key, item, path)),
        _ => (actual != expected).then(|| format!("{path} is {actual}, not {expected}")),
    }
}

fn unlike(actual: &Value, key: &str, item: &Value, path: &str) -> Option<String> {
    let is_wrong = match key {
        "$matches" => {
            let text = actual.as_str().unwrap_or_default();
            !regex::Regex::new(item.as_str().unwrap()).unwrap().is_match(text)
        }
        "$exists" => actual.is_null() == item.as_bool().unwrap(),
        "$length" => {
            actual.as_array().map(Vec::len) != item.as_u64().and_then(|length| length.try_into().ok())
        }
        "$contains" => return missing(actual, item.as_array().unwrap(), path),
        _ => return mismatch(&actual[key], item, &format!("{path}.{key}")),
    };
    is_wrong.then(|| format!("{path} is {actual}, not {key} {item}"))
}

/// The first event that does not follow the ones before it.
fn missing(actual: &Value, wanted: &[Value], path: &str) -> Option<String> {
    let mut events = actual.as_array().unwrap().iter();
    wanted.iter().find_map(|wanted| {
        let found = events.any(|event| mismatch(event, wanted, path).is_none());
        (!found).then(|| format!("{path} has no {wanted} at its place: {actual}"))
    })
}
