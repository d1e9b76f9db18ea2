//! Examples of the operations on services.

use serde_json::{Value, json};

/// Returns the examples of an operation: its request and its response.
pub(super) fn examples(id: &str) -> Option<(Value, Value)> {
    let time = "2026-01-31T12:00:00.000Z";
    let execution = "web.3f9a1c07.2";
    let health = json!({ "status": "healthy", "lastCheck": time });
    let check = json!({ "port": 8080, "path": "/health", "intervalMs": 5000 });
    let service = json!({
        "id": "web", "command": "python3 -m http.server 8080", "state": "healthy", "executionId": execution, "pid": 4711,
        "createdAt": time, "startedAt": time, "restarts": 1, "health": health, "healthCheck": check,
        "restart": { "policy": "on-failure", "maxRestarts": 5 },
        "executions": [{
            "executionId": "web.3f9a1c07.1", "startTime": time, "endTime": time, "exitCode": 1,
            "end": { "reason": "exited" }
        }]
    });
    let started = json!({
        "success": true, "serviceId": "web", "processId": execution, "executionId": execution, "pid": 4711,
        "command": "python3 -m http.server 8080", "health": health, "timestamp": time
    });
    let stopped = json!({
        "success": true, "serviceId": "web", "killed": [{ "pid": 4711, "command": "python3 -m http.server 8080", "signal": 15 }],
        "survivors": [], "timestamp": time
    });
    Some(match id {
        "startService" => (
            json!({
                "command": "python3 -m http.server 8080", "serviceId": "web", "healthCheck": check,
                "restart": { "policy": "on-failure", "maxRestarts": 5 }, "waitForReady": true
            }),
            started,
        ),
        "listServices" => (Value::Null, json!({ "success": true, "services": [service], "timestamp": time })),
        "getService" => (Value::Null, json!({ "success": true, "service": service, "timestamp": time })),
        "getServiceHealth" => (
            Value::Null,
            json!({
                "success": true, "serviceId": "web", "status": "healthy", "lastCheck": time, "timestamp": time
            }),
        ),
        "stopService" => (json!({ "graceMs": 1000 }), stopped),
        "restartService" => (json!({ "graceMs": 1000 }), started),
        "deleteService" => (Value::Null, stopped),
        "getServiceLogs" => (
            Value::Null,
            json!({
                "success": true, "processId": execution, "stdout": "listening\n", "stderr": "", "cursor": 10,
                "timestamp": time
            }),
        ),
        "streamService" => (
            Value::Null,
            json!([
                { "type": "execution", "serviceId": "web", "executionId": execution, "restarts": 1, "timestamp": time },
                { "type": "stdout", "data": "listening\n", "processId": execution, "timestamp": time },
                { "type": "end", "serviceId": "web", "state": "stopped", "timestamp": time }
            ]),
        ),
        _ => return None,
    })
}
