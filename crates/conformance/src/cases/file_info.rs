//! Paths and metadata of files.

use serde_json::{Value, json};

use super::steps::{encode, fresh, text};
use crate::http::{Request, Target};
use crate::shape::assert_shape;

async fn file_exists(target: &Target, body: Value) -> bool {
    let answer = target.post("/api/exists", body).await.ok();
    assert_shape(&answer, "success:flag path:text exists:flag timestamp:time");
    answer["exists"] == true
}

pub(super) async fn exists(target: Target) {
    let folder = target.folder().await;
    target.shell(&format!("cd {folder} && touch file && ln -s nowhere link && ln -s file good")).await;
    for (name, expected) in
        [("file", true), ("none", false), ("link", false), ("good", true), (".", true), ("file/x", false)]
    {
        let found = file_exists(&target, json!({"path": format!("{folder}/{name}")})).await;
        assert_eq!(found, expected, "{name}");
    }
    target.remove(&folder).await;
}

pub(super) async fn metadata(target: Target) {
    let folder = target.folder().await;
    let make = format!(
        "cd {folder} && printf four >file && chmod 640 file && ln file other && ln -s file link && mkfifo fifo"
    );
    target.shell(&make).await;
    let stat =
        async |name: &str| target.post("/api/stat", json!({"path": format!("{folder}/{name}")})).await.ok();
    let file = stat("file").await;
    assert_shape(
        &file,
        "success:flag path:text type:text size:int mode:text permissions:text uid:int gid:int links:int \
         modifiedAt:time etag:text timestamp:time",
    );
    assert_eq!((&file["type"], &file["size"], &file["links"]), (&json!("file"), &json!(4), &json!(2)));
    assert_eq!((&file["mode"], &file["permissions"]), (&json!("0640"), &json!("rw-r-----")));
    let link = stat("link").await;
    assert_eq!((&link["type"], &link["target"]), (&json!("symlink"), &json!("file")));
    assert_eq!(stat(".").await["type"], "directory");
    assert_eq!(stat("fifo").await["type"], "other");
    let missing = json!({"path": format!("{folder}/none")});
    let refusal = target.post("/api/stat", missing.clone()).await.refused(404, "FILE_NOT_FOUND");
    assert_eq!(refusal["context"]["path"], missing["path"]);
    let below = json!({"path": format!("{folder}/file/x")});
    target.post("/api/stat", below).await.refused(400, "NOT_DIRECTORY");
    target.shell(&format!("ln -s loop {folder}/loop")).await;
    let looped = json!({"path": format!("{folder}/loop/x")});
    target.post("/api/stat", looped).await.refused(400, "TOO_MANY_LINKS");
    target.remove(&folder).await;
}

/// A relative path is relative to the working directory of the session, which a body, header or query names.
pub(super) async fn paths_of_sessions(target: Target) {
    let folder = target.folder().await;
    let session = target.make_session(json!({"cwd": folder})).await;
    let name = fresh("made");
    target.in_session(&session, &format!("mkdir deep && cd deep && touch {name}")).await;
    let body = json!({"path": name});
    assert!(file_exists(&target, json!({"path": name, "sessionId": session})).await);
    assert!(!file_exists(&target, body.clone()).await);
    let header = Request::post("/api/exists", &body).header("x-session-id", session.as_str());
    assert_eq!(target.send(header).await.ok()["exists"], true);
    let query = target.post(format!("/api/exists?session={session}"), body.clone()).await;
    assert_eq!(query.ok()["exists"], true);
    // A busy session delays nothing.
    let busy = target.start(json!({"command": "sleep 60", "sessionId": session})).await;
    assert!(file_exists(&target, json!({"path": name, "sessionId": session})).await);
    target.kill(&busy).await;
    let unknown = json!({"path": name, "sessionId": fresh("none")});
    target.post("/api/exists", unknown).await.refused(404, "SESSION_NOT_FOUND");
    target.delete_session(&session).await;
    target.remove(&folder).await;
}

/// `/workspace` means the workspace, in paths and for the working directory of commands.
pub(super) async fn workspace_alias(target: Target) {
    let name = fresh("alias");
    let workspace = text(&target.shell(&format!("touch {name}; pwd")).await["stdout"]);
    let has_folder = target.shell("[ -d /workspace ]").await["exitCode"] == 0;
    let expected = if has_folder { "/workspace\n".to_owned() } else { workspace };
    let there = target.run(json!({"command": "pwd", "cwd": "/workspace"})).await;
    assert_eq!(there["stdout"], expected.as_str());
    let session = target.make_session(json!({"cwd": "/workspace"})).await;
    assert_eq!(target.in_session(&session, "pwd").await["stdout"], expected.as_str());
    target.delete_session(&session).await;
    if !has_folder {
        assert!(file_exists(&target, json!({"path": format!("/workspace/{name}")})).await);
        assert!(file_exists(&target, json!({"path": "/workspace"})).await);
    }
    target.shell(&format!("rm {name}")).await;
}

pub(super) async fn invalid_paths(target: Target) {
    let refused = [
        (json!({}), "path"),
        (json!({"path": ""}), "path"),
        (json!({"path": "a\u{0}b"}), "path"),
        (json!({"path": "a", "pathBase64": "YQ=="}), "path"),
        (json!({"pathBase64": "!"}), "pathBase64"),
        (json!({"path": 1}), "path"),
        (json!({"path": "a", "paths": "b"}), "paths"),
    ];
    for (body, field) in refused {
        let refusal = target.post("/api/exists", body.clone()).await.refused(400, "VALIDATION_FAILED");
        assert_eq!(refusal["context"]["field"], field, "{body}: {refusal}");
    }
    let long = json!({"path": "x".repeat(5000)});
    target.post("/api/exists", long).await.refused(400, "NAME_TOO_LONG");
    let long_name = json!({"path": format!("/tmp/{}", "x".repeat(300))});
    target.post("/api/stat", long_name).await.refused(400, "NAME_TOO_LONG");
    let folder = target.folder().await;
    target.shell(&format!("cd {folder} && touch $'\\377\\n'")).await;
    let odd = [folder.as_bytes(), b"/\xff\n"].concat();
    assert!(file_exists(&target, json!({"pathBase64": encode(&odd)})).await);
    target.remove(&folder).await;
}
