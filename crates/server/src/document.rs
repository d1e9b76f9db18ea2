//! What completes the OpenAPI document: refusals, links between operations, the token, and what derived schemas
//! cannot say.

use sandcrab_api::ErrorCode;
use serde_json::{Map, Value, json};

const METHODS: [&str; 4] = ["get", "put", "post", "delete"];

/// Operations whose answer names something, where it stands, and what can be done to it.
const LINKS: [(&str, &str, &[&str]); 5] = [
    ("startProcess", "$response.body#/processId", OF_PROCESS),
    ("execute", "$response.body#/executionId", OF_PROCESS),
    ("createSession", "$response.body#/data/id", OF_SESSION),
    ("forkSession", "$response.body#/data/id", OF_SESSION),
    ("killProcess", "$response.body#/processId", &["getProcess", "getProcessLogs"]),
];
const OF_PROCESS: &[&str] = &[
    "getProcess",
    "killProcess",
    "waitForProcess",
    "getProcessLogs",
    "getProcessOutput",
    "streamProcess",
    "signalProcess",
    "writeStdin",
];
const OF_SESSION: &[&str] =
    &["getSession", "interruptSession", "forkSession", "resetSession", "setSessionEnv"];
/// What takes the session in its body.
const IN_SESSION: &[&str] = &["deleteSession", "execute", "executeStream", "startProcess"];

/// What may be asked without a body.
const WITHOUT_BODY: [&str; 5] =
    ["createSession", "interruptSession", "forkSession", "resetSession", "writeStdin"];

/// Completes the document.
pub(crate) fn complete(document: &mut Value) {
    document["security"] = json!([{ "token": [] }]);
    document["components"]["securitySchemes"] = json!({ "token": { "type": "http", "scheme": "bearer" } });
    document["components"]["schemas"]["ErrorBody"] = schema::<sandcrab_api::ErrorBody>();
    document["components"]["schemas"]["ErrorCode"] = schema::<ErrorCode>();
    let refusals = refusals();
    let Some(paths) = document["paths"].as_object_mut() else { return };
    for path in paths.values_mut() {
        for method in METHODS {
            let Some(operation) = path.get_mut(method) else { continue };
            if let Some(responses) = operation["responses"].as_object_mut() {
                for (status, refusal) in &refusals {
                    responses.entry(status).or_insert_with(|| refusal.clone());
                }
            }
            link(operation);
            // A header or a query cannot be null: it is left out.
            let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
            for parameter in parameters.into_iter().flatten() {
                if parameter["schema"]["type"] == json!(["string", "null"]) {
                    parameter["schema"]["type"] = "string".into();
                }
            }
            if operation["operationId"].as_str().is_some_and(|id| WITHOUT_BODY.contains(&id)) {
                operation["requestBody"]["required"] = false.into();
            }
        }
    }
    refine(document);
}

/// Says of bytes, events and unsigned numbers what they are.
fn refine(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(refine),
        Value::Object(fields) => {
            fields.values_mut().for_each(refine);
            // A signed format would forbid the upper half.
            if fields.get("minimum").is_some_and(|least| least == 0) {
                fields.remove("format");
            }
            if let Some(media) = fields.get_mut("application/octet-stream") {
                *media = json!({ "schema": { "type": "string", "format": "binary" } });
            }
            if let Some(media) = fields.get_mut("text/event-stream") {
                *media = json!({ "schema": event(&media["schema"]) });
            }
        }
        _ => {}
    }
}

/// One event of a stream, as its fields, whose `data` is JSON of this schema.
fn event(schema: &Value) -> Value {
    let text = json!({ "type": "string" });
    let data = json!({ "type": "string", "contentMediaType": "application/json", "contentSchema": schema });
    json!({
        "type": "object",
        "properties": { "id": text, "event": text, "data": data },
        "required": ["data"]
    })
}

fn schema<T: utoipa::PartialSchema>() -> Value {
    serde_json::to_value(T::schema()).unwrap_or_default()
}

/// Every status a refusal may come with over HTTP, but for our bugs.
fn refusals() -> Map<String, Value> {
    let mut found = Map::new();
    let left_out = [ErrorCode::InternalError, ErrorCode::RequestCancelled];
    for code in ErrorCode::ALL.iter().filter(|code| !left_out.contains(code)) {
        let entry = found.entry(code.status().to_string()).or_insert_with(|| {
            json!({
                "description": "",
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/ErrorBody" } } }
            })
        });
        let before = entry["description"].as_str().unwrap_or_default();
        let separator = if before.is_empty() { "" } else { ", " };
        entry["description"] = format!("{before}{separator}`{code}`").into();
    }
    found
}

/// Links an operation to what can be done with what its answer names.
fn link(operation: &mut Value) {
    let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
    let Some((_, place, targets)) = LINKS.iter().find(|(source, ..)| *source == id) else { return };
    let mut links = Map::new();
    for target in *targets {
        links.insert((*target).into(), json!({ "operationId": target, "parameters": { "id": place } }));
    }
    if *targets == OF_SESSION {
        for target in IN_SESSION {
            links.insert(
                (*target).into(),
                json!({ "operationId": target, "requestBody": { "sessionId": place } }),
            );
        }
    }
    operation["responses"]["200"]["links"] = links.into();
}
