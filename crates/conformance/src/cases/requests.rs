//! Invalid requests are refused with a reason.

use serde_json::{Value, json};

use super::steps::text;
use crate::http::{Request, Target};

const BODIES: [&str; 6] = [
    "/api/execute",
    "/api/execute/stream",
    "/api/process/start",
    "/api/session/create",
    "/api/session/delete",
    "/api/env",
];

fn raw(path: &str, body: impl Into<Vec<u8>>) -> Request {
    Request::new("POST", path).header("content-type", "application/json").body(body)
}

pub(super) async fn invalid_json(target: Target) {
    let deep = "[".repeat(100_000);
    for path in BODIES {
        for body in ["{", "[]", "\"x\"", "{\"command\":\"true\"} x", "\u{0}", deep.as_str()] {
            target.send(raw(path, body)).await.refused(400, "VALIDATION_FAILED");
        }
        target
            .send(raw(path, &b"{\"command\":\"\xff\",\"id\":\"\xff\"}"[..]))
            .await
            .refused(400, "VALIDATION_FAILED");
    }
}

/// A compressed body is not read as an uncompressed one.
pub(super) async fn compressed_body(target: Target) {
    for (coding, refused) in [("gzip", true), ("Identity", false)] {
        let request =
            Request::post("/api/execute", &json!({"command": "true"})).header("content-encoding", coding);
        let answer = target.send(request).await;
        if refused { drop(answer.refused(400, "VALIDATION_FAILED")) } else { drop(answer.ok()) }
    }
}

/// Values of variables may be secret, so errors do not repeat them.
pub(super) async fn errors_do_not_repeat_values(target: Target) {
    for (path, body) in [
        ("/api/execute", json!({"command": "true", "env": "S3CR3T"})),
        ("/api/execute", json!({"command": "true", "env": {"A": ["S3CR3T"]}})),
        ("/api/execute", json!({"command": "true", "stdin": {"S3CR3T": 1}})),
        ("/api/env", json!({"vars": {"A": {"S3CR3T": 1}}})),
        ("/api/env", json!(r#"{"vars":{"A":"S3CR3T"}}"#)),
    ] {
        let refusal = target.post(path, body).await.refused(400, "VALIDATION_FAILED");
        assert!(!refusal.to_string().contains("S3CR3T"), "{refusal}");
    }
}

/// An invalid session id is an error, not "no session".
pub(super) async fn invalid_session_id(target: Target) {
    let request = Request::post("/api/execute", &json!({"command": "true"})).header("x-session-id", "\u{e9}");
    target.send(request).await.refused(400, "VALIDATION_FAILED");
    let empty = json!({"command": "true", "sessionId": ""});
    target.post("/api/execute", empty).await.refused(400, "VALIDATION_FAILED");
}

/// The number of arguments is checked before they take a multiple of their size in memory.
pub(super) async fn too_many_arguments(target: Target) {
    let body = json!({"command": "true", "args": vec![""; 65_537]});
    let refusal = target.post("/api/execute", body).await.refused(400, "VALIDATION_FAILED");
    assert!(refusal["message"].as_str().unwrap_or_default().contains("args"), "{refusal}");
}

/// Each row: the field, its value, and a part of the message.
pub(super) async fn wrong_types_name_the_field(target: Target) {
    let wrong = [
        ("command", json!(1)),
        ("command", json!(null)),
        ("args", json!("x")),
        ("args", json!([1])),
        ("sessionId", json!(7)),
        ("timeoutMs", json!("soon")),
        ("timeoutMs", json!(-1)),
        ("timeoutMs", json!(1.5)),
        ("idleTimeoutMs", json!([])),
        ("graceMs", json!("long")),
        ("env", json!({"A": 1})),
        ("env", json!([])),
        ("cwd", json!({})),
        ("background", json!("yes")),
        ("stdin", json!(5)),
        ("keepStdinOpen", json!(1)),
        ("encoding", json!("latin1")),
        ("maxOutputBytes", json!(-1)),
        ("limits", json!({"memoryBytes": "much"})),
        ("leftovers", json!("forget")),
        ("onDisconnect", json!("maybe")),
        ("onSessionEnd", json!("stay")),
        ("autoCleanup", json!("no")),
    ];
    for (field, value) in wrong {
        let mut body = json!({"command": "true"});
        body[field] = value.clone();
        let refusal = target.post("/api/execute", body).await.refused(400, "VALIDATION_FAILED");
        let message = refusal["message"].as_str().unwrap_or_default();
        assert!(message.contains(field), "{field}: {value} gives a message that does not name it: {message}");
    }
}

pub(super) async fn wrong_session_fields_name_the_field(target: Target) {
    for (field, value) in [
        ("id", json!(1)),
        ("name", json!([])),
        ("env", json!("A=1")),
        ("cwd", json!(1)),
        ("commandTimeoutMs", json!("x")),
        ("maxOutputSizeBytes", json!(-5)),
        ("onShellExit", json!("explode")),
    ] {
        let refusal = target.post("/api/session/create", json!({field: value})).await;
        let refusal = refusal.refused(400, "VALIDATION_FAILED");
        assert!(refusal["message"].as_str().unwrap_or_default().contains(field), "{refusal}");
    }
}

pub(super) async fn missing_command(target: Target) {
    for path in ["/api/execute", "/api/execute/stream", "/api/process/start"] {
        let refusal = target.post(path, json!({})).await.refused(400, "VALIDATION_FAILED");
        assert!(refusal["message"].as_str().unwrap_or_default().contains("command"), "{refusal}");
    }
}

/// Fields that clients of the reference send are accepted, although they have no effect.
pub(super) async fn fields_of_the_reference(target: Target) {
    let body = json!({"command": "true", "origin": "internal", "sessionId": "__DISABLE_SESSION__"});
    assert_eq!(target.run(body).await["exitCode"], 0);
}

/// An unknown field is named, together with the most similar known one.
pub(super) async fn unknown_fields(target: Target) {
    let session = target.new_session().await;
    let started = |field: &str| json!({"command": "true", field: 1});
    for (path, body, field, nearest) in [
        ("/api/execute", started("timeout"), "timeout", "timeoutMs"),
        ("/api/execute/stream", started("session"), "session", "sessionId"),
        ("/api/process/start", started("cmd"), "cmd", "command"),
        ("/api/process/start", started("colour"), "colour", ""),
        (
            "/api/execute",
            json!({"command": "true", "limits": {"memory": 1}}),
            "limits.memory",
            "limits.memoryBytes",
        ),
        ("/api/process/cleanup", json!({"all": true}), "all", ""),
        ("/api/session/create", json!({"ID": "x"}), "ID", "id"),
        ("/api/session/delete", json!({"sessionId": session, "force": true}), "force", ""),
        (&format!("/api/session/{session}/fork"), json!({"name": "x"}), "name", ""),
        (&format!("/api/session/{session}/reset"), json!({"restored": true}), "restored", "restore"),
        (&format!("/api/session/{session}/interrupt"), json!({"grace": 1}), "grace", "graceMs"),
        (&format!("/api/session/{session}/env"), json!({"vars": {}, "var": {}}), "var", "vars"),
        ("/api/env", json!({"vars": {}, "keep": true}), "keep", ""),
    ] {
        let refusal = target.post(path, body).await.refused(400, "VALIDATION_FAILED");
        let context = &refusal["context"];
        assert_eq!(
            (&context["field"], context["nearest"].as_str().unwrap_or("")),
            (&json!(field), nearest),
            "{refusal}"
        );
        let message = refusal["message"].as_str().unwrap_or_default();
        assert!(message.contains(field) && message.contains(nearest), "{refusal}");
    }
    target.delete_session(&session).await;
}

/// The same on every route that takes a JSON document, by the API document.
pub(super) async fn unknown_fields_of_every_route(target: Target) {
    let document = target.get("/openapi.json").await.ok();
    let session = target.new_session().await;
    let process = target.start(json!({"command": "sleep 300"})).await;
    let terminal = target.terminal(json!({"command": "sleep 300"})).await;
    let service = target.post("/api/service/start", json!({"command": "sleep 300"})).await.ok();
    let service = text(&service["serviceId"]);
    let mut count = 0;
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        let schema = &operations["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let Some(name) = schema.as_str().and_then(|schema| schema.rsplit('/').next()) else { continue };
        let fields = document["components"]["schemas"][name]["properties"].as_object();
        let known =
            fields.and_then(|fields| fields.keys().max_by_key(|name| name.len())).map_or("", |name| name);
        let field = format!("{known}X");
        let id = match path.split('/').nth(2) {
            Some("process") => &process,
            Some("terminal") => &terminal,
            Some("service") => &service,
            _ => &session,
        };
        let refusal = target.post(path.replace("{id}", id), json!({ &field: 1 })).await;
        let refusal = refusal.refused(400, "VALIDATION_FAILED");
        let context = &refusal["context"];
        assert_eq!(
            (&context["field"], context["nearest"].as_str().unwrap_or("")),
            (&json!(field), known),
            "{path}: {refusal}"
        );
        count += 1;
    }
    assert!(count > 40, "only {count} routes take a document");
    target.delete(format!("/api/service/{service}")).await.ok();
    target.delete_terminal(&terminal).await;
    target.kill(&process).await;
    target.delete_session(&session).await;
}

/// Values of another type, in every field of every route: the error is in words of JSON, not in those of a parser.
pub(super) async fn invalid_values_are_explained(target: Target) {
    let document = target.get("/openapi.json").await.ok();
    let session = target.new_session().await;
    let process = target.start(json!({"command": "sleep 300"})).await;
    let terminal = target.terminal(json!({"command": "sleep 300"})).await;
    let service = target.post("/api/service/start", json!({"command": "sleep 300"})).await.ok();
    let service = text(&service["serviceId"]);
    let mut count = 0;
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        let schema = &operations["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let Some(name) = schema.as_str().and_then(|schema| schema.rsplit('/').next()) else { continue };
        let id = match path.split('/').nth(2) {
            Some("process") => &process,
            Some("terminal") => &terminal,
            Some("service") => &service,
            _ => &session,
        };
        let schema = &document["components"]["schemas"][name];
        for field in schema["properties"].as_object().into_iter().flatten().map(|(field, _)| field) {
            // No field takes any of them, so the requests have no effect.
            for value in [json!([[]]), json!({"x": {}}), json!(-1.5)] {
                let answer = target.post(path.replace("{id}", id), json!({ field: value })).await;
                let message = text(&answer.json()["message"]);
                for word in [
                    "invalid length",
                    "u8",
                    "u16",
                    "u32",
                    "u64",
                    "usize",
                    "i32",
                    "i64",
                    "f64",
                    "invalid type",
                    "invalid value",
                    "variant",
                    "struct ",
                    "sequence",
                    "a map",
                    "tagged",
                    " at line ",
                    "see the API document",
                ] {
                    assert!(!message.contains(word), "{path} {field} {value}: {message}");
                }
                count += usize::from(message.contains("expected "));
            }
        }
    }
    assert!(count > 300, "only {count} messages say what is expected");
    target.delete(format!("/api/service/{service}")).await.ok();
    target.delete_terminal(&terminal).await;
    target.kill(&process).await;
    target.delete_session(&session).await;
}

/// The same for query parameters, on every route.
pub(super) async fn unknown_queries(target: Target) {
    let id = target.start(json!({"command": "true"})).await;
    target.ended(&id).await;
    for (path, name, nearest) in [
        ("/api/ping?verbose=1".to_owned(), "verbose", ""),
        ("/api/process/list?state=running".into(), "state", "status"),
        ("/api/process/list?all=true&All=true".into(), "All", "all"),
        (format!("/api/process/{id}?x"), "x", ""),
        (format!("/api/process/{id}/logs?tails=1"), "tails", "tail"),
        (format!("/api/process/{id}/stream?from=1"), "from", ""),
        (format!("/api/process/{id}/wait?timeout=1"), "timeout", "timeoutMs"),
        (format!("/api/process/{id}/output?streams=stdout"), "streams", "stream"),
        ("/api/events?since=1".into(), "since", ""),
    ] {
        let refusal = target.get(path).await.refused(400, "VALIDATION_FAILED");
        let context = &refusal["context"];
        assert_eq!(
            (&context["field"], context["nearest"].as_str().unwrap_or("")),
            (&json!(name), nearest),
            "{refusal}"
        );
    }
    let folder = target.folder().await;
    let body = json!({"command": format!("touch {folder}/ran")});
    target.post("/api/execute?timeoutMs=1", body).await.refused(400, "VALIDATION_FAILED");
    assert_eq!(target.shell(&format!("ls {folder}")).await["stdout"], "");
    target.remove(&folder).await;
}

/// Options that have no effect on a route are refused there.
pub(super) async fn options_without_effect(target: Target) {
    for (path, field, value) in [
        ("/api/execute", "onSessionEnd", json!("keep")),
        ("/api/execute", "stdinEncoding", json!("base64")),
        ("/api/execute", "overflow", json!("wait")),
        ("/api/execute/stream", "maxOutputBytes", json!(1)),
        ("/api/execute/stream", "background", json!(true)),
        ("/api/process/start", "maxOutputBytes", json!(1)),
        ("/api/process/start", "onDisconnect", json!("kill")),
        ("/api/process/start", "background", json!(false)),
        ("/api/process/start", "onSessionEnd", json!("keep")),
    ] {
        let refusal = target.post(path, json!({"command": "true", field: value})).await;
        let refusal = refusal.refused(400, "VALIDATION_FAILED");
        assert_eq!(refusal["context"]["field"], field, "{path}: {refusal}");
    }
    let id = target.start(json!({"command": "true"})).await;
    target.ended(&id).await;
    let both = target.get(format!("/api/process/{id}/logs?tail=1&since=0")).await;
    both.refused(400, "VALIDATION_FAILED");
}

/// A JSON body needs no `Content-Type`.
pub(super) async fn missing_content_type(target: Target) {
    for kind in ["", "text/plain", "application/json; charset=utf-8", "APPLICATION/JSON"] {
        let request = raw("/api/execute", "{\"command\":\"true\"}").header("content-type", kind);
        target.send(request).await.ok();
    }
}

pub(super) async fn nul_in_a_command(target: Target) {
    let bodies: [Value; 4] = [
        json!({"command": "echo a\0b"}),
        json!({"command": "echo", "args": ["a\0b"]}),
        json!({"command": "true", "env": {"A": "a\0b"}}),
        json!({"command": "true", "cwd": "/tmp\0x"}),
    ];
    for body in bodies {
        let answer = target.post("/api/execute", body.clone()).await;
        assert_eq!(answer.status(), 400, "{body}: {}", answer.text());
        let code = answer.json()["code"].clone();
        assert!(code == "INVALID_COMMAND" || code == "VALIDATION_FAILED", "{body}: {code}");
    }
    target.post("/api/execute", json!({"command": "echo a\0b"})).await.refused(400, "INVALID_COMMAND");
}

pub(super) async fn invalid_variable_name(target: Target) {
    for name in ["", "A=B"] {
        let answer = target.post("/api/execute", json!({"command": "true", "env": {name: "x"}})).await;
        assert_eq!(answer.status(), 400, "{name:?}: {}", answer.text());
    }
}

pub(super) async fn invalid_ids(target: Target) {
    let long = "x".repeat(129);
    for id in ["../x", "a/b", "..", ".hidden", "a b", "ü", ""] {
        let answer = target.post("/api/process/start", json!({"command": "true", "processId": id})).await;
        answer.refused(400, "VALIDATION_FAILED");
        let answer = target.post("/api/execute", json!({"command": "true", "executionId": id})).await;
        answer.refused(400, "VALIDATION_FAILED");
        target.post("/api/session/create", json!({"id": id})).await.refused(400, "VALIDATION_FAILED");
    }
    let answer = target.post("/api/process/start", json!({"command": "true", "processId": long})).await;
    answer.refused(400, "NAME_TOO_LONG");
    target.post("/api/session/create", json!({"id": long})).await.refused(400, "NAME_TOO_LONG");
}

/// Route names cannot be ids.
pub(super) async fn reserved_ids(target: Target) {
    for id in ["list", "kill-all", "cleanup", "start"] {
        let answer = target.post("/api/process/start", json!({"command": "true", "processId": id})).await;
        answer.refused(400, "VALIDATION_FAILED");
    }
    for id in ["list", "create", "delete", "__DISABLE_SESSION__"] {
        target.post("/api/session/create", json!({"id": id})).await.refused(400, "VALIDATION_FAILED");
    }
}

pub(super) async fn unknown_route(target: Target) {
    for path in ["/api", "/api/", "/api/nothing", "/api/execute/", "//api/execute", "/api/session/x/y/z"] {
        target.get(path).await.refused(404, "ROUTE_NOT_FOUND");
    }
}

pub(super) async fn unsupported_method(target: Target) {
    for (method, path) in [
        ("GET", "/api/execute"),
        ("PUT", "/api/process/start"),
        ("DELETE", "/api/session/create"),
        ("POST", "/api/ping"),
        ("POST", "/api/process/list"),
        ("GET", "/api/process/kill-all"),
    ] {
        let answer = target.send(Request::new(method, path)).await;
        let refusal = answer.refused(405, "METHOD_NOT_ALLOWED");
        let named = answer.header("allow").unwrap_or_default().split(',').map(str::trim);
        let message = text(&refusal["message"]);
        for allowed in named.filter(|name| !name.is_empty()) {
            assert!(message.contains(allowed), "{method} {path}: {refusal}");
        }
        assert!(answer.header("allow").is_some(), "{method} {path} does not say what is allowed");
    }
}

pub(super) async fn invalid_query_values(target: Target) {
    let id = target.start(json!({"command": "true"})).await;
    target.ended(&id).await;
    for path in [
        format!("/api/process/{id}/logs?encoding=latin1"),
        format!("/api/process/{id}/logs?since=-1"),
        format!("/api/process/{id}/logs?tail=x"),
        format!("/api/process/{id}/output?stream=stdin"),
        format!("/api/process/{id}/stream?since=soon"),
        format!("/api/process/{id}/stream?follow=perhaps"),
        format!("/api/process/{id}/wait?timeoutMs=-1"),
        "/api/process/list?status=odd".to_owned(),
    ] {
        target.get(path).await.refused(400, "VALIDATION_FAILED");
    }
    let path = format!("/api/process/{id}?signal=NOSUCH");
    target.delete(path).await.refused(400, "VALIDATION_FAILED");
}
