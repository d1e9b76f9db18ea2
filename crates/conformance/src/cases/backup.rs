//! Backups of folders.

use serde_json::{Value, json};

use super::steps::text;
use crate::http::{Response, Target};

async fn create(target: &Target, body: Value) -> Value {
    target.post("/api/backup/create", body).await.ok()
}

async fn restore(target: &Target, body: Value) -> Response {
    target.post("/api/backup/restore", body).await
}

async fn delete(target: &Target, id: &Value) -> Response {
    target.delete(format!("/api/backup/{}", text(id))).await
}

/// The backups of a folder.
async fn listed(target: &Target, folder: &str) -> Vec<Value> {
    let list = target.get("/api/backup/list").await.ok();
    let all = list["backups"].as_array().expect("a list");
    all.iter().filter(|backup| text(&backup["dir"]).starts_with(folder)).cloned().collect()
}

pub(super) async fn round_trip(target: Target) {
    let folder = target.folder().await;
    target.shell(&format!("mkdir -p {folder}/a/sub && cd {folder}/a && echo 1 >one && ln one sub/two && ln -s sub link && chmod 640 one")).await;
    let first = create(&target, json!({"dir": format!("{folder}/a"), "name": "the first"})).await;
    assert_eq!(
        (&first["entries"], &first["changedFiles"], &first["skippedFiles"]),
        (&5.into(), &0.into(), &0.into())
    );
    let sum = target
        .shell(&format!(
            "sha256sum <{} | cut -d' ' -f1; stat -c %s {}",
            text(&first["archivePath"]),
            text(&first["archivePath"])
        ))
        .await;
    assert_eq!(sum["stdout"], format!("{}\n{}\n", text(&first["sha256"]), first["sizeBytes"]));
    let second = create(&target, json!({"dir": format!("{folder}/a"), "ttl": 100})).await;
    let list = listed(&target, &folder).await;
    assert_eq!((&list[0]["id"], &list[1]["id"], list.len()), (&second["id"], &first["id"], 2));
    assert_eq!((&list[1]["name"], &list[1]["expiresAt"]), (&"the first".into(), &first["expiresAt"]));
    target.shell(&format!("cd {folder}/a && rm -r sub && echo changed >one && echo new >new")).await;
    // To the same folder, and to a new one.
    for dir in ["a", "b/c"] {
        let done = restore(&target, json!({"dir": format!("{folder}/{dir}"), "id": first["id"]})).await.ok();
        assert_eq!((&done["id"], &done["entries"], &done["atomic"]), (&first["id"], &5.into(), &true.into()));
        let found = target.shell(&format!("cd {folder}/{dir} && find . | sort | tr '\\n' ' '; cat sub/two; stat -c '%a %h' one; readlink link")).await;
        assert_eq!(found["stdout"], ". ./link ./one ./sub ./sub/two 1\n640 2\nsub\n");
    }
    for id in [&first["id"], &second["id"]] {
        delete(&target, id).await.ok();
        delete(&target, id).await.refused(404, "BACKUP_NOT_FOUND");
        restore(&target, json!({"dir": format!("{folder}/a"), "id": id}))
            .await
            .refused(404, "BACKUP_NOT_FOUND");
    }
    assert!(listed(&target, &folder).await.is_empty());
    assert_eq!(
        target.shell(&format!("ls -A {folder} {folder}/b | tr '\\n' ' '")).await["stdout"],
        format!("{folder}: a b  {folder}/b: c ")
    );
    target.remove(&folder).await;
}

pub(super) async fn rules(target: Target) {
    let folder = target.folder().await;
    target.shell(&format!("cd {folder} && mkdir -p from/.git from/node_modules from/dist && cd from && echo dist/ >.gitignore && touch a.log b node_modules/x dist/y")).await;
    for (rules, expected) in [
        (json!({}), "./.gitignore ./a.log ./b ./dist/y ./node_modules/x"),
        (json!({"gitignore": true, "excludes": ["node_modules"]}), "./.gitignore ./a.log ./b"),
        (
            json!({"excludes": ["*.log", "/dist"], "compression": {"format": "lz4", "threads": 8}}),
            "./.gitignore ./b ./node_modules/x",
        ),
    ] {
        let mut body = json!({"dir": format!("{folder}/from")});
        body.as_object_mut().expect("an object").extend(rules.as_object().expect("an object").clone());
        let id = create(&target, body).await["id"].clone();
        restore(&target, json!({"dir": format!("{folder}/to"), "id": id})).await.ok();
        let found =
            target.shell(&format!("cd {folder}/to && find . -type f | LC_ALL=C sort | tr '\\n' ' '")).await;
        assert_eq!(text(&found["stdout"]).trim_end(), expected);
        delete(&target, &id).await.ok();
    }
    target.remove(&folder).await;
}

/// As the client of the reference does it.
pub(super) async fn archive_at_a_path(target: Target) {
    let folder = target.folder().await;
    target.shell(&format!("mkdir {folder}/from && echo 1 >{folder}/from/file")).await;
    let session = target.make_session(json!({"cwd": folder})).await;
    let body = json!({
        "dir": "from", "archivePath": "archives/x.sqsh", "gitignore": false, "excludes": [],
        "compression": {"format": "lz4", "threads": 8}, "sessionId": session
    });
    let made = create(&target, body).await;
    assert_eq!((&made["archivePath"], &made["expiresAt"]), (&"archives/x.sqsh".into(), &Value::Null));
    assert_eq!(
        target.shell(&format!("stat -c '%s %a' {folder}/archives/x.sqsh")).await["stdout"],
        format!("{} 600\n", made["sizeBytes"])
    );
    assert!(listed(&target, &folder).await.is_empty());
    restore(&target, json!({"dir": "to", "archivePath": "archives/x.sqsh", "sessionId": session})).await.ok();
    assert_eq!(
        target.shell(&format!("cat {folder}/to/file; ls -A {folder}/archives")).await["stdout"],
        "1\nx.sqsh\n"
    );
    restore(&target, json!({"dir": "to", "archivePath": "none", "sessionId": session}))
        .await
        .refused(404, "BACKUP_NOT_FOUND");
    restore(&target, json!({"dir": "to", "archivePath": "from", "sessionId": session}))
        .await
        .refused(400, "IS_DIRECTORY");
    target.delete_session(&session).await;
    target.remove(&folder).await;
}

pub(super) async fn damaged_archives(target: Target) {
    let folder = target.folder().await;
    target.shell(&format!("cd {folder} && mkdir from to && seq 10000 >from/file && echo old >to/file")).await;
    create(&target, json!({"dir": format!("{folder}/from"), "archivePath": format!("{folder}/archive")}))
        .await;
    for damage in [
        "truncate -s -1 damaged",
        "truncate -s 100 damaged",
        "truncate -s 0 damaged",
        "printf x | dd of=damaged bs=1 seek=600 conv=notrunc 2>/dev/null",
        "echo text >damaged",
    ] {
        target.shell(&format!("cd {folder} && cp archive damaged && {damage}")).await;
        let body = json!({"dir": format!("{folder}/to"), "archivePath": format!("{folder}/damaged")});
        restore(&target, body).await.refused(400, "INVALID_ARCHIVE");
    }
    assert_eq!(
        target.shell(&format!("cd {folder} && ls -A | tr '\\n' ' '; cat to/file")).await["stdout"],
        "archive damaged from to old\n"
    );
    target.remove(&folder).await;
}

pub(super) async fn invalid_options(target: Target) {
    let folder = target.folder().await;
    let dir = folder.as_str();
    for body in [
        json!({}),
        json!({"dir": ""}),
        json!({"dir": dir, "ttl": 0}),
        json!({"dir": dir, "ttl": 4_000_000_000_u64}),
        json!({"dir": dir, "name": "x".repeat(257)}),
        json!({"dir": dir, "name": "a\nb"}),
        json!({"dir": dir, "excludes": ["{"]}),
        json!({"dir": dir, "excludes": vec!["x"; 1001]}),
        json!({"dir": dir, "compression": {"threads": 0}}),
        json!({"dir": dir, "archivePath": ""}),
    ] {
        target.post("/api/backup/create", body).await.refused(400, "INVALID_BACKUP_CONFIG");
    }
    for body in [
        json!({"dir": dir}),
        json!({"dir": dir, "id": "x", "archivePath": "y"}),
        json!({"dir": "", "id": "x"}),
    ] {
        restore(&target, body).await.refused(400, "INVALID_BACKUP_CONFIG");
    }
    for body in [
        json!({"dir": dir, "compression": {"format": "zip"}}),
        json!({"dir": dir, "ttl": "x"}),
        json!({"dir": dir, "other": 1}),
    ] {
        target.post("/api/backup/create", body).await.refused(400, "VALIDATION_FAILED");
    }
    target
        .post("/api/backup/create", json!({"dir": format!("{dir}/none")}))
        .await
        .refused(404, "FILE_NOT_FOUND");
    restore(&target, json!({"dir": dir, "id": "../../x"})).await.refused(404, "BACKUP_NOT_FOUND");
    target.delete("/api/backup/none").await.refused(404, "BACKUP_NOT_FOUND");
    target.remove(&folder).await;
}

pub(super) async fn expiry(target: Target) {
    let folder = target.folder().await;
    let kept = create(&target, json!({"dir": folder, "ttl": 1000})).await;
    let made = create(&target, json!({"dir": folder, "ttl": 1})).await;
    // The archive is removed, and the backup is not listed.
    target.shell(&format!("while test -e {}; do sleep 0.05; done", text(&made["archivePath"]))).await;
    assert_eq!(listed(&target, &folder).await.len(), 1);
    let refused = restore(&target, json!({"dir": format!("{folder}/x"), "id": made["id"]}))
        .await
        .refused(400, "BACKUP_EXPIRED");
    assert_eq!(refused["context"]["backupId"], made["id"]);
    delete(&target, &made["id"]).await.ok();
    delete(&target, &kept["id"]).await.ok();
    target.remove(&folder).await;
}

/// Backups and restores while files change: every archive is valid, and every restored file is a whole one.
pub(super) async fn concurrent_writers(target: Target) {
    let folder = target.folder().await;
    target
        .shell(&format!(
            "mkdir {folder}/from && cd {folder}/from && for i in $(seq 200); do seq 500 >$i; done"
        ))
        .await;
    let writer = format!(
        "cd {folder}/from && while :; do for i in $(seq 200); do seq 500 >tmp && mv tmp $i; rm -f x$i; ln $i x$i; done; done"
    );
    let writer = target.start(json!({"command": writer})).await;
    let ids: Vec<_> = futures_util::future::join_all(
        (0..3).map(|_| create(&target, json!({"dir": format!("{folder}/from")}))),
    )
    .await;
    let restored =
        ids.iter().map(|made| restore(&target, json!({"dir": format!("{folder}/to"), "id": made["id"]})));
    for done in futures_util::future::join_all(restored).await {
        done.ok();
    }
    target.kill(&writer).await;
    let check = format!(
        "cd {folder}/to && for i in $(seq 200); do test \"$(cksum <$i)\" = \"$(seq 500 | cksum)\" || echo $i; done; ls -A {folder}"
    );
    assert_eq!(target.shell(&check).await["stdout"], "from\nto\n");
    for made in ids {
        delete(&target, &made["id"]).await.ok();
    }
    target.remove(&folder).await;
}

/// Other servers that refuse, or do not exist.
pub(super) async fn transfers_that_fail(target: Target) {
    let folder = target.folder().await;
    let made = create(&target, json!({"dir": folder})).await;
    let upload = async |parts: Value| {
        target.post("/api/backup/upload-parts", json!({"id": made["id"], "parts": parts})).await
    };
    let part = |url: &str, size: u64| json!([{"partNumber": 1, "url": url, "offset": 0, "size": size}]);
    // A port that is never used.
    let closed = "http://127.0.0.1:1/x";
    let refused = upload(part(closed, 10)).await.refused(502, "BACKUP_TRANSFER_FAILED");
    assert!(!text(&refused["message"]).contains("127.0.0.1"), "the URL is a credential: {refused}");
    let here = format!("http://{}/nothing", target.authority());
    upload(part(&here, 10)).await.refused(502, "BACKUP_TRANSFER_FAILED");
    restore(&target, json!({"dir": format!("{folder}/x"), "url": here}))
        .await
        .refused(502, "BACKUP_TRANSFER_FAILED");
    for body in [part("ftp://x/y", 10), part("x", 10), part(closed, 1 << 40), json!([])] {
        upload(body).await.refused(400, "INVALID_BACKUP_CONFIG");
    }
    let both = json!({"id": made["id"], "archivePath": "x", "parts": part(closed, 1)});
    target.post("/api/backup/upload-parts", both).await.refused(400, "INVALID_BACKUP_CONFIG");
    let none = json!({"id": "none", "parts": part(closed, 1)});
    target.post("/api/backup/upload-parts", none).await.refused(404, "BACKUP_NOT_FOUND");
    delete(&target, &made["id"]).await.ok();
    assert_eq!(target.shell(&format!("ls -A {folder}")).await["stdout"], "");
    target.remove(&folder).await;
}
