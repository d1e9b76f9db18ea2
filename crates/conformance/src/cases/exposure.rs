//! Exposed ports, and the responses of previews that do not come from a program.

use serde_json::{Value, json};
use tokio::net::TcpSocket;

use super::port::own_port;
use super::shapes;
use super::steps::{fresh, text};
use crate::http::{Request, Target};
use crate::shape::assert_shape;

/// A port on which no program listens, and on which no other program can: its socket is bound.
fn reserve() -> (TcpSocket, u16) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let port = socket.local_addr().expect("an address").port();
    (socket, port)
}

async fn expose(target: &Target, body: Value) -> Value {
    let exposed = target.post("/api/port/expose", body).await.ok();
    assert_shape(&exposed, shapes::EXPOSED);
    exposed
}

async fn unexpose(target: &Target, port: u16) {
    target.post("/api/port/unexpose", json!({"port": port})).await.ok();
}

/// The host of a URL.
fn host(url: &Value) -> String {
    let url = text(url);
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    host.and_then(|host| host.strip_suffix('/')).expect("a URL with the path /").to_owned()
}

fn preview(host: &str, path: &str) -> Request {
    Request::get(path).header("host", host).header("authorization", "")
}

pub(super) async fn exposed_and_unexposed(target: Target) {
    let (socket, port) = reserve();
    let body = json!({"port": port, "name": "my web", "token": "my_token_1"});
    let exposed = expose(&target, body).await;
    assert_eq!(
        (&exposed["port"], &exposed["name"], &exposed["token"], &exposed["status"]),
        (&json!(port), &json!("my web"), &json!("my_token_1"), &json!("inactive"))
    );
    let label = host(&exposed["url"]).split('.').next().map(str::to_owned).expect("a label");
    assert!(label.starts_with(&format!("{port}-")) && label.ends_with("-my_token_1"), "{label}");
    assert!(label.len() <= 63, "{label}");
    let listener = socket.listen(1).expect("a bound socket listens");
    let list = target.get("/api/port/exposed").await.ok();
    assert_shape(&list, shapes::EXPOSED_PORTS);
    let of_port = |list: &Value| {
        let ports = list["ports"].as_array().expect("a list").iter();
        ports.filter(|found| found["port"] == port).cloned().collect::<Vec<_>>()
    };
    let [entry] = &of_port(&list)[..] else { panic!("{list}") };
    assert_shape(entry, shapes::EXPOSED_PORT);
    assert_eq!((&entry["url"], &entry["status"]), (&exposed["url"], &json!("active")));
    let ports = target.get("/api/ports").await.ok();
    assert_eq!(of_port(&ports)[0]["exposed"], exposed["url"], "{ports}");
    let unexposed = target.post("/api/port/unexpose", json!({"port": port})).await.ok();
    assert_shape(&unexposed, shapes::UNEXPOSED);
    assert!(of_port(&target.get("/api/port/exposed").await.ok()).is_empty());
    let gone = target.send(preview(&host(&exposed["url"]), "/")).await;
    gone.refused(404, "PORT_NOT_EXPOSED");
    let again = target.post("/api/port/unexpose", json!({"port": port})).await;
    again.refused(404, "PORT_NOT_EXPOSED");
    // Without a token of the client, tokens are random.
    let first = expose(&target, json!({"port": port})).await;
    unexpose(&target, port).await;
    let second = expose(&target, json!({"port": port})).await;
    assert_ne!(first["token"], second["token"]);
    unexpose(&target, port).await;
    drop(listener);
}

pub(super) async fn of_a_process(target: Target) {
    let ((_socket, port), id) = (reserve(), fresh("owner"));
    target.start(json!({"command": "sleep 300", "processId": id})).await;
    let exposed = expose(&target, json!({"port": port, "processId": id})).await;
    assert_eq!(exposed["processId"], id);
    target.kill(&id).await;
    let is_gone = |list: &Value| {
        list["ports"].as_array().expect("a list").iter().all(|exposed| exposed["port"] != port)
    };
    target.until("/api/port/exposed", is_gone).await;
    let ended = target.post("/api/port/expose", json!({"port": port, "processId": id})).await;
    ended.refused(409, "PROCESS_ENDED");
    let missing = json!({"port": port, "processId": fresh("none")});
    target.post("/api/port/expose", missing).await.refused(404, "PROCESS_NOT_FOUND");
}

pub(super) async fn the_same_request_twice(target: Target) {
    let (_socket, port) = reserve();
    let body = json!({"port": port, "token": "twice"});
    let first = expose(&target, body.clone()).await;
    assert_eq!(expose(&target, body).await["url"], first["url"]);
    for other in [
        json!({"port": port}),
        json!({"port": port, "token": "x"}),
        json!({"port": port, "token": "twice", "name": "n"}),
    ] {
        let refused = target.post("/api/port/expose", other).await.refused(409, "PORT_ALREADY_EXPOSED");
        assert_eq!(refused["context"]["url"], first["url"]);
    }
    unexpose(&target, port).await;
}

pub(super) async fn invalid_requests(target: Target) {
    for path in ["/api/port/expose", "/api/port/unexpose"] {
        for port in [0, 65_536, 4_294_967_295_u32] {
            target.post(path, json!({"port": port})).await.refused(400, "INVALID_PORT");
        }
        for body in
            [json!({}), json!({"port": -1}), json!({"port": "80"}), json!({"port": 80, "hostname": "x"})]
        {
            target.post(path, body).await.refused(400, "VALIDATION_FAILED");
        }
    }
    let (_socket, port) = reserve();
    for token in ["", "A", "a-b", "a.b", "ä", "a b", "0123456789012345678901234"] {
        let body = json!({"port": port, "token": token});
        let refused = target.post("/api/port/expose", body).await.refused(400, "VALIDATION_FAILED");
        assert_eq!(refused["context"]["field"], "token", "{token}");
    }
    for name in [String::new(), "a\n".into(), "x".repeat(65)] {
        let body = json!({"port": port, "name": name});
        let refused = target.post("/api/port/expose", body).await.refused(400, "VALIDATION_FAILED");
        assert_eq!(refused["context"]["field"], "name", "{name}");
    }
}

pub(super) async fn the_port_of_the_server(target: Target) {
    let refused = target.post("/api/port/expose", json!({"port": own_port(&target)})).await;
    refused.refused(400, "INVALID_PORT");
}

pub(super) async fn no_program_listens(target: Target) {
    let (_socket, port) = reserve();
    let host = host(&expose(&target, json!({"port": port})).await["url"]);
    let refused = target.send(preview(&host, "/api/ping")).await.refused(502, "SERVICE_NOT_RESPONDING");
    assert!(text(&refused["message"]).contains(&format!("no program listens on port {port}")), "{refused}");
    let page = target.send(preview(&host, "/").header("accept", "text/html,*/*;q=0.8")).await;
    assert_eq!((page.status(), page.header("content-type")), (502, Some("text/html; charset=utf-8")));
    assert!(page.text().contains(&format!("no program listens on port {port}")), "{}", page.text());
    unexpose(&target, port).await;
}

/// Names that resemble a preview are never the API, whatever the token of the client.
pub(super) async fn other_names(target: Target) {
    let (_socket, port) = reserve();
    let exposed = expose(&target, json!({"port": port, "token": "right"})).await;
    let host = host(&exposed["url"]);
    let own = own_port(&target);
    for wrong in [
        host.replace("-right.", "-wrong."),
        host.replace("-right.", "-righ."),
        host.replace("-right.", "-right1."),
        host.replace("-right.", "."),
        host.replace("-right.", "-right.x."),
        host.replacen(&port.to_string(), &own.to_string(), 1),
        host.replacen(&port.to_string(), &format!("0{port}"), 1),
        host.replacen(&port.to_string(), "99999", 1),
    ] {
        for path in ["/", "/api/ping", "/metrics", "/ws", "/openapi.json", "/api/ports"] {
            let answer = target.send(Request::get(path).header("host", wrong.as_str())).await;
            answer.refused(404, "PORT_NOT_EXPOSED");
        }
        let command = json!({"command": "true"});
        let answer =
            target.send(Request::post("/api/execute", &command).header("host", wrong.as_str())).await;
        answer.refused(404, "PORT_NOT_EXPOSED");
    }
    // A name in the target of the request takes precedence, and must not contradict the header.
    let absolute = Request::get(format!("http://{host}/api/ping"));
    target.send(absolute).await.refused(400, "VALIDATION_FAILED");
    unexpose(&target, port).await;
}

pub(super) async fn events(target: Target) {
    let mut events = target.stream(Request::get("/api/events")).await;
    assert_eq!(events.next().await.kind(), "hello");
    let (socket, port) = reserve();
    let listener = socket.listen(1).expect("a bound socket listens");
    let opened = loop {
        let event = events.next_of("port_opened").await;
        if event.data["port"]["port"] == port {
            break event.data;
        }
    };
    assert_shape(&opened, "type:text port:object timestamp:time");
    assert_shape(&opened["port"], shapes::PORT);
    assert_eq!(opened["port"]["exposed"], Value::Null);
    let response = expose(&target, json!({"port": port, "name": "web"})).await;
    let exposed = events.next_of("port_exposed").await.data;
    assert_shape(&exposed, "type:text port:int name?:text timestamp:time");
    assert_eq!((&exposed["port"], &exposed["name"]), (&json!(port), &json!("web")));
    drop(listener);
    let closed = loop {
        let event = events.next_of("port_closed").await;
        if event.data["port"]["port"] == port {
            break event.data;
        }
    };
    assert_eq!(closed["port"]["exposed"], response["url"], "the address at the time of the event");
    unexpose(&target, port).await;
    assert_eq!(events.next_of("port_unexposed").await.data["port"], port);
}
