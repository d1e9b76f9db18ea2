//! Unions with named variants. The variants of a derived union have no names.

use serde_json::{Map, Value, json};

use super::{reference, referenced};

/// The unions, and the suffix of their variants' names.
const UNIONS: &[(&str, &str, &str)] = &[
    ("ExecuteEvent", "", "Event"),
    ("ProcessEvent", "", "Event"),
    ("ServerEvent", "", "Event"),
    ("GitEvent", "Git", "Event"),
    ("PortWatchEvent", "Port", "Event"),
    ("FileEvent", "File", "Event"),
    ("SearchEvent", "Search", "Event"),
    ("ServiceEvent", "Service", "Event"),
    ("WatchEvent", "Watch", "Event"),
    ("ServerFrame", "", "Frame"),
    ("TerminalFrame", "Terminal", "Frame"),
];
/// The untagged union. Its variants contain the tag themselves.
const EXECUTE_RESPONSE: (&str, [(&str, &str); 2]) =
    ("ExecuteResponse", [("result", "ExecuteResult"), ("started", "ProcessStarted")]);

/// Gives each variant its own schema with a constant tag, and each union a discriminator.
pub(super) fn name_variants(schemas: &mut Map<String, Value>) {
    let before = schemas.clone();
    for (union, prefix, suffix) in UNIONS.iter().copied() {
        let mut mapping = Vec::new();
        for variant in before[union]["oneOf"].as_array().into_iter().flatten() {
            let parts = &variant["allOf"];
            let tag = parts[1]["properties"]["type"]["enum"][0].as_str().unwrap_or_default();
            let base = parts[0]["$ref"].as_str().and_then(referenced).unwrap_or_default();
            let name = format!("{prefix}{}{suffix}", pascal(tag));
            let mut schema = before[base].clone();
            schema["description"] = variant["description"].clone();
            add_tag(&mut schema, tag);
            schemas.insert(name.clone(), schema);
            mapping.push((tag.to_owned(), name));
        }
        schemas[union] = discriminated(&before[union]["description"], "type", &mapping);
    }
    let (union, variants) = EXECUTE_RESPONSE;
    for (tag, name) in variants {
        add_tag(&mut schemas[name], tag);
    }
    let mapping = variants.map(|(tag, name)| (tag.to_owned(), name.to_owned()));
    let about = json!("The result; or, with `background`, the start.");
    schemas[union] = discriminated(&about, "type", &mapping);
}

/// Makes the field `type` a constant.
fn add_tag(schema: &mut Value, tag: &str) {
    schema["properties"]["type"] = json!({ "type": "string", "const": tag });
    if let Some(required) = schema["required"].as_array_mut()
        && !required.iter().any(|name| name == "type")
    {
        required.insert(0, "type".into());
    }
}

/// Returns a union of named schemas that `field` distinguishes.
pub(super) fn discriminated(about: &Value, field: &str, mapping: &[(String, String)]) -> Value {
    let variants: Vec<_> = mapping.iter().map(|(_, name)| reference(name)).collect();
    let mapping: Map<_, _> = mapping
        .iter()
        .map(|(tag, name)| (tag.clone(), json!(format!("#/components/schemas/{name}"))))
        .collect();
    json!({
        "description": about,
        "oneOf": variants,
        "discriminator": { "propertyName": field, "mapping": mapping }
    })
}

/// Converts `PROCESS_NOT_FOUND` or `process_info` to a type name.
pub(super) fn pascal(word: &str) -> String {
    let part = |part: &str| {
        let mut letters = part.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters.map(|letter| letter.to_ascii_lowercase())).collect::<String>()
    };
    word.split('_').map(part).collect()
}
