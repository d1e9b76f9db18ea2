//! An example of every request and every response. A test validates them against their schemas.

use serde_json::{Value, json};

/// Adds the examples of an operation.
pub(super) fn add(operation: &mut Value, id: &str) {
    let (request, answer) = examples(id);
    let media = |value: &mut Value| {
        let content = value.get_mut("content")?.as_object_mut()?;
        content.keys().next().cloned().map(|kind| (kind.clone(), kind == "text/event-stream"))
    };
    if !request.is_null()
        && let Some((kind, _)) = media(&mut operation["requestBody"])
    {
        operation["requestBody"]["content"][kind]["example"] = request;
    }
    for status in ["200", "206"] {
        let Some(response) = operation["responses"].get_mut(status) else { continue };
        let Some((kind, is_stream)) = media(response) else { continue };
        let content = &mut response["content"][kind];
        if is_stream {
            // Each element is one event of the stream.
            for event in answer.as_array().into_iter().flatten() {
                let name = event["type"].as_str().unwrap_or_default();
                content["examples"][name] = json!({ "value": event });
            }
        } else {
            content["example"] = answer.clone();
        }
    }
    // An operation that also takes raw bytes.
    if let Some(raw) = operation.pointer_mut("/requestBody/content/application~1octet-stream")
        && raw.get("example").is_none()
    {
        raw["example"] = "hello\n".into();
    }
    // A response that is a stream if the client asks for one.
    let time = "2026-01-31T12:00:00.000Z";
    let event = match id {
        "gitCheckout" => {
            json!({ "type": "progress", "phase": "Receiving objects", "percent": 42, "timestamp": time })
        }
        "search" => json!({
            "type": "match", "path": "/work/src/main.rs", "line": 12, "column": 8, "text": "    // TODO: handle errors",
            "timestamp": time
        }),
        _ => Value::Null,
    };
    if let Some(name) = event["type"].as_str()
        && let Some(stream) = operation.pointer_mut("/responses/200/content/text~1event-stream")
    {
        stream["examples"][name] = json!({ "value": event });
    }
    for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
        let example = match parameter["name"].as_str().unwrap_or_default() {
            "id" if id.ends_with("Session") || id.ends_with("SessionEnv") => "build",
            "id" if id.contains("Terminal") => "shell-1",
            "id" if id.contains("Backup") => super::backup_examples::ID,
            "terminalId" => "shell-1",
            "id" if id.contains("Service") => "web",
            "id" => "server-1",
            "X-Session-Id" | "session" | "sessionId" => "build",
            "Idempotency-Key" => "6f1c2f0e",
            "Last-Event-ID" | "since" if id == "streamService" => "2/1234",
            "Last-Event-ID" | "since" => "1234",
            "Range" => "bytes=0-99",
            "path" => "notes/todo.txt",
            "pathBase64" => "bm90ZXMvdG9kby50eHQ=",
            "mode" => "0644",
            "If-Match" | "If-None-Match" | "If-Range" => "\"1f-2a-b-18a3f-18a3f\"",
            "signal" => "SIGINT",
            _ => continue,
        };
        parameter["example"] = example.into();
    }
}

/// Returns the examples of an operation's request (`null` if it has none) and response. For a stream, the
/// response is its events.
#[expect(clippy::too_many_lines, reason = "a table")]
fn examples(id: &str) -> (Value, Value) {
    let time = "2026-01-31T12:00:00.000Z";
    let usage = json!({ "userMs": 1.5, "systemMs": 0.5, "wallMs": 12.5, "maxRssBytes": 3_932_160 });
    let exited = json!({ "reason": "exited" });
    let hash = "9fceb02d0ae598e95dc970b74767f19372d61af8";
    let done = json!({ "success": true, "timestamp": time });
    let process = json!({
        "id": "server-1", "pid": 4711, "command": "python3 -m http.server", "status": "running", "startTime": time,
        "background": true
    });
    let ended = json!({
        "id": "server-1", "pid": 4711, "command": "python3 -m http.server", "status": "killed", "startTime": time,
        "endTime": time, "exitCode": 143, "end": { "reason": "killed", "signal": 15 }, "background": true, "usage": usage
    });
    let started = json!({
        "type": "started", "success": true, "processId": "server-1", "executionId": "server-1", "pid": 4711,
        "command": "python3 -m http.server", "timestamp": time
    });
    let session = json!({
        "id": "build", "cwd": "/work", "createdAt": time, "busy": false, "queued": 0, "restarts": 0
    });
    let made = json!({
        "success": true, "id": "build", "data": { "id": "build", "cwd": "/work", "createdAt": time }, "timestamp": time
    });
    let killed = json!([{ "pid": 4711, "command": "sleep 300", "signal": 15 }]);
    let cleaned = json!({ "success": true, "cleanedCount": 2, "timestamp": time });
    match id {
        "execute" => (
            json!({ "command": "make test", "sessionId": "build", "timeoutMs": 60_000 }),
            json!({
                "stdout": "ok\n", "stderr": "", "type": "result", "success": true, "exitCode": 0, "command": "make test",
                "duration": 12.5, "timestamp": time, "sessionId": "build", "executionId": "x-1f", "end": exited,
                "usage": usage, "cursor": 3
            }),
        ),
        "executeStream" => (
            json!({ "command": "make test", "overflow": "wait" }),
            json!([
                { "type": "start", "command": "make test", "executionId": "x-1f", "pid": 4711, "timestamp": time },
                { "type": "stdout", "data": "ok\n", "timestamp": time },
                { "type": "complete", "exitCode": 0, "end": exited, "usage": usage, "result": {
                    "success": true, "exitCode": 0, "command": "make test", "duration": 12.5, "executionId": "x-1f",
                    "timestamp": time
                }, "timestamp": time }
            ]),
        ),
        "startProcess" => (json!({ "command": "python3 -m http.server", "processId": "server-1" }), started),
        "listProcesses" => {
            (Value::Null, json!({ "success": true, "processes": [process], "timestamp": time }))
        }
        "getProcess" => (Value::Null, json!({ "success": true, "process": process, "timestamp": time })),
        "waitForProcess" => (Value::Null, json!({ "success": true, "process": ended, "timestamp": time })),
        "killProcess" => (
            Value::Null,
            json!({
                "success": true, "processId": "server-1", "killed": killed, "survivors": [], "timestamp": time
            }),
        ),
        "killAllProcesses" => (Value::Null, cleaned),
        "cleanupProcesses" => (json!({}), cleaned),
        "signalProcess" => (json!({ "signal": "SIGHUP" }), done),
        "writeStdin" => (json!("hello\n"), json!({ "success": true, "written": 6, "timestamp": time })),
        "getProcessLogs" => (
            Value::Null,
            json!({
                "stdout": "ok\n", "stderr": "", "success": true, "processId": "server-1", "cursor": 3, "timestamp": time
            }),
        ),
        "streamProcess" => (
            Value::Null,
            json!([
                { "type": "process_info", "processId": "server-1", "command": "python3 -m http.server",
                    "status": "running", "timestamp": time },
                { "type": "stderr", "data": "GET / 200\n", "processId": "server-1", "timestamp": time },
                { "type": "exit", "processId": "server-1", "exitCode": 0, "data": "", "end": exited, "usage": usage,
                    "timestamp": time }
            ]),
        ),
        "getProcessOutput" => (Value::Null, json!("ok\n")),
        "createSession" => (json!({ "id": "build", "cwd": "/work", "env": { "CI": "1" } }), made),
        "forkSession" => (json!({ "id": "build" }), made),
        "listSessions" => (
            Value::Null,
            json!({ "success": true, "data": ["build"], "sessions": [session], "timestamp": time }),
        ),
        "getSession" => (Value::Null, json!({ "success": true, "session": session, "timestamp": time })),
        "deleteSession" | "interruptSession" => (
            if id == "deleteSession" {
                json!({ "sessionId": "build" })
            } else {
                json!({ "signal": "SIGINT" })
            },
            json!({
                "success": true, "sessionId": "build", "killed": killed, "survivors": [], "timestamp": time
            }),
        ),
        "resetSession" => (json!({ "restore": true }), done),
        "setSessionEnv" | "setEnv" => (json!({ "vars": { "CI": "1", "DEBUG": null } }), done),
        "ping" => (
            Value::Null,
            json!({ "success": true, "status": "healthy", "message": "pong", "timestamp": time }),
        ),
        "version" => (
            Value::Null,
            json!({ "success": true, "version": "0.1.0", "compatible": "0.12.7", "timestamp": time }),
        ),
        "health" => (
            Value::Null,
            json!({
                "success": true, "status": "healthy", "problems": [],
                "stateDirectory": { "present": true, "freeBytes": 1_073_741_824 }, "version": "0.1.0", "uptimeMs": 60_000,
                "shell": { "driver": "loaded" }, "cgroups": "kill", "landlock": true, "git": "2.47.3", "pty": true,
                "workspace": "/work", "counts": {
                    "running": 1, "executions": 2, "sessions": 1, "connections": 1, "lostSupervisors": 0,
                    "restoredSessions": 0, "loggedFailures": 0
                }, "timestamp": time
            }),
        ),
        "metrics" => (Value::Null, json!("sandcrab_sessions 1\n# EOF\n")),
        "openapi" => (Value::Null, json!({ "openapi": "3.1.0" })),
        "gitCheckout" => (
            json!({ "repoUrl": "https://github.com/octocat/Spoon-Knife", "branch": "main", "depth": 1 }),
            json!({
                "success": true, "repoUrl": "https://github.com/octocat/Spoon-Knife", "branch": "main",
                "targetDir": "/workspace/Spoon-Knife", "timestamp": time
            }),
        ),
        "gitStatus" => (
            json!({ "path": "/workspace/app" }),
            json!({
                "success": true, "branch": "main", "head": hash, "upstream": "origin/main", "ahead": 1, "behind": 0,
                "files": [{ "path": "README.md", "index": "unmodified", "worktree": "modified" }], "timestamp": time
            }),
        ),
        "gitLog" => (
            json!({ "path": "/workspace/app", "limit": 10 }),
            json!({
                "success": true, "timestamp": time,
                "commits": [{
                    "hash": hash, "parents": [], "author": "Ada", "email": "ada@example.com",
                    "date": "2026-01-31T12:00:00+00:00", "subject": "Begin"
                }]
            }),
        ),
        "gitBranches" => (
            json!({ "path": "/workspace/app" }),
            json!({
                "success": true, "timestamp": time,
                "branches": [{
                    "name": "main", "hash": hash, "current": true, "remote": false, "upstream": "origin/main"
                }]
            }),
        ),
        "gitDiff" => (
            json!({ "path": "/workspace/app", "paths": ["README.md"] }),
            json!({
                "success": true, "timestamp": time,
                "files": [{
                    "path": "README.md", "added": 1, "removed": 1, "binary": false,
                    "hunks": [{ "header": "@@ -1 +1 @@", "lines": "-old\n+new\n" }]
                }]
            }),
        ),
        "gitAdd" => (json!({ "path": "/workspace/app", "paths": ["README.md"] }), done),
        "gitCommit" => (
            json!({
                "path": "/workspace/app", "message": "Fix the build",
                "author": { "name": "Ada", "email": "ada@example.com" }
            }),
            json!({ "success": true, "hash": hash, "timestamp": time }),
        ),
        "gitPull" | "gitPush" => (
            json!({ "path": "/workspace/app", "remote": "origin", "branch": "main" }),
            json!({
                "success": true, "timestamp": time, "refs": [{ "ref": "refs/remotes/origin/main", "after": hash }]
            }),
        ),
        "listPorts" => (
            Value::Null,
            json!({
                "success": true, "timestamp": time,
                "ports": [{
                    "port": 8000, "address": "0.0.0.0", "protocol": "tcp", "pid": 4711, "executionId": "server-1",
                    "processId": "server-1", "exposed": "http://8000-local-my_token_v1.localhost:7070/"
                }]
            }),
        ),
        "exposePort" => (
            json!({ "port": 8000, "name": "web", "token": "my_token_v1", "processId": "server-1" }),
            json!({
                "success": true, "url": "http://8000-local-my_token_v1.localhost:7070/", "port": 8000, "name": "web",
                "token": "my_token_v1", "processId": "server-1", "status": "active", "exposedAt": time, "timestamp": time
            }),
        ),
        "unexposePort" => {
            (json!({ "port": 8000 }), json!({ "success": true, "port": 8000, "timestamp": time }))
        }
        "listExposedPorts" => (
            Value::Null,
            json!({
                "success": true, "count": 1, "timestamp": time,
                "ports": [{
                    "url": "http://8000-local-my_token_v1.localhost:7070/", "port": 8000, "name": "web",
                    "token": "my_token_v1", "status": "inactive", "exposedAt": time
                }]
            }),
        ),
        "watchPort" => (
            json!({ "port": 8000, "mode": "http", "path": "/health", "processId": "server-1" }),
            json!([
                { "type": "watching", "port": 8000, "timestamp": time },
                { "type": "ready", "port": 8000, "statusCode": 200, "timestamp": time },
                { "type": "process_exited", "port": 8000, "exitCode": 1, "timestamp": time }
            ]),
        ),
        "events" => (
            Value::Null,
            json!([
                { "type": "hello", "timestamp": time },
                { "type": "execution_started", "process": process, "timestamp": time },
                { "type": "session_created", "sessionId": "build", "timestamp": time },
                {
                    "type": "port_opened", "timestamp": time,
                    "port": { "port": 8000, "address": "0.0.0.0", "protocol": "tcp", "pid": 4711 }
                },
                { "type": "port_exposed", "port": 8000, "name": "web", "timestamp": time }
            ]),
        ),
        _ => super::file_examples::examples(id)
            .or_else(|| super::backup_examples::examples(id))
            .or_else(|| super::search_examples::examples(id))
            .or_else(|| super::service_examples::examples(id))
            .unwrap_or_else(|| terminal_examples(id, &killed)),
    }
}

/// The same for the operations of terminals.
fn terminal_examples(id: &str, killed: &Value) -> (Value, Value) {
    let time = "2026-01-31T12:00:00.000Z";
    let recording =
        "{\"version\":2,\"width\":80,\"height\":24,\"timestamp\":1769860800}\n[0.250000, \"o\", \"$ \"]\n";
    let terminal = json!({
        "id": "shell-1", "executionId": "shell-1", "pid": 4711, "command": "vim notes.txt", "cols": 80, "rows": 24,
        "title": "notes.txt - VIM", "status": "running", "viewers": 1, "createdAt": time, "lastActivity": time
    });
    match id {
        "createTerminal" => (
            json!({ "id": "shell-1", "command": "vim notes.txt", "cols": 80, "rows": 24 }),
            json!({
                "success": true, "id": "shell-1", "executionId": "shell-1", "pid": 4711, "cols": 80, "rows": 24,
                "created": true, "timestamp": time
            }),
        ),
        "listTerminals" => {
            (Value::Null, json!({ "success": true, "terminals": [terminal], "timestamp": time }))
        }
        "getTerminal" => (Value::Null, json!({ "success": true, "terminal": terminal, "timestamp": time })),
        "deleteTerminal" => (
            Value::Null,
            json!({ "success": true, "id": "shell-1", "killed": killed, "survivors": [], "timestamp": time }),
        ),
        "resizeTerminal" => (
            json!({ "cols": 120, "rows": 40 }),
            json!({ "success": true, "cols": 120, "rows": 40, "timestamp": time }),
        ),
        "sendTerminalInput" => (
            json!({ "text": ":wq", "keys": ["enter"] }),
            json!({ "success": true, "written": 4, "timestamp": time }),
        ),
        "getTerminalScreen" => (
            Value::Null,
            json!({
                "success": true, "text": "$ ls\nnotes.txt\n$ ", "cols": 80, "rows": 3,
                "cells": [
                    [{ "text": "$ ls" }], [{ "text": "notes.txt", "fg": 4, "bold": true }], [{ "text": "$ " }]
                ],
                "cursor": { "row": 2, "col": 2, "visible": true }, "title": "", "alternate": false,
                "scrollbackLines": 0, "source": "live", "outputCursor": 42, "timestamp": time
            }),
        ),
        "waitForTerminal" => (
            json!({ "text": "$ ", "timeoutMs": 5_000 }),
            json!({ "success": true, "matched": true, "row": 2, "col": 0, "text": "$ ", "timestamp": time }),
        ),
        "getTerminalRecording" | "getProcessRecording" => (Value::Null, json!(recording)),
        _ => (Value::Null, Value::Null),
    }
}
