//! The environment of a command: that of the server, the sandbox, the session and the request.

use serde_json::json;

use super::steps::fresh;
use crate::http::{Request, Target};

fn show(name: &str) -> String {
    format!("printf %s \"${{{name}-unset}}\"")
}

/// A variable name that is unique to this case.
fn variable() -> String {
    fresh("VARIABLE").replace('-', "_")
}

pub(super) async fn variables_of_a_command(target: Target) {
    let name = variable();
    let odd = "a b\n$HOME'\"\\ü";
    let body = json!({"command": show(&name), "env": {name.as_str(): odd}});
    assert_eq!(target.run(body).await["stdout"], odd);
    assert_eq!(target.shell(&show(&name)).await["stdout"], "unset");
    let body = json!({"command": show("HOME"), "env": {"HOME": null}});
    assert_eq!(target.run(body).await["stdout"], "unset");
}

pub(super) async fn variables_of_a_session_command(target: Target) {
    let session = target.make_session(json!({"env": {"KEPT": "session"}})).await;
    let body = json!({"command": show("KEPT"), "env": {"KEPT": "command"}, "sessionId": session});
    assert_eq!(target.run(body).await["stdout"], "command");
    assert_eq!(target.in_session(&session, &show("KEPT")).await["stdout"], "session");
    let body = json!({"command": show("KEPT"), "env": {"KEPT": null}, "sessionId": session});
    assert_eq!(target.run(body).await["stdout"], "unset");
    assert_eq!(target.in_session(&session, &show("KEPT")).await["stdout"], "session");
    target.delete_session(&session).await;
}

pub(super) async fn variables_of_a_session(target: Target) {
    let name = variable();
    let session = target.new_session().await;
    let path = format!("/api/session/{session}/env");
    let set = target.post(path.as_str(), json!({"vars": {name.as_str(): "set"}})).await.ok();
    assert_eq!(set["success"], true);
    assert_eq!(target.in_session(&session, &format!("bash -c '{}'", show(&name))).await["stdout"], "set");
    assert_eq!(target.shell(&show(&name)).await["stdout"], "unset");
    target.post(path.as_str(), json!({"vars": {name.as_str(): null}})).await.ok();
    assert_eq!(target.in_session(&session, &show(&name)).await["stdout"], "unset");
    for vars in [json!({"A": 1}), json!([]), json!({"A B": "x"})] {
        let answer = target.post(path.as_str(), json!({"vars": vars})).await;
        assert_eq!(answer.status(), 400, "{vars}: {}", answer.text());
    }
    target.delete_session(&session).await;
    target.post(path, json!({"vars": {}})).await.refused(404, "SESSION_NOT_FOUND");
}

pub(super) async fn variables_of_the_sandbox(target: Target) {
    let name = variable();
    let before = target.new_session().await;
    target.post("/api/env", json!({"vars": {name.as_str(): "sandbox"}})).await.ok();
    assert_eq!(target.shell(&show(&name)).await["stdout"], "sandbox");
    let argv = target.run(json!({"command": "printenv", "args": [name]})).await;
    assert_eq!(argv["stdout"], "sandbox\n");
    let after = target.make_session(json!({"env": {"OTHER": "x"}})).await;
    assert_eq!(target.in_session(&after, &show(&name)).await["stdout"], "sandbox");
    let own = target.make_session(json!({"env": {name.as_str(): "session"}})).await;
    assert_eq!(target.in_session(&own, &show(&name)).await["stdout"], "session");
    let unset = target.make_session(json!({"env": {name.as_str(): null}})).await;
    assert_eq!(target.in_session(&unset, &show(&name)).await["stdout"], "unset");
    target.post("/api/env", json!({"vars": {name.as_str(): null}})).await.ok();
    assert_eq!(target.shell(&show(&name)).await["stdout"], "unset");
    for session in [before, after, own, unset] {
        target.delete_session(&session).await;
    }
}

pub(super) async fn server_variables_are_hidden(target: Target) {
    let result = target.shell("env | grep -c ^SANDCRAB_").await;
    assert_eq!(result["stdout"], "0\n");
}

/// The body takes precedence over the header, and the header over the query. A reserved id means no session.
pub(super) async fn session_selection(target: Target) {
    let [body, header, query] =
        [target.new_session().await, target.new_session().await, target.new_session().await];
    for session in [&body, &header, &query] {
        target.in_session(session, &format!("own={session}")).await;
    }
    let command = "printf %s \"${own-none}\"";
    let ask = |with_body: Option<&str>, with_header: &str, path: String| {
        let mut json = json!({"command": command});
        if let Some(id) = with_body {
            json["sessionId"] = json!(id);
        }
        target.send(Request::post(path, &json).header("x-session-id", with_header))
    };
    let with_query = format!("/api/execute?sessionId={query}");
    for (answer, expected) in [
        (ask(Some(body.as_str()), &header, with_query.clone()).await, body.as_str()),
        (ask(None, &header, with_query.clone()).await, &header),
        (ask(None, "", with_query.clone()).await, &query),
        (ask(None, "", format!("/api/execute?session={query}")).await, &query),
        (ask(Some("__DISABLE_SESSION__"), &header, with_query).await, "none"),
        (ask(None, "__DISABLE_SESSION__", "/api/execute".to_owned()).await, "none"),
        (ask(None, "", "/api/execute".to_owned()).await, "none"),
    ] {
        let result = answer.ok();
        assert_eq!(result["stdout"], expected);
        assert_eq!(result["sessionId"].as_str().unwrap_or("none"), expected);
    }
    let refusal = ask(Some("nobody"), &header, "/api/execute".to_owned()).await;
    assert_eq!(refusal.refused(404, "SESSION_NOT_FOUND")["context"]["sessionId"], "nobody");
    for session in [body, header, query] {
        target.delete_session(&session).await;
    }
}
