//! Deleting, moving and copying files.

use serde_json::{Value, json};

use super::steps::text;
use crate::http::Target;
use crate::shape::assert_shape;

/// All entries below a directory, sorted.
async fn tree(target: &Target, folder: &str) -> String {
    text(&target.shell(&format!("cd {folder} && find . -mindepth 1 | sort | tr '\\n' ' '")).await["stdout"])
}

pub(super) async fn delete(target: Target) {
    let folder = target.folder().await;
    target
        .shell(&format!("cd {folder} && mkdir -p a/b keep && touch a/b/c keep/x && ln -s ../keep a/link"))
        .await;
    let at = |name: &str| format!("{folder}/{name}");
    target.post("/api/delete", json!({"path": at("a")})).await.refused(400, "IS_DIRECTORY");
    let answer = target.post("/api/delete", json!({"path": at("a"), "recursive": true})).await.ok();
    assert_shape(&answer, "success:flag path:text timestamp:time");
    assert_eq!(tree(&target, &folder).await, "./keep ./keep/x ");
    target.post("/api/delete", json!({"path": at("keep/x")})).await.ok();
    target.post("/api/delete", json!({"path": at("keep/x")})).await.refused(404, "FILE_NOT_FOUND");
    target.remove(&folder).await;
}

/// The root and the workspace cannot be deleted, under any name. A request that is not refused would still do nothing: it
/// is not recursive, and the destination exists.
pub(super) async fn directories_that_must_stay(target: Target) {
    let folder = target.folder().await;
    let workspace = text(&target.shell("pwd -P").await["stdout"]);
    let workspace = workspace.trim_end();
    let parent = workspace.rsplit_once('/').map_or("/", |(parent, _)| parent);
    for path in ["/", "//", "/proc/..", ".", workspace, &format!("{workspace}/."), parent] {
        if path.is_empty() {
            continue;
        }
        target.post("/api/delete", json!({"path": path})).await.refused(400, "VALIDATION_FAILED");
        let moved = json!({"sourcePath": path, "destinationPath": folder, "overwrite": false});
        target.post("/api/move", moved).await.refused(400, "VALIDATION_FAILED");
    }
    target.remove(&folder).await;
}

pub(super) async fn rename_move_and_copy(target: Target) {
    let folder = target.folder().await;
    target
        .shell(&format!(
            "cd {folder} && mkdir -p a/b full/x && printf 1 >one && printf 2 >two && touch a/b/c"
        ))
        .await;
    let at = |name: &str| format!("{folder}/{name}");
    let rename = |from: &str, to: &str| json!({"oldPath": at(from), "newPath": at(to)});
    let pair = |from: &str, to: &str, more: Value| {
        let mut body = json!({"sourcePath": at(from), "destinationPath": at(to)});
        if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
            body.extend(more);
        }
        body
    };
    let answer = target.post("/api/rename", rename("one", "first")).await.ok();
    assert_shape(&answer, "success:flag path:text newPath:text timestamp:time");
    assert_eq!(answer["newPath"], at("first"));
    let kept = json!({"overwrite": false});
    target.post("/api/move", pair("first", "two", kept.clone())).await.refused(409, "FILE_EXISTS");
    target.post("/api/copy", pair("first", "two", kept)).await.refused(409, "FILE_EXISTS");
    target.post("/api/move", pair("first", "two", json!({}))).await.ok();
    target.post("/api/copy", pair("two", "first", json!({}))).await.ok();
    target.post("/api/copy", pair("a", "copy", json!({}))).await.ok();
    target.post("/api/move", pair("a", "moved", json!({}))).await.ok();
    let expected = "./copy ./copy/b ./copy/b/c ./first ./full ./full/x ./moved ./moved/b ./moved/b/c ./two ";
    assert_eq!(tree(&target, &folder).await, expected);
    assert_eq!(target.shell(&format!("cat {folder}/first {folder}/two")).await["stdout"], "11");
    for route in ["/api/move", "/api/copy"] {
        target.post(route, pair("none", "x", json!({}))).await.refused(404, "FILE_NOT_FOUND");
        target.post(route, pair("copy", "full", json!({}))).await.refused(409, "DIRECTORY_NOT_EMPTY");
        target.post(route, pair("first", "full", json!({}))).await.refused(400, "IS_DIRECTORY");
        target.post(route, pair("copy", "copy/b/x", json!({}))).await.refused(400, "VALIDATION_FAILED");
        target.post(route, pair("first", "none/x", json!({}))).await.refused(404, "FILE_NOT_FOUND");
    }
    let missing = target.post("/api/rename", json!({"oldPath": at("first")})).await;
    assert_eq!(missing.refused(400, "VALIDATION_FAILED")["context"]["field"], "newPath");
    assert_eq!(tree(&target, &folder).await, expected);
    target.remove(&folder).await;
}

/// `/dev/shm` is another file system nearly everywhere.
pub(super) async fn move_across_file_systems(target: Target) {
    let folder = target.folder().await;
    let made =
        target.shell(&format!("mkdir {folder}/a && printf x >{folder}/a/f && mktemp -d -p /dev/shm")).await;
    let other = text(&made["stdout"]).trim_end().to_owned();
    let there = format!("{other}/a");
    let body = json!({"sourcePath": format!("{folder}/a"), "destinationPath": there});
    target.post("/api/move", body).await.ok();
    let state = target.shell(&format!("cat {there}/f; ls -A {folder} {other}")).await;
    assert_eq!(state["stdout"], format!("x{other}:\na\n\n{folder}:\n"), "{state}");
    target.remove(&folder).await;
    target.remove(&other).await;
}

pub(super) async fn directories_and_modes(target: Target) {
    let folder = target.folder().await;
    let at = |name: &str| format!("{folder}/{name}");
    let answer = target.post("/api/mkdir", json!({"path": at("a")})).await.ok();
    assert_shape(&answer, "success:flag path:text recursive:flag timestamp:time");
    target.post("/api/mkdir", json!({"path": at("a")})).await.refused(409, "FILE_EXISTS");
    target.post("/api/mkdir", json!({"path": at("a"), "recursive": true})).await.ok();
    target.post("/api/mkdir", json!({"path": at("b/c")})).await.refused(404, "FILE_NOT_FOUND");
    target.post("/api/mkdir", json!({"path": at("b/c"), "recursive": true})).await.ok();
    target.post("/api/chmod", json!({"path": at("b"), "mode": "1750"})).await.ok();
    assert_eq!(target.shell(&format!("stat -c %a {folder}/b")).await["stdout"], "1750\n");
    for mode in [json!("999"), json!(644), json!(""), Value::Null] {
        let refusal = target.post("/api/chmod", json!({"path": at("b"), "mode": mode})).await;
        assert_eq!(refusal.refused(400, "VALIDATION_FAILED")["context"]["field"], "mode");
    }
    target
        .post("/api/chmod", json!({"path": at("none"), "mode": "0644"}))
        .await
        .refused(404, "FILE_NOT_FOUND");
    target.remove(&folder).await;
}
