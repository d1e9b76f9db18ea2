//! Ports: the list of the kernel, and waiting until one is ready.

use serde_json::{Value, json};

use super::shapes;
use super::steps::fresh;
use super::stream::kinds;
use crate::http::{Request, Target};
use crate::shape::assert_shape;

/// The port of the server itself: the only one that every server has.
pub(super) fn own_port(target: &Target) -> u16 {
    let port = target.authority().rsplit(':').next().and_then(|port| port.parse().ok());
    port.expect("the address of the server has a port")
}

async fn watch(target: &Target, body: Value) -> Vec<crate::http::Event> {
    target.stream(Request::post("/api/port-watch", &body)).await.rest().await
}

/// A port on which no program listens: one that was free a moment ago.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

pub(super) async fn list(target: Target) {
    let list = target.get("/api/ports").await.ok();
    assert_shape(&list, shapes::PORTS);
    let ports = list["ports"].as_array().expect("a list");
    ports.iter().for_each(|port| assert_shape(port, shapes::PORT));
    assert!(ports.iter().any(|port| port["port"] == own_port(&target)), "{list}");
}

pub(super) async fn ready(target: Target) {
    let port = own_port(&target);
    let events = watch(&target, json!({"port": port, "mode": "tcp"})).await;
    assert_eq!(kinds(&events), ["watching", "ready"]);
    assert_eq!((&events[0].data["port"], &events[1].data["port"]), (&json!(port), &json!(port)));
    assert_eq!(events[1].data.get("statusCode"), None);
    // The server answers without a token too: 401, or 200 if it requires none.
    let body = json!({"port": port, "mode": "http", "path": "api/ping", "statusMin": 200, "statusMax": 499});
    let events = watch(&target, body).await;
    assert_eq!(kinds(&events), ["watching", "ready"]);
    assert!([200, 401].map(Value::from).contains(&events[1].data["statusCode"]), "{events:?}");
}

pub(super) async fn process_that_ends(target: Target) {
    let id = fresh("no-listener");
    target.post("/api/process/start", json!({"command": "sleep 0.2; exit 7", "processId": id})).await.ok();
    let events = watch(&target, json!({"port": free_port(), "processId": id, "interval": 100})).await;
    assert_eq!(kinds(&events), ["watching", "process_exited"]);
    assert_eq!(events[1].data["exitCode"], 7);
}

pub(super) async fn invalid_requests(target: Target) {
    let refused = async |body: Value, status, code| {
        target.post("/api/port-watch", body).await.refused(status, code);
    };
    for port in [0, 65_536, 4_294_967_295_u32] {
        refused(json!({"port": port, "mode": "tcp"}), 400, "INVALID_PORT").await;
    }
    refused(json!({"port": -1}), 400, "VALIDATION_FAILED").await;
    refused(json!({"port": 80, "mode": "udp"}), 400, "VALIDATION_FAILED").await;
    refused(json!({"port": 80, "path": "a b\n"}), 400, "VALIDATION_FAILED").await;
    refused(json!({"port": 80, "statusMin": 500}), 400, "VALIDATION_FAILED").await;
    refused(json!({"port": 80, "timeout": 5}), 400, "VALIDATION_FAILED").await;
    refused(json!({"port": 80, "processId": fresh("none")}), 404, "PROCESS_NOT_FOUND").await;
}
