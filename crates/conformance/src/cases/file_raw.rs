//! Files as raw bytes.

use super::steps::text;
use crate::http::{Request, Response, Target};

async fn put(target: &Target, path: &str, body: &[u8]) -> Response {
    target.send(Request::new("PUT", format!("/api/file?path={path}")).body(body)).await
}

pub(super) async fn bytes_are_exact(target: Target) {
    let folder = target.folder().await;
    let path = format!("{folder}/a/bytes");
    let bytes: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let saved = put(&target, &path, &bytes).await;
    let answer = saved.ok();
    assert_eq!((&answer["bytesWritten"], &answer["atomic"]), (&bytes.len().into(), &true.into()));
    assert_eq!(saved.header("etag"), answer["etag"].as_str());
    let got = target.get(format!("/api/file?path={path}")).await;
    assert_eq!((got.status(), got.body == bytes), (200, true));
    assert_eq!(got.header("etag"), saved.header("etag"));
    assert_eq!(got.header("content-type"), Some("application/octet-stream"));
    let head = target.send(Request::new("HEAD", format!("/api/file?path={path}"))).await;
    assert_eq!((head.status(), head.header("content-length")), (200, Some("12000000")));
    assert!(head.body.is_empty());
    put(&target, &path, b"").await.ok();
    assert_eq!(target.get(format!("/api/file?path={path}")).await.body, b"");
    let with_mode =
        target.send(Request::new("PUT", format!("/api/file?path={path}&mode=0640")).body("x")).await;
    with_mode.ok();
    assert_eq!(target.shell(&format!("stat -c %a {path}; ls -A {folder}/a")).await["stdout"], "640\nbytes\n");
    target.remove(&folder).await;
}

pub(super) async fn ranges(target: Target) {
    let folder = target.folder().await;
    let path = format!("/api/file?path={folder}/digits");
    put(&target, &format!("{folder}/digits"), b"0123456789").await.ok();
    let get = async |range: &str| target.send(Request::get(path.as_str()).header("range", range)).await;
    for (range, expected, shown) in [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=-99", "0123456789", "bytes 0-9/10"),
        ("bytes=8-99999999999999999999999999", "89", "bytes 8-9/10"),
        ("bytes=8-18446744073709551615", "89", "bytes 8-9/10"),
        ("Bytes=2-4,", "234", "bytes 2-4/10"),
    ] {
        let part = get(range).await;
        assert_eq!((part.status(), part.text().as_str()), (206, expected));
        assert_eq!(part.header("content-range"), Some(shown));
    }
    for range in ["bytes=10-", "bytes=-0", "bytes=99999999999999999999999999-"] {
        let refused = get(range).await;
        assert_eq!(refused.header("content-range"), Some("bytes */10"), "{range}");
        refused.refused(416, "RANGE_NOT_SATISFIABLE");
    }
    for range in ["bytes=0-1,4-5", "bytes=4-2", "bytes=+1-2", "lines=0-1", "bytes=-"] {
        let whole = get(range).await;
        assert_eq!((whole.status(), whole.text().as_str()), (200, "0123456789"), "{range}");
    }
    // Ranges are for GET only.
    let head = target.send(Request::new("HEAD", path.as_str()).header("range", "bytes=2-4")).await;
    assert_eq!((head.status(), head.header("content-length")), (200, Some("10")));
    let tag = get("bytes=0-0").await.header("etag").expect("a tag").to_owned();
    let same = Request::get(path.as_str()).header("range", "bytes=2-4").header("if-range", &tag);
    assert_eq!(target.send(same).await.text(), "234");
    let weak =
        Request::get(path.as_str()).header("range", "bytes=2-4").header("if-range", format!("W/{tag}"));
    assert_eq!(target.send(weak).await.status(), 200);
    let other = Request::get(path.as_str()).header("range", "bytes=2-4").header("if-range", "\"other\"");
    assert_eq!(target.send(other).await.status(), 200);
    target.remove(&folder).await;
}

pub(super) async fn conditions(target: Target) {
    let folder = target.folder().await;
    let path = format!("/api/file?path={folder}/file");
    let put = async |name: &str, value: &str, body: &str| {
        target.send(Request::new("PUT", path.as_str()).header(name, value).body(body)).await
    };
    put("if-match", "*", "x").await.refused(412, "PRECONDITION_FAILED");
    let first = text(&put("if-none-match", "*", "one").await.ok()["etag"]);
    put("if-none-match", "*", "two").await.refused(412, "PRECONDITION_FAILED");
    let second = text(&put("if-match", &first, "two").await.ok()["etag"]);
    put("if-match", &first, "three").await.refused(412, "PRECONDITION_FAILED");
    put("if-match", "none", "three").await.refused(400, "VALIDATION_FAILED");
    let get =
        async |name: &str, value: &str| target.send(Request::get(path.as_str()).header(name, value)).await;
    assert_eq!(get("if-none-match", &second).await.status(), 304);
    assert_eq!(get("if-none-match", &first).await.text(), "two");
    assert_eq!(get("if-match", &second).await.text(), "two");
    get("if-match", &first).await.refused(412, "PRECONDITION_FAILED");
    target.remove(&folder).await;
}

pub(super) async fn unusual_files(target: Target) {
    let folder = target.folder().await;
    target.shell(&format!("cd {folder} && mkfifo fifo && ln -s file link && printf old >file")).await;
    let get = async |path: &str| target.get(format!("/api/file?path={path}")).await;
    get(&format!("{folder}/fifo")).await.refused(400, "NOT_REGULAR_FILE");
    get("/dev/null").await.refused(400, "NOT_REGULAR_FILE");
    get(&folder).await.refused(400, "IS_DIRECTORY");
    get(&format!("{folder}/none")).await.refused(404, "FILE_NOT_FOUND");
    put(&target, &format!("{folder}/fifo"), b"x").await.refused(400, "NOT_REGULAR_FILE");
    put(&target, &folder, b"x").await.refused(400, "IS_DIRECTORY");
    // A file of the kernel has no size, but content.
    assert!(get("/proc/version").await.text().starts_with("Linux"));
    // Another one has the size of a page, and less content.
    let status = target.shell("cat /sys/kernel/mm/transparent_hugepage/enabled").await;
    if status["exitCode"] == 0 {
        let found = get("/sys/kernel/mm/transparent_hugepage/enabled").await;
        assert_eq!((found.status(), found.text().into()), (200, status["stdout"].clone()));
    }
    put(&target, &format!("{folder}/link"), b"new").await.ok();
    assert_eq!(
        target.shell(&format!("readlink {folder}/link; cat {folder}/file")).await["stdout"],
        "file\nnew"
    );
    target.get("/api/file").await.refused(400, "VALIDATION_FAILED");
    target.remove(&folder).await;
}

/// A file that is replaced while it is read is sent as it was; one that shrinks breaks off.
pub(super) async fn files_that_change_while_they_are_sent(target: Target) {
    let folder = target.folder().await;
    for (change, is_whole) in [("rm big; printf new >big", true), ("truncate -s 5M big", false)] {
        target.shell(&format!("cd {folder} && rm -f big; truncate -s 64M big")).await;
        let (head, mut body) = target.open(Request::get(format!("/api/file?path={folder}/big"))).await;
        assert_eq!(head.header("content-length"), Some("67108864"));
        target.shell(&format!("cd {folder} && {change}")).await;
        let mut size = 0;
        let is_complete = loop {
            match body.next().await {
                Ok(Some(piece)) => size += piece.len(),
                Ok(None) => break size == 64 << 20,
                Err(_) => break false,
            }
        };
        assert_eq!(is_complete, is_whole, "{change}: {size} bytes");
    }
    target.remove(&folder).await;
}
