//! The table of behaviour that all SDKs share.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::calls::{Object, call};
use super::expectation::mismatch;
use super::sandbox;
use crate::support::TestServer;

#[derive(Deserialize)]
struct Case {
    name: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    call: String,
    on: Option<String>,
    #[serde(default)]
    args: Vec<Value>,
    #[serde(default)]
    options: Map<String, Value>,
    save: Option<String>,
    /// Streams are always collected here.
    #[serde(default, rename = "collect")]
    _collect: bool,
    #[serde(default, deserialize_with = "given")]
    expect: Option<Value>,
    error: Option<String>,
}

/// A `null` is a value to expect, too.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Replaces `${name.field}` in all texts.
fn filled(value: &Value, saved: &BTreeMap<String, Value>) -> Value {
    match value {
        Value::String(text) => {
            let mut text = text.clone();
            for (name, value) in saved {
                text = text.replace(&format!("${{{name}}}"), value.as_str().unwrap_or_default());
                for (field, value) in value.as_object().into_iter().flatten() {
                    text = text.replace(&format!("${{{name}.{field}}}"), value.as_str().unwrap_or_default());
                }
            }
            text.into()
        }
        Value::Array(items) => items.iter().map(|item| filled(item, saved)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, item)| (key.clone(), filled(item, saved))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// Why a case fails.
async fn failure(server: &TestServer, number: usize, case: &Case) -> Option<String> {
    let mut values = BTreeMap::from([("unique".to_owned(), json!(format!("rs{number}")))]);
    let mut objects = BTreeMap::from([(String::new(), Object::Sandbox(sandbox(server)))]);
    for (at, step) in case.steps.iter().enumerate() {
        let what = format!("{:?}, step {} ({})", case.name, at + 1, step.call);
        let args: Vec<_> = step.args.iter().map(|arg| filled(arg, &values)).collect();
        let Value::Object(options) = filled(&Value::Object(step.options.clone()), &values) else {
            return Some(what);
        };
        let on = &objects[step.on.as_deref().unwrap_or_default()];
        let result = call(on, &step.call, &args, options).await;
        let (object, value) = match (result, &step.error) {
            (Err(error), Some(code)) if error.code().is_some_and(|found| found.as_str() == code) => continue,
            (Ok(result), None) => result,
            (Ok((_, value)), Some(code)) => return Some(format!("{what}: {value} instead of {code}")),
            (Err(error), _) => return Some(format!("{what}: {error:?}")),
        };
        let expected = step.expect.as_ref().map(|expected| filled(expected, &values));
        if let Some(why) = expected.and_then(|expected| mismatch(&value, &expected, "result")) {
            return Some(format!("{what}: {why}"));
        }
        if let Some(name) = &step.save {
            values.insert(name.clone(), value);
            objects.extend(object.map(|object| (name.clone(), object)));
        }
    }
    None
}

#[tokio::test]
async fn table_holds() {
    let server = TestServer::new();
    let table = include_str!("../../../../../sdk/behaviour.json");
    let cases: Vec<Case> = serde_json::from_str(table).unwrap();
    assert!(cases.len() >= 30);
    let mut failures = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        failures.extend(failure(&server, number, case).await);
    }
    assert!(failures.is_empty(), "{} of {} fail:\n{}", failures.len(), cases.len(), failures.join("\n"));
}
