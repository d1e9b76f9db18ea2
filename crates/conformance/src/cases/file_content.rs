//! Reading, writing and listing files.

use serde_json::{Value, json};

use super::steps::{decode, encode, text};
use crate::http::{Request, Target};
use crate::shape::assert_shape;

async fn read(target: &Target, path: &str) -> Value {
    target.post("/api/read", json!({"path": path})).await.ok()
}

async fn write(target: &Target, body: Value) -> Value {
    let answer = target.post("/api/write", body).await.ok();
    assert_shape(&answer, "success:flag path:text bytesWritten:int atomic:flag etag:text timestamp:time");
    answer
}

pub(super) async fn text_and_bytes(target: Target) {
    let folder = target.folder().await;
    let path = format!("{folder}/a/b/text.txt");
    let saved = write(&target, json!({"path": path, "content": "h\u{e9}llo\n"})).await;
    assert_eq!((&saved["bytesWritten"], &saved["atomic"]), (&json!(7), &json!(true)));
    let answer = read(&target, &path).await;
    assert_shape(
        &answer,
        "success:flag path:text content:text encoding:text isBinary:flag mimeType:text size:int timestamp:time",
    );
    assert_eq!((&answer["content"], &answer["encoding"]), (&json!("h\u{e9}llo\n"), &json!("utf-8")));
    assert_eq!((&answer["mimeType"], &answer["isBinary"]), (&json!("text/plain"), &json!(false)));
    let bytes = b"\x89PNG\r\n\x1a\n\0\xff";
    let path = format!("{folder}/image");
    write(&target, json!({"path": path, "content": encode(bytes), "encoding": "base64"})).await;
    let answer = read(&target, &path).await;
    assert_eq!((&answer["encoding"], &answer["isBinary"]), (&json!("base64"), &json!(true)));
    assert_eq!((decode(&answer["content"]), &answer["mimeType"]), (bytes.to_vec(), &json!("image/png")));
    let forced = target.post("/api/read", json!({"path": path, "encoding": "utf8"})).await.ok();
    assert_eq!(forced["invalidUtf8"], true);
    let start =
        target.post("/api/read", json!({"path": path, "maxBytes": 4, "encoding": "base64"})).await.ok();
    assert_eq!((decode(&start["content"]), &start["truncated"]), (bytes[..4].to_vec(), &json!(true)));
    assert_eq!(start["size"], 10);
    let wrong = json!({"path": path, "content": "?", "encoding": "base64"});
    target.post("/api/write", wrong).await.refused(400, "VALIDATION_FAILED");
    target.remove(&folder).await;
}

pub(super) async fn mode_link_and_append(target: Target) {
    let folder = target.folder().await;
    target.shell(&format!("cd {folder} && printf old >file && chmod 750 file && ln -s file link")).await;
    let link = format!("{folder}/link");
    write(&target, json!({"path": link, "content": "new"})).await;
    let state = format!("cd {folder} && stat -c %a file && readlink link && cat file && ls -A | wc -l");
    assert_eq!(target.shell(&state).await["stdout"], "750\nfile\nnew2\n");
    let appended =
        write(&target, json!({"path": link, "content": "er", "append": true, "mode": "0640"})).await;
    assert_eq!(appended["atomic"], false);
    assert_eq!(target.shell(&state).await["stdout"], "640\nfile\nnewer2\n");
    target.remove(&folder).await;
}

pub(super) async fn what_cannot_be_read_or_written(target: Target) {
    let folder = target.folder().await;
    let at = |name: &str| json!({"path": format!("{folder}/{name}")});
    target.shell(&format!("cd {folder} && mkfifo fifo && ln -s loop loop && touch file")).await;
    for route in ["/api/read", "/api/read/stream", "/api/write"] {
        target.post(route, at("fifo")).await.refused(400, "NOT_REGULAR_FILE");
        target.post(route, at(".")).await.refused(400, "IS_DIRECTORY");
        target.post(route, at("loop")).await.refused(400, "TOO_MANY_LINKS");
        target.post(route, at("file/x")).await.refused(400, "NOT_DIRECTORY");
    }
    target.post("/api/read", at("none")).await.refused(404, "FILE_NOT_FOUND");
    target.post("/api/read/stream", at("none")).await.refused(404, "FILE_NOT_FOUND");
    // A program that runs cannot be appended to.
    let program = format!("cp /bin/sleep {folder}/sleep && exec {folder}/sleep 60");
    let running = target.start(json!({"command": program})).await;
    let busy = format!("/api/process/{running}");
    target.until(&busy, |answer| answer["process"]["status"] == "running").await;
    let path = format!("{folder}/sleep");
    target.shell(&format!("until grep -qs {path} /proc/[0-9]*/maps; do sleep 0.01; done")).await;
    let append = json!({"path": path, "content": "x", "append": true});
    target.post("/api/write", append).await.refused(409, "RESOURCE_BUSY");
    target.kill(&running).await;
    target.remove(&folder).await;
}

pub(super) async fn too_large_to_read(target: Target) {
    let folder = target.folder().await;
    target.shell(&format!("truncate -s 33554433 {folder}/large")).await;
    let large = json!({"path": format!("{folder}/large")});
    let refusal = target.post("/api/read", large.clone()).await.refused(413, "FILE_TOO_LARGE");
    assert!(refusal["suggestion"].as_str().unwrap_or_default().contains("/api/file"), "{refusal}");
    let mut events = target.stream(Request::post("/api/read/stream", &large)).await;
    let mut size = 0;
    let last = loop {
        let event = events.next().await.data;
        match event["type"].as_str() {
            Some("metadata") => {}
            Some("chunk") => size += decode(&event["data"]).len(),
            _ => break event,
        }
    };
    assert_eq!(
        (size, &last["type"], &last["bytesRead"]),
        (33_554_433, &json!("complete"), &json!(33_554_433))
    );
    target.remove(&folder).await;
}

pub(super) async fn stream_of_text(target: Target) {
    let folder = target.folder().await;
    let content = "a\u{20ac}".repeat(50_000);
    let path = format!("{folder}/text.md");
    write(&target, json!({"path": path, "content": content})).await;
    let mut events = target.stream(Request::post("/api/read/stream", &json!({"path": path}))).await;
    let first = events.next().await.data;
    assert_shape(&first, "type:text mimeType:text size:int isBinary:flag encoding:text timestamp:time");
    assert_eq!((&first["encoding"], &first["size"]), (&json!("utf-8"), &json!(200_000)));
    let mut whole = String::new();
    let last = loop {
        let event = events.next().await.data;
        match event["type"].as_str() {
            Some("chunk") => whole.push_str(&text(&event["data"])),
            _ => break event,
        }
    };
    assert_eq!((whole, &last["type"]), (content, &json!("complete")));
    target.remove(&folder).await;
}

pub(super) async fn lists(target: Target) {
    let folder = target.folder().await;
    target
        .shell(&format!(
            "cd {folder} && mkdir -p b/c && touch a .h b/c/d $'b/\\377' && ln -s b l && chmod 640 a"
        ))
        .await;
    let list = async |options: Value| {
        target.post("/api/list-files", json!({"path": folder, "options": options})).await.ok()
    };
    let names = |answer: &Value| -> Vec<String> {
        let files = answer["files"].as_array().expect("files");
        assert_eq!(answer["count"], files.len());
        files.iter().map(|file| text(&file["relativePath"])).collect()
    };
    let flat = list(json!({})).await;
    assert_eq!(names(&flat), ["a", "b", "l"]);
    let file = &flat["files"][0];
    assert_shape(
        file,
        "name:text absolutePath:text relativePath:text type:text size:int modifiedAt:time mode:text permissions:object",
    );
    assert_eq!((&file["mode"], &file["permissions"]["executable"]), (&json!("rw-r-----"), &json!(false)));
    assert_eq!(file["absolutePath"], format!("{folder}/a"));
    assert_eq!(names(&list(json!({"includeHidden": true})).await), [".h", "a", "b", "l"]);
    let all = list(json!({"recursive": true})).await;
    assert_eq!(names(&all), ["a", "b", "b/c", "b/c/d", "b/\u{fffd}", "l"]);
    // A name that is not UTF-8 can be used.
    let odd = &all["files"][4];
    assert_eq!(decode(&odd["nameBase64"]), b"\xff");
    target.post("/api/read", json!({"pathBase64": odd["pathBase64"]})).await.ok();
    let mut pages = Vec::new();
    let mut after = Value::Null;
    loop {
        let page = list(json!({"recursive": true, "limit": 2, "after": after})).await;
        pages.extend(names(&page));
        after = page["next"].clone();
        if after.is_null() {
            break;
        }
    }
    assert_eq!(pages, names(&all));
    target
        .post("/api/list-files", json!({"path": format!("{folder}/a")}))
        .await
        .refused(400, "NOT_DIRECTORY");
    for (field, value) in [("limit", json!(0)), ("limit", json!(100_001)), ("after", json!("?"))] {
        let body = json!({"path": folder, "options": {field: value}});
        target.post("/api/list-files", body).await.refused(400, "VALIDATION_FAILED");
    }
    target.remove(&folder).await;
}
