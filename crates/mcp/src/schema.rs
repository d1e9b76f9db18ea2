//! JSON Schema of arguments, in the subset that all model providers accept.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The schema of a tool's arguments.
pub(crate) fn of<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    let Value::Object(mut schema) = schema else { return Map::new() };
    // Its documentation is about the Rust type.
    schema.remove("description");
    // A tool without arguments.
    schema.entry("properties").or_insert_with(|| json!({}));
    schema
}

/// Removes what some providers refuse and no model needs: null for optional arguments, titles and formats of numbers.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Object(object) => {
            if object.get("title").is_some_and(Value::is_string) {
                object.remove("title");
            }
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
                if let [Value::Object(only)] = choices.as_slice() {
                    let only = only.clone();
                    object.remove("anyOf");
                    for (name, value) in only {
                        object.entry(name).or_insert(value);
                    }
                }
            }
            object.values_mut().for_each(simplify);
        }
        _ => (),
    }
}
