//! Checks the shape of JSON objects, described in one line of text.

use serde_json::Value;

/// Checks that an object has exactly these fields, each given as `name:kind`, or `name?:kind` if it is
/// optional.
///
/// Kinds: `text`, `int` (not negative), `number`, `flag`, `time` (ISO 8601 with time zone), `list`, `object`.
#[track_caller]
pub fn assert_shape(value: &Value, shape: &str) {
    let Value::Object(fields) = value else { panic!("not an object: {value}") };
    let mut known = Vec::new();
    for part in shape.split_ascii_whitespace() {
        let (name, kind) = part.split_once(':').expect("a shape is name:kind");
        let (name, optional) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
        known.push(name);
        match fields.get(name) {
            Some(field) => assert!(is_kind(field, kind), "{name} should be {kind}, in {value}"),
            None => assert!(optional, "{name} is missing in {value}"),
        }
    }
    for name in fields.keys() {
        assert!(known.contains(&name.as_str()), "{name} should not be there, in {value}");
    }
}

fn is_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "text" => value.is_string(),
        "int" => value.is_u64(),
        "number" => value.as_f64().is_some_and(|number| number >= 0.0),
        "flag" => value.is_boolean(),
        "time" => value.as_str().is_some_and(is_time),
        "list" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no kind {other:?}"),
    }
}

/// Returns whether a text has the form `2026-01-31T12:00:00.000Z`.
fn is_time(text: &str) -> bool {
    let pattern = b"0000-00-00T00:00:00.000Z";
    let fits = |(byte, like): (u8, &u8)| if *like == b'0' { byte.is_ascii_digit() } else { byte == *like };
    text.len() == pattern.len() && text.bytes().zip(pattern).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fits(value: &Value, shape: &str) -> bool {
        std::panic::catch_unwind(|| assert_shape(value, shape)).is_ok()
    }

    #[test]
    fn fields_are_all_there_and_no_others() {
        let value = json!({"a": 1, "t": "2026-01-31T12:00:00.000Z"});
        assert!(fits(&value, "a:int t:time b?:text"));
        assert!(!fits(&value, "a:int"));
        assert!(!fits(&value, "a:int t:time b:text"));
        assert!(!fits(&value, "a:text t:time"));
        assert!(!fits(&json!({"t": "2026-01-31 12:00"}), "t:time"));
    }
}
