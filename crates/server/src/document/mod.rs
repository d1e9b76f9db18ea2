//! Completes the generated OpenAPI document: errors, examples, links between operations, the token, and
//! properties that derived schemas cannot express.

mod backup_examples;
mod errors;
mod examples;
mod file_examples;
mod search_examples;
mod service_examples;
mod unions;

use sandcrab_api::ErrorCode;
use serde_json::{Map, Value, json};

const METHODS: [&str; 4] = ["get", "put", "post", "delete"];

/// Links: the source operation, the expression of the id in its response, and the target operations.
const LINKS: [(&str, &str, &[&str]); 7] = [
    ("startService", "$response.body#/serviceId", OF_SERVICE),
    ("startProcess", "$response.body#/processId", OF_PROCESS),
    ("execute", "$response.body#/executionId", OF_PROCESS),
    ("createTerminal", "$response.body#/id", OF_TERMINAL),
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
    "getProcessRecording",
];
const OF_SERVICE: &[&str] = &[
    "getService",
    "getServiceHealth",
    "stopService",
    "restartService",
    "deleteService",
    "getServiceLogs",
    "streamService",
];
const OF_TERMINAL: &[&str] = &[
    "getTerminal",
    "deleteTerminal",
    "resizeTerminal",
    "sendTerminalInput",
    "getTerminalScreen",
    "waitForTerminal",
    "getTerminalRecording",
    "getProcess",
];
const OF_SESSION: &[&str] =
    &["getSession", "interruptSession", "forkSession", "resetSession", "setSessionEnv"];
/// Operations that take the session in the body.
const IN_SESSION: &[&str] = &["deleteSession", "execute", "executeStream", "startProcess", "createTerminal"];

/// Operations whose body is optional.
const WITHOUT_BODY: &[&str] = &[
    "createSession",
    "interruptSession",
    "forkSession",
    "resetSession",
    "writeStdin",
    "cleanupProcesses",
    "stopService",
    "restartService",
    "createTerminal",
    "sendTerminalInput",
    "listFiles",
    "gitStatus",
    "gitLog",
    "gitBranches",
    "gitDiff",
    "gitAdd",
    "gitPull",
    "gitPush",
];

/// Completes the document.
pub(crate) fn complete(document: &mut Value) {
    document["security"] = json!([{ "token": [] }]);
    document["components"]["securitySchemes"] = json!({ "token": { "type": "http", "scheme": "bearer" } });
    document["components"]["parameters"]["RequestId"] = json!({
        "name": "X-Request-Id",
        "in": "header",
        "required": false,
        "description": "Id of the request, repeated in the response and in the log. Default: a generated id.",
        "schema": { "type": "string" }
    });
    document["components"]["headers"]["RequestId"] = json!({
        "description": "Id of the request, as in the server's log.",
        "schema": { "type": "string" }
    });
    document["components"]["schemas"]["ErrorBody"] = schema::<sandcrab_api::ErrorBody>();
    document["components"]["schemas"]["ErrorCode"] = schema::<ErrorCode>();
    // Allow any fields. Without this, some generators produce an object without fields.
    document["components"]["schemas"]["ErrorBody"]["properties"]["context"]["additionalProperties"] =
        true.into();
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        unions::name_variants(schemas);
        errors::add_types(schemas);
    }
    if let Some(paths) = document["paths"].as_object_mut() {
        for (path, operations) in paths {
            for method in METHODS {
                let Some(operation) = operations.get_mut(method) else { continue };
                complete_operation(operation, &format!("{} {path}", method.to_uppercase()));
            }
        }
    }
    refine(document);
    remove_unreferenced(document);
}

fn complete_operation(operation: &mut Value, name: &str) {
    if let Some(responses) = operation["responses"].as_object_mut() {
        responses.extend(errors::responses(name));
        for response in responses.values_mut() {
            response["headers"]["X-Request-Id"] = json!({ "$ref": "#/components/headers/RequestId" });
        }
    }
    link(operation);
    if operation.get("parameters").is_none() {
        operation["parameters"] = json!([]);
    }
    if let Some(parameters) = operation["parameters"].as_array_mut() {
        // Headers and query parameters cannot be null, only absent.
        for parameter in parameters.iter_mut() {
            if parameter["schema"]["type"] == json!(["string", "null"]) {
                parameter["schema"]["type"] = "string".into();
            }
        }
        parameters.push(json!({ "$ref": "#/components/parameters/RequestId" }));
    }
    let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
    if WITHOUT_BODY.contains(&id.as_str()) {
        operation["requestBody"]["required"] = false.into();
    }
    examples::add(operation, &id);
}

/// Returns a reference to a schema.
fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Returns the name of the schema that a reference points to.
fn referenced(reference: &str) -> Option<&str> {
    reference.strip_prefix("#/components/schemas/")
}

/// Removes unreferenced schemas until none is left. Error schemas stay, because some belong to no operation.
fn remove_unreferenced(document: &mut Value) {
    loop {
        let text = document.to_string();
        let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return };
        let count = schemas.len();
        schemas.retain(|name, _| {
            name.ends_with("Error")
                || name == "ErrorBody"
                || text.contains(&format!("\"#/components/schemas/{name}\""))
        });
        if schemas.len() == count {
            return;
        }
    }
}

/// Corrects the schemas of bytes and unsigned numbers, and joins the lines of descriptions.
fn refine(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(refine),
        Value::Object(fields) => {
            fields.values_mut().for_each(refine);
            // A signed format would exclude the upper half of the range.
            if fields.get("minimum").is_some_and(|least| least == 0) {
                fields.remove("format");
            }
            for name in ["summary", "description"] {
                if let Some(Value::String(text)) = fields.get_mut(name) {
                    *text = join_lines(text);
                }
            }
            if let Some(media) = fields.get_mut("application/octet-stream") {
                media["schema"] = json!({ "type": "string", "format": "binary" });
            }
        }
        _ => {}
    }
}

/// Joins the lines of each paragraph. Blank lines and list items keep their line breaks.
fn join_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for line in text.trim().lines() {
        let continues = !joined.is_empty() && !joined.ends_with('\n');
        if continues && !line.is_empty() && !line.starts_with("- ") {
            joined.push(' ');
        } else if !joined.is_empty() {
            joined.push('\n');
        }
        joined.push_str(line.trim());
    }
    joined
}

fn schema<T: utoipa::PartialSchema>() -> Value {
    serde_json::to_value(T::schema()).unwrap_or_default()
}

/// Links an operation to the operations that accept the id in its response.
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
