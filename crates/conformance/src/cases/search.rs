//! Search and replace in files, and names of files.

use serde_json::{Value, json};

use super::steps::{encode, fresh, text};
use crate::http::{Request, Target};
use crate::shape::assert_shape;

/// A directory with a few files.
async fn tree(target: &Target) -> String {
    let folder = target.folder().await;
    let make = format!(
        "cd {folder} && mkdir -p src/deep .git target && printf 'target\\n' >.gitignore && \
         printf 'one\\nfn needle() {{}}\\nNeedle\\n' >a.rs && printf 'x needles\\nneedle' >src/deep/b.txt && \
         printf 'needle\\n' >.hidden && printf 'needle\\n' >target/out && printf 'needle\\0\\n' >binary && \
         ln -s a.rs link && mkfifo fifo"
    );
    assert_eq!(target.shell(&make).await["exitCode"], 0);
    folder
}

/// The matches as `name:line:column`.
fn places(folder: &str, answer: &Value) -> Vec<String> {
    let place = |found: &Value| {
        let path = text(&found["path"]);
        let name = path.strip_prefix(folder).unwrap_or(&path).trim_start_matches('/').to_owned();
        format!("{name}:{}:{}", found["line"], found["column"])
    };
    answer["matches"].as_array().expect("a list").iter().map(place).collect()
}

pub(super) async fn lines_that_match(target: Target) {
    let folder = tree(&target).await;
    let search = async |mut body: Value| {
        body["path"] = folder.as_str().into();
        target.post("/api/search", body).await.ok()
    };
    let answer = search(json!({"pattern": "needle"})).await;
    assert_shape(&answer, "success:flag matches:list filesSearched:int truncated:flag timestamp:time");
    assert_shape(&answer["matches"][0], "path:text line:int column:int text:text");
    assert_eq!(places(&folder, &answer), ["a.rs:2:4", "src/deep/b.txt:1:3", "src/deep/b.txt:2:1"]);
    assert_eq!(
        (&answer["matches"][0]["text"], &answer["filesSearched"]),
        (&json!("fn needle() {}"), &json!(3))
    );
    for (body, expected) in [
        (json!({"pattern": "needle", "word": true, "caseSensitive": false}), 3),
        (json!({"pattern": "^fn \\w+\\(", "regex": true}), 1),
        (json!({"pattern": "^fn"}), 0),
        (json!({"pattern": "needle", "glob": ["*.rs"]}), 1),
        (json!({"pattern": "needle", "glob": ["!*.rs"]}), 2),
        (json!({"pattern": "needle", "hidden": true}), 4),
        (json!({"pattern": "needle", "ignoreFiles": false}), 4),
    ] {
        let answer = search(body.clone()).await;
        assert_eq!(answer["matches"].as_array().map(Vec::len), Some(expected), "{body}: {answer}");
    }
    let answer = search(json!({"pattern": "needle", "maxMatches": 1})).await;
    assert_eq!((places(&folder, &answer).len(), &answer["truncated"]), (1, &json!(true)));
    let answer = search(json!({"pattern": "fn", "contextLines": 1})).await;
    assert_eq!(
        (&answer["matches"][0]["before"], &answer["matches"][0]["after"]),
        (&json!(["one"]), &json!(["Needle"]))
    );
    // A file as the path, also through a link.
    for name in ["a.rs", "link"] {
        let body = json!({"path": format!("{folder}/{name}"), "pattern": "needle"});
        assert_eq!(places(&folder, &target.post("/api/search", body).await.ok()), ["a.rs:2:4"]);
    }
    target.remove(&folder).await;
}

pub(super) async fn streamed_matches(target: Target) {
    let folder = tree(&target).await;
    let body = json!({"path": folder, "pattern": "needle"});
    let request = Request::post("/api/search", &body).header("accept", "text/event-stream");
    let events = target.stream(request).await.rest().await;
    let (last, matches) = events.split_last().expect("events");
    assert!(matches.iter().all(|event| event.kind() == "match"), "{events:?}");
    assert_shape(&matches[0].data, "type:text path:text line:int column:int text:text timestamp:time");
    assert_shape(
        &last.data,
        "type:text matches:int filesSearched:int unreadable:int truncated:flag timestamp:time",
    );
    assert_eq!((last.kind(), &last.data["matches"], matches.len()), ("complete", &json!(3), 3));
    // An invalid request is an error, not an event.
    let body = json!({"path": folder, "pattern": "(", "regex": true});
    let request = Request::post("/api/search", &body).header("accept", "text/event-stream");
    target.send(request).await.refused(400, "VALIDATION_FAILED");
    // A client that goes away ends a search that would take long.
    let body = json!({"path": "/", "pattern": fresh("nowhere"), "hidden": true});
    let request = Request::post("/api/search", &body).header("accept", "text/event-stream");
    for _ in 0..8 {
        drop(target.stream(request.clone()).await);
    }
    target.post("/api/search", json!({"path": folder, "pattern": "needle"})).await.ok();
    target.remove(&folder).await;
}

pub(super) async fn invalid_searches(target: Target) {
    let folder = target.folder().await;
    let with = |mut body: Value| {
        body["path"] = folder.as_str().into();
        body
    };
    for (body, field) in [
        (json!({"path": folder}), "pattern"),
        (with(json!({"pattern": ""})), "pattern"),
        (with(json!({"pattern": "(", "regex": true})), "pattern"),
        (with(json!({"pattern": "a{999}{999}{999}", "regex": true})), "pattern"),
        (with(json!({"pattern": "x".repeat(20_000)})), "pattern"),
        (with(json!({"pattern": "x", "glob": ["["]})), "glob"),
        (with(json!({"pattern": "x", "glob": vec!["a"; 101]})), "glob"),
        (with(json!({"pattern": "x", "contextLines": 51})), "contextLines"),
        (with(json!({"pattern": "x", "maxMatches": 0})), "maxMatches"),
        (with(json!({"pattern": "x", "patern": "y"})), "patern"),
        (json!({"pattern": "x"}), "path"),
    ] {
        let refusal = target.post("/api/search", body.clone()).await.refused(400, "VALIDATION_FAILED");
        let named = text(&refusal["context"]["field"]);
        assert!(named == field || named == "body", "{body}: {refusal}");
    }
    for (path, status, code) in
        [(format!("{folder}/none"), 404, "FILE_NOT_FOUND"), ("/dev/null".to_owned(), 400, "NOT_REGULAR_FILE")]
    {
        target.post("/api/search", json!({"path": path, "pattern": "x"})).await.refused(status, code);
        target.post("/api/find", json!({"path": path})).await.refused(status, code);
    }
    target.post("/api/find", with(json!({"limit": 0}))).await.refused(400, "VALIDATION_FAILED");
    target.post("/api/find", with(json!({"type": "socket"}))).await.refused(400, "VALIDATION_FAILED");
    target.remove(&folder).await;
}

pub(super) async fn names(target: Target) {
    let folder = tree(&target).await;
    let find = async |mut body: Value| {
        body["path"] = folder.as_str().into();
        let answer = target.post("/api/find", body).await.ok();
        assert_shape(&answer, "success:flag paths:list exactPaths?:list truncated:flag timestamp:time");
        let paths = answer["paths"].as_array().cloned().unwrap_or_default();
        let name =
            |path: &Value| text(path).strip_prefix(&format!("{folder}/")).unwrap_or_default().to_owned();
        (paths.iter().map(name).collect::<Vec<_>>(), answer)
    };
    let (all, _) = find(json!({})).await;
    assert_eq!(all, ["a.rs", "binary", "fifo", "link", "src", "src/deep", "src/deep/b.txt"]);
    assert_eq!(find(json!({"glob": ["*.txt", "*.rs"]})).await.0, ["a.rs", "src/deep/b.txt"]);
    assert_eq!(find(json!({"type": "directory"})).await.0, ["src", "src/deep"]);
    assert_eq!(find(json!({"type": "symlink"})).await.0, ["link"]);
    assert_eq!(find(json!({"type": "other"})).await.0, ["fifo"]);
    assert_eq!(
        find(json!({"hidden": true, "ignoreFiles": false, "glob": ["out", ".hidden"]})).await.0,
        [".hidden", "target/out"]
    );
    let (two, answer) = find(json!({"limit": 2})).await;
    assert_eq!((two.len(), &answer["truncated"]), (2, &json!(true)));
    target.shell(&format!("cd {folder} && touch $'odd\\377\\n' && echo needle >$'odd\\377\\n'")).await;
    let (_, answer) = find(json!({"glob": ["odd*"]})).await;
    let exact = encode(&[folder.as_bytes(), b"/odd\xff\n"].concat());
    assert_eq!(answer["exactPaths"], json!([{"index": 0, "pathBase64": exact}]));
    let body = json!({"pathBase64": exact, "pattern": "needle"});
    assert_eq!(target.post("/api/search", body).await.ok()["matches"][0]["pathBase64"], exact.as_str());
    target.post("/api/find", json!({"path": format!("{folder}/a.rs")})).await.refused(400, "NOT_DIRECTORY");
    target.remove(&folder).await;
}

pub(super) async fn replacements(target: Target) {
    let folder = tree(&target).await;
    let replace = async |mut body: Value| {
        body["path"] = folder.as_str().into();
        target.post("/api/replace", body).await.ok()
    };
    let read = async |name: &str| text(&target.shell(&format!("cat {folder}/{name}")).await["stdout"]);
    let answer = replace(json!({"pattern": "needle", "replacement": "pin", "dryRun": true})).await;
    assert_shape(&answer, "success:flag files:list replacements:int dryRun:flag timestamp:time");
    assert_shape(&answer["files"][0], "path:text replacements:int diff:text");
    assert!(
        text(&answer["files"][0]["diff"]).ends_with("-fn needle() {}\n+fn pin() {}\n Needle\n"),
        "{answer}"
    );
    assert_eq!(read("a.rs").await, "one\nfn needle() {}\nNeedle\n");
    target.shell(&format!("chmod 751 {folder}/a.rs")).await;
    let answer = replace(json!({"pattern": "fn (\\w+)", "replacement": "$1 fn", "regex": true})).await;
    assert_eq!((&answer["replacements"], &answer["success"]), (&json!(1), &json!(true)));
    assert_eq!(read("a.rs").await, "one\nneedle fn() {}\nNeedle\n");
    assert_eq!(target.shell(&format!("stat -c %a {folder}/a.rs")).await["stdout"], "751\n");
    let answer = replace(json!({"pattern": "needle", "replacement": "$1", "glob": ["*.txt"]})).await;
    assert_eq!((&answer["replacements"], answer["files"].as_array().map(Vec::len)), (&json!(2), Some(1)));
    assert_eq!(read("src/deep/b.txt").await, "x $1s\n$1");
    // A file that is too large is named.
    target.shell(&format!("head -c 5000000 /dev/zero | tr '\\0' x >{folder}/large")).await;
    let answer = replace(json!({"pattern": "Needle", "replacement": "pin"})).await;
    assert_eq!(
        (&answer["success"], &answer["skipped"][0]["code"]),
        (&json!(false), &json!("FILE_TOO_LARGE"))
    );
    assert_shape(&answer["skipped"][0], "path:text code:text message:text");
    for (body, field) in [
        (json!({"path": folder, "pattern": "("  , "regex": true, "replacement": ""}), "pattern"),
        (json!({"path": folder, "pattern": "x", "replacement": "y".repeat(300_000)}), "replacement"),
    ] {
        let refusal = target.post("/api/replace", body).await.refused(400, "VALIDATION_FAILED");
        assert_eq!(refusal["context"]["field"], field, "{refusal}");
    }
    let missing = json!({"path": format!("{folder}/none"), "pattern": "x", "replacement": "y"});
    target.post("/api/replace", missing).await.refused(404, "FILE_NOT_FOUND");
    target.remove(&folder).await;
}
