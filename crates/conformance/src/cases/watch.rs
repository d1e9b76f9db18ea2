//! Watches of directories.

use serde_json::{Value, json};

use super::steps::text;
use crate::http::{Event, EventStream, Request, Target};
use crate::shape::assert_shape;

async fn watch(target: &Target, body: Value) -> EventStream {
    let mut events = target.stream(Request::post("/api/watch", &body)).await;
    let first = events.next().await;
    assert_eq!((first.kind(), &first.data["path"]), ("watching", &body["path"]));
    assert_shape(&first.data, "type:text path:text watchId:text timestamp:time");
    events
}

/// Waits for a change of a file.
async fn change(events: &mut EventStream, kind: &str, name: &str) -> Event {
    loop {
        let event = events.next_of("event").await;
        assert_shape(
            &event.data,
            "type:text eventType:text path:text isDirectory:flag moveId?:int timestamp:time",
        );
        if event.data["eventType"] == kind && text(&event.data["path"]).ends_with(name) {
            return event;
        }
    }
}

pub(super) async fn changes(target: Target) {
    let folder = target.folder().await;
    let mut events = watch(&target, json!({"path": folder})).await;
    target.shell(&format!("cd {folder} && mkdir -p a/b && echo 1 >a/b/file")).await;
    let created = change(&mut events, "create", "/a").await;
    assert_eq!(created.data["isDirectory"], true);
    change(&mut events, "create", "/a/b/file").await;
    target.shell(&format!("cd {folder} && echo 2 >>a/b/file && mv a/b/file c && rm c")).await;
    change(&mut events, "modify", "/a/b/file").await;
    let from = change(&mut events, "move_from", "/a/b/file").await;
    let to = change(&mut events, "move_to", "/c").await;
    assert!(from.data["moveId"].is_u64() && from.data["moveId"] == to.data["moveId"], "{from:?} {to:?}");
    change(&mut events, "delete", "/c").await;
    // The directory itself is replaced.
    target.shell(&format!("rm -r {folder} && mkdir {folder}")).await;
    let resync = events.next_of("resync").await;
    assert_shape(&resync.data, "type:text reason:text timestamp:time");
    assert_eq!(resync.data["reason"], "replaced");
    target.shell(&format!("touch {folder}/again")).await;
    change(&mut events, "create", "/again").await;
    target.remove(&folder).await;
}

pub(super) async fn selected_changes(target: Target) {
    let folder = target.folder().await;
    target.shell(&format!("cd {folder} && mkdir -p node_modules/x src")).await;
    let mut usual = watch(&target, json!({"path": folder})).await;
    let mut included =
        watch(&target, json!({"path": folder, "include": ["*.ts"], "events": ["create"]})).await;
    let mut flat = watch(&target, json!({"path": folder, "recursive": false, "exclude": ["b"]})).await;
    target
        .shell(&format!(
            "cd {folder} && echo >node_modules/x/a.ts && echo >src/b && echo >src/c.ts && touch b last.ts"
        ))
        .await;
    let names = async |events: &mut EventStream| {
        let mut names = Vec::new();
        loop {
            let event = events.next_of("event").await.data;
            let path = text(&event["path"]);
            let name = path.strip_prefix(&format!("{folder}/")).unwrap_or(&path).to_owned();
            if name == "last.ts" {
                return names;
            }
            names.push(format!("{} {name}", text(&event["eventType"])));
        }
    };
    assert_eq!(names(&mut included).await, ["create node_modules/x/a.ts", "create src/c.ts"]);
    let expected = ["create src/b", "modify src/b", "create src/c.ts", "modify src/c.ts", "create b"];
    assert_eq!(names(&mut usual).await, expected);
    assert_eq!(names(&mut flat).await, Vec::<String>::new());
    target.remove(&folder).await;
}

pub(super) async fn invalid_watches(target: Target) {
    let folder = target.folder().await;
    for path in ["/api/watch", "/api/watch/check"] {
        for (body, field) in [
            (json!({}), "path"),
            (json!({"path": folder, "include": ["a"], "exclude": ["b"]}), "exclude"),
            (json!({"path": folder, "events": ["created"]}), "events[0]"),
            (json!({"path": folder, "recursive": 1}), "recursive"),
        ] {
            let refusal = target.post(path, body.clone()).await.refused(400, "VALIDATION_FAILED");
            assert_eq!(refusal["context"]["field"], field, "{body}: {refusal}");
        }
        target.post(path, json!({"path": folder, "include": ["["]})).await.refused(400, "VALIDATION_FAILED");
        target.post(path, json!({"path": format!("{folder}/none")})).await.refused(404, "FILE_NOT_FOUND");
        target.post(path, json!({"path": "/dev/null/x"})).await.refused(400, "NOT_DIRECTORY");
    }
    // Empty lists are the same as none.
    drop(watch(&target, json!({"path": folder, "include": [], "exclude": []})).await);
    // A watch with a timeout ends by itself.
    let mut events = watch(&target, json!({"path": folder, "timeoutMs": 50})).await;
    let rest = events.rest().await;
    let [stopped] = &rest[..] else { panic!("{rest:?}") };
    assert_shape(&stopped.data, "type:text reason:text timestamp:time");
    assert_eq!((stopped.kind(), &stopped.data["reason"]), ("stopped", &json!("timeout")));
    target.remove(&folder).await;
}

pub(super) async fn versions(target: Target) {
    let folder = target.folder().await;
    let check = async |since: Option<&Value>| {
        let answer = target.post("/api/watch/check", json!({"path": folder, "since": since})).await.ok();
        assert_shape(&answer, "success:flag status:text version:text reason?:text timestamp:time");
        answer
    };
    let first = check(None).await;
    assert_eq!(first["status"], "unchanged");
    assert!(text(&first["version"]).ends_with(":0"), "{first}");
    let same = check(Some(&first["version"])).await;
    assert_eq!((&same["status"], &same["version"]), (&first["status"], &first["version"]));
    target.shell(&format!("mkdir {folder}/new")).await;
    let second = check(Some(&first["version"])).await;
    assert_eq!(second["status"], "changed");
    target.shell(&format!("touch {folder}/new/file")).await;
    assert_eq!(check(Some(&second["version"])).await["status"], "changed");
    let earlier = check(Some(&json!("watch-7-1000:3"))).await;
    assert_eq!((&earlier["status"], &earlier["reason"]), (&json!("resync"), &json!("restarted")));
    let invalid = json!({"path": folder, "since": "yesterday"});
    let refusal = target.post("/api/watch/check", invalid).await.refused(400, "VALIDATION_FAILED");
    assert_eq!(refusal["context"]["field"], "since");
    target.remove(&folder).await;
}
