//! Folders as archives.

use base64::Engine as _;

use super::steps::text;
use crate::http::{Request, Response, Target};

/// Prints everything that should survive.
const LIST: &str = "find . ! -name . -printf '%P %y %m %U:%G %T@ %l %n %s\\n' | LC_ALL=C sort; cat $(find . -type f ! -name '* *') | cksum";

/// Creates a folder with links, an empty folder, a FIFO, a hole and unusual names.
const MAKE: &str = "mkdir -p a/b empty && head -c 3000000 /dev/zero | tr '\\0' x >a/large && ln a/large a/b/same && ln -s ../nowhere a/link \
    && mkfifo fifo && truncate -s 5M hole && echo 1 >.hidden && echo 2 >\"$(printf 'a b\\nc')\" && chmod 4711 .hidden && touch -d @1.5 a/b && chmod 500 empty";

async fn put(target: &Target, query: &str, body: &[u8]) -> Response {
    target.send(Request::new("PUT", format!("/api/folder?{query}")).body(body)).await
}

/// The bytes that a shell command prints.
async fn bytes(target: &Target, script: &str) -> Vec<u8> {
    let printed = text(&target.shell(&format!("{script} | base64 -w0")).await["stdout"]);
    base64::engine::general_purpose::STANDARD.decode(printed).expect("base64")
}

pub(super) async fn round_trip(target: Target) {
    let folder = target.folder().await;
    target.shell(&format!("mkdir {folder}/from && cd {folder}/from && {MAKE}")).await;
    let expected = target.shell(&format!("cd {folder}/from && {LIST}")).await["stdout"].clone();
    for format in ["tar", "tar.zst"] {
        let got = target.get(format!("/api/folder?path={folder}/from&format={format}")).await;
        assert_eq!((got.status(), got.header("content-type")), (200, Some("application/octet-stream")));
        for query in [format!("path={folder}/x/y"), format!("path={folder}/x/y&format={format}")] {
            let put = put(&target, &query, &got.body).await.ok();
            assert_eq!((&put["atomic"], &put["entries"]), (&true.into(), &11.into()), "{put}");
            assert!(
                put["bytesWritten"].as_u64().is_some_and(|bytes| (3_000_000..4_000_000).contains(&bytes))
            );
            assert_eq!(target.shell(&format!("cd {folder}/x/y && {LIST}")).await["stdout"], expected);
        }
        // Other programs read it.
        let unpack = format!("rm -rf {folder}/t; mkdir {folder}/t && cd {folder}/t");
        if format == "tar" {
            target
                .send(Request::new("PUT", format!("/api/file?path={folder}/archive")).body(got.body))
                .await
                .ok();
            target.shell(&format!("{unpack} && tar -xpf ../archive && rm ../archive")).await;
            assert_eq!(target.shell(&format!("cd {folder}/t && {LIST}")).await["stdout"], expected);
        }
    }
    assert_eq!(
        target.shell(&format!("ls -A {folder} {folder}/x")).await["stdout"],
        format!("{folder}:\nfrom\nt\nx\n\n{folder}/x:\ny\n")
    );
    target.remove(&folder).await;
}

pub(super) async fn old_content_is_replaced(target: Target) {
    let folder = target.folder().await;
    let archive =
        bytes(&target, &format!("mkdir {folder}/new && cd {folder}/new && echo 1 >new && tar -c .")).await;
    target.shell(&format!("cd {folder} && mkdir -p old/sub && echo 2 >old/sub/file && ln -s old link")).await;
    put(&target, &format!("path={folder}/link"), &archive).await.ok();
    assert_eq!(
        target.shell(&format!("cd {folder} && find . | sort; readlink link")).await["stdout"],
        ".\n./link\n./new\n./new/new\n./old\n./old/new\nold\n"
    );
    // What is not complete changes nothing.
    for body in
        [&archive[..0], &archive[..600], b"hello", &[b"\x28\xb5\x2f\xfd".as_slice(), &[0; 100]].concat()]
    {
        put(&target, &format!("path={folder}/old"), body).await.refused(400, "INVALID_ARCHIVE");
    }
    put(&target, &format!("path={folder}/old&format=tar.zst"), &archive)
        .await
        .refused(400, "INVALID_ARCHIVE");
    assert_eq!(
        target.shell(&format!("ls -A {folder} {folder}/old | tr '\\n' ' '")).await["stdout"],
        format!("{folder}: link new old  {folder}/old: new ")
    );
    target.remove(&folder).await;
}

/// An archive cannot write elsewhere. It is refused whole.
pub(super) async fn hostile_archives(target: Target) {
    let folder = target.folder().await;
    target.shell(&format!("cd {folder} && mkdir old in && echo old >old/file && echo x >in/x && ln -s ../../outside in/link && mkdir outside")).await;
    for (what, script) in [
        ("parent", "tar -P --transform 's,^x,../x,' -c x"),
        ("absolute", "tar -P --transform 's,^x,/tmp/x,' -c x"),
        ("through a link", "tar -c link && tar -P --transform 's,^x,link/x,' -c x"),
        ("hard link", "ln -f x y && tar -P --transform 's,^x,../../outside/x,' -c x y"),
        ("twice", "tar -c x x --hard-dereference"),
    ] {
        // Concatenated archives have the end of the first one removed.
        let script = script.replace("&& tar", "| head -c 512 && tar");
        let archive = bytes(&target, &format!("cd {folder}/in && {{ {script}; }}")).await;
        let refused =
            put(&target, &format!("path={folder}/old"), &archive).await.refused(400, "INVALID_ARCHIVE");
        assert!(text(&refused["message"]).contains("entry"), "{what}: {refused}");
    }
    let left =
        target.shell(&format!("cd {folder} && ls -A . outside && cat old/file")).await["stdout"].clone();
    assert_eq!(left, ".:\nin\nold\noutside\n\noutside:\nold\n");
    target.remove(&folder).await;
}

pub(super) async fn what_is_refused(target: Target) {
    let folder = target.folder().await;
    target.shell(&format!("echo 1 >{folder}/file")).await;
    let archive = bytes(&target, &format!("cd {folder} && tar -c file")).await;
    let get = async |query: &str| target.get(format!("/api/folder?{query}")).await;
    get(&format!("path={folder}/none")).await.refused(404, "FILE_NOT_FOUND");
    get(&format!("path={folder}/file")).await.refused(400, "NOT_DIRECTORY");
    get(&format!("path={folder}&format=zip")).await.refused(400, "VALIDATION_FAILED");
    get("format=tar").await.refused(400, "VALIDATION_FAILED");
    put(&target, &format!("path={folder}/file"), &archive).await.refused(400, "NOT_DIRECTORY");
    put(&target, &format!("path={folder}/file/x"), &archive).await.refused(400, "NOT_DIRECTORY");
    put(&target, "path=/", &archive).await.refused(400, "VALIDATION_FAILED");
    target.remove(&folder).await;
}

/// A client that disconnects in the middle leaves nothing behind.
pub(super) async fn disconnect(target: Target) {
    let folder = target.folder().await;
    target.shell(&format!("mkdir {folder}/old && echo old >{folder}/old/file && mkdir {folder}/in && head -c 2000000 /dev/zero >{folder}/in/large")).await;
    let archive = bytes(&target, &format!("cd {folder}/in && tar -c .")).await;
    let mut connection = target.connect().await;
    let token = target.token().map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "PUT /api/folder?path={folder}/old HTTP/1.1\r\nhost: {}\r\n{token}content-length: {}\r\n\r\n",
        target.authority(),
        archive.len()
    );
    connection.send_bytes(head.as_bytes()).await.expect("sent");
    connection.send_bytes(&archive[..1_000_000]).await.expect("sent");
    target.shell(&format!("until ls -A {folder} | grep -q sandcrab; do sleep 0.01; done")).await;
    drop(connection);
    target.shell(&format!("while ls -A {folder} | grep -q sandcrab; do sleep 0.01; done")).await;
    assert_eq!(target.shell(&format!("cat {folder}/old/file")).await["stdout"], "old\n");
    // A reader that leaves ends the packing: there is room for the next ones.
    target
        .shell(&format!(
            "truncate -s 100M {folder}/in/hole && cat {folder}/in/large {folder}/in/large >{folder}/in/more"
        ))
        .await;
    for _ in 0..20 {
        let path = format!("/api/folder?path={folder}/in");
        loop {
            let (head, mut body) = target.open(Request::get(path.as_str())).await;
            if head.status == 200 {
                body.next().await.expect("a piece");
                break;
            }
            // The earlier one has not ended yet.
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
    target.remove(&folder).await;
}
