//! Git with real servers: `git http-backend` with and without a password, and `git daemon`.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandcrab_conformance::cases::steps::text;
use sandcrab_conformance::cases::test_rng::TestRng;
use sandcrab_conformance::http::{Request, TEST_TIMEOUT};
use serde_json::{Value, json};

use crate::support::{Disk, ServerProcess};

const USER: &str = "agent";
const PASSWORD: &str = "pa:ss-2f8b1c";

/// Repositories below a folder, and a server for them.
struct GitServer {
    child: Child,
    port: u16,
}

impl Drop for GitServer {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn http_server(folder: &Path, password: Option<&str>, moved_to: u16) -> GitServer {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/git_server.py");
    let mut child = Command::new("python3")
        .arg(script)
        .arg(folder)
        .args(password.map(|password| format!("{USER}:{password}")))
        .env("MOVED_TO", moved_to.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    GitServer { port: line.trim().parse().unwrap(), child }
}

/// Runs a program that must succeed.
fn shell(script: &str, folder: &Path) {
    let done = Command::new("bash").args(["-euc", script]).current_dir(folder).status().unwrap();
    assert!(done.success(), "{script}");
}

const IDENTITY: &str =
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; ";

/// A bare repository `repo.git` with three commits, a branch and a tag.
fn repositories(folder: &Path) {
    let script = "git init -q -b main work; cd work; for n in 1 2 3; do echo $n > file; git add file; git commit -qm \"commit $n\"; done; \
        git branch other HEAD~1; git tag v1 HEAD~2; cd ..; git clone -q --bare work repo.git; \
        git -C repo.git config http.receivepack true";
    shell(&format!("{IDENTITY}{script}"), folder);
}

struct Scene {
    server: ServerProcess,
    remotes: PathBuf,
}

async fn scene() -> Scene {
    let server = ServerProcess::start(&[]).await;
    let remotes = server.folder().join("remotes");
    fs::create_dir(&remotes).unwrap();
    repositories(&remotes);
    Scene { server, remotes }
}

impl Scene {
    fn path(&self, name: &str) -> String {
        self.server.folder().join(name).display().to_string()
    }

    /// No temporary directory of a clone exists.
    fn assert_nothing_left(&self) {
        let names: Vec<_> =
            fs::read_dir(self.server.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().all(|name| !name.to_string_lossy().starts_with(".sandcrab-")), "{names:?}");
    }

    async fn checkout(&self, body: Value) -> sandcrab_conformance::http::Response {
        self.server.target.post("/api/git/checkout", body).await
    }

    async fn git(&self, operation: &str, body: Value) -> Value {
        self.server.target.post(format!("/api/git/{operation}"), body).await.ok()
    }
}

#[tokio::test]
async fn clone_over_http() {
    let scene = scene().await;
    let remote = http_server(&scene.remotes, None, 0);
    let url = format!("http://127.0.0.1:{}/repo.git", remote.port);
    let target = scene.path("a/b/clone");
    let cloned = scene.checkout(json!({"repoUrl": url, "targetDir": target})).await.ok();
    assert_eq!(
        (&cloned["branch"], &cloned["targetDir"], &cloned["repoUrl"]),
        (&json!("main"), &json!(target), &json!(url))
    );
    assert_eq!(fs::read_to_string(Path::new(&target).join("file")).unwrap(), "3\n");
    let log = scene.git("log", json!({"path": target, "limit": 2})).await;
    assert_eq!(log["commits"].as_array().unwrap().len(), 2);
    assert_eq!(log["commits"][0]["subject"], "commit 3");

    // A branch and a tag; only one commit.
    let target = scene.path("other");
    let cloned = scene
        .checkout(json!({"repoUrl": url, "targetDir": target, "branch": "other", "depth": 1}))
        .await
        .ok();
    assert_eq!(cloned["branch"], "other");
    assert_eq!(scene.git("log", json!({"path": target})).await["commits"].as_array().unwrap().len(), 1);
    let target = scene.path("tag");
    assert_eq!(
        scene.checkout(json!({"repoUrl": url, "targetDir": target, "branch": "v1"})).await.ok()["branch"],
        "v1"
    );

    // The same directory again, and a file in its place.
    scene.checkout(json!({"repoUrl": url, "targetDir": target})).await.refused(409, "DIRECTORY_NOT_EMPTY");
    fs::write(scene.path("taken"), "x").unwrap();
    scene
        .checkout(json!({"repoUrl": url, "targetDir": scene.path("taken")}))
        .await
        .refused(409, "FILE_EXISTS");
    scene.assert_nothing_left();
    scene.server.stop().await;
}

#[tokio::test]
async fn failures_of_a_clone() {
    let scene = scene().await;
    let remote = http_server(&scene.remotes, Some(PASSWORD), 0);
    let host = format!("http://127.0.0.1:{}", remote.port);
    let (url, target) = (format!("{host}/repo.git"), scene.path("new/clone"));
    let credentials = json!({"username": USER, "password": PASSWORD});
    let wrong = json!({"username": USER, "password": "wrong"});
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (body, status, code) in [
        (json!({"repoUrl": url}), 401, "GIT_AUTH_FAILED"),
        (json!({"repoUrl": url, "credentials": wrong}), 401, "GIT_AUTH_FAILED"),
        (
            json!({"repoUrl": format!("{host}/none.git"), "credentials": credentials}),
            404,
            "GIT_REPOSITORY_NOT_FOUND",
        ),
        (json!({"repoUrl": scene.path("none")}), 404, "GIT_REPOSITORY_NOT_FOUND"),
        (json!({"repoUrl": url, "credentials": credentials, "branch": "none"}), 404, "GIT_BRANCH_NOT_FOUND"),
        (json!({"repoUrl": format!("http://{closed}/x.git")}), 502, "GIT_NETWORK_ERROR"),
        (json!({"repoUrl": format!("git://{closed}/x.git")}), 502, "GIT_NETWORK_ERROR"),
        (json!({"repoUrl": format!("{host}/slow/x.git"), "timeoutMs": 500}), 502, "GIT_NETWORK_ERROR"),
        (json!({"repoUrl": "--upload-pack=touch /tmp/x"}), 400, "INVALID_GIT_URL"),
        (json!({"repoUrl": "ext::sh -c true"}), 400, "INVALID_GIT_URL"),
        (json!({"repoUrl": url, "branch": "--upload-pack=x"}), 400, "VALIDATION_FAILED"),
        (json!({"repoUrl": url, "depth": 0}), 400, "VALIDATION_FAILED"),
        (json!({"repoUrl": url, "timeoutMs": 0}), 400, "VALIDATION_FAILED"),
        (
            json!({"repoUrl": scene.path("remotes/repo.git"), "credentials": credentials}),
            400,
            "VALIDATION_FAILED",
        ),
        (
            json!({"repoUrl": url, "credentials": {"username": "a\nb", "password": ""}}),
            400,
            "VALIDATION_FAILED",
        ),
    ] {
        let mut body = body;
        body["targetDir"] = target.clone().into();
        let error = scene.checkout(body.clone()).await.refused(status, code);
        assert!(!error.to_string().contains(PASSWORD), "{error}");
        assert!(!Path::new(&target).exists() && !Path::new(&scene.path("new")).exists(), "{body}");
        scene.assert_nothing_left();
    }
    scene.server.stop().await;
}

/// Searches for the password in every file below a folder.
fn files_with(folder: &Path, secret: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files_with(&path, secret));
        } else if fs::read(&path).is_ok_and(|bytes| bytes.windows(secret.len()).any(|part| part == secret)) {
            found.push(path);
        }
    }
    found
}

/// Arguments and environments of all processes.
fn processes_with(secret: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        for name in ["cmdline", "environ"] {
            let path = entry.path().join(name);
            let mut content = Vec::new();
            let read = fs::File::open(&path).and_then(|mut file| file.read_to_end(&mut content));
            if read.is_ok() && content.windows(secret.len()).any(|part| part == secret) {
                found.push(path);
            }
        }
    }
    found
}

/// In the body and in the URL: git gets the password, and nothing else does.
#[tokio::test]
async fn credentials_are_seen_by_git_only() {
    let scene = scene().await;
    let secret = "unseen-9d41c7";
    let remote = http_server(&scene.remotes, Some(secret), 0);
    let host = format!("127.0.0.1:{}", remote.port);
    let bodies = [
        json!({"repoUrl": format!("http://{host}/repo.git"), "credentials": {"username": USER, "password": secret}}),
        json!({"repoUrl": format!("http://{USER}:{secret}@{host}/repo.git")}),
    ];
    for (number, body) in bodies.into_iter().enumerate() {
        let mut body = body;
        let target = scene.path(&format!("clone-{number}"));
        body["targetDir"] = target.clone().into();
        let client = scene.server.target.clone();
        let clone = tokio::spawn(async move { client.post("/api/git/checkout", body).await.ok() });
        // The password is an argument of the git server.
        let server = format!("/proc/{}/", remote.child.id());
        while !clone.is_finished() {
            let seen = processes_with(secret.as_bytes());
            let seen: Vec<_> = seen.iter().filter(|path| !path.starts_with(&server)).collect();
            assert!(seen.is_empty(), "{seen:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let answer = clone.await.unwrap();
        assert!(!answer.to_string().contains(secret), "{answer}");
        // The clone's configuration, the journals and the records.
        assert_eq!(files_with(scene.server.folder(), secret.as_bytes()), [] as [PathBuf; 0]);
        let list = scene.server.target.get("/api/process/list?all=true").await.ok();
        assert!(!list.to_string().contains(secret), "{list}");
    }
    scene.server.stop().await;
}

/// The text of a remote is passed on, but not the password in it.
#[tokio::test]
async fn credentials_that_a_remote_sends_back_are_hidden() {
    let scene = scene().await;
    let remote = http_server(&scene.remotes, Some(PASSWORD), 0);
    let body = json!({
        "repoUrl": format!("http://127.0.0.1:{}/echo/repo.git", remote.port), "targetDir": scene.path("clone"),
        "credentials": {"username": USER, "password": PASSWORD}
    });
    let failed = scene.checkout(body.clone()).await;
    let failed = failed.json().to_string();
    let request = Request::post("/api/git/checkout", &body).header("accept", "text/event-stream");
    let events = scene.server.target.stream(request).await.rest().await;
    for text in [failed, events.last().unwrap().data.to_string()] {
        assert!(text.contains(&format!("you are {USER}:***, in Basic ***")), "{text}");
        assert!(!text.contains(PASSWORD), "{text}");
    }
    scene.server.stop().await;
}

/// The remote sends the password back, so it is in the output. Wherever the client leaves, its record is removed.
#[tokio::test]
async fn calls_of_clients_that_leave_have_no_records() {
    let mut scene = scene().await;
    let remote = http_server(&scene.remotes, Some(PASSWORD), 0);
    let echo = format!("http://127.0.0.1:{}/echo/repo.git", remote.port);
    let credentials = json!({"username": USER, "password": PASSWORD});
    let clone = json!({"repoUrl": echo, "targetDir": scene.path("clone"), "credentials": credentials});
    scene.checkout(clone.clone()).await;
    let is_gone = |list: &Value| {
        let all = list["processes"].as_array().unwrap();
        all.iter().all(|process| !process["command"].to_string().contains("exec 3<&0"))
    };
    // The answer comes after the removal.
    assert!(is_gone(&scene.server.target.get("/api/process/list?all=true").await.ok()));
    shell(&format!("git -C work remote add origin {echo}"), &scene.remotes);
    let push = json!({"path": scene.path("remotes/work"), "credentials": credentials});
    let target = scene.server.target.clone();
    let mut rng = TestRng::new();
    for round in 0..20 {
        let (path, body) = if round % 2 == 0 { ("checkout", &clone) } else { ("push", &push) };
        let mut connection = target.connect().await;
        connection.send(&Request::post(format!("/api/git/{path}"), body)).await.unwrap();
        tokio::time::sleep(Duration::from_micros(rng.below(60_000))).await;
        drop(connection);
    }
    target.until("/api/process/list?all=true", is_gone).await;
    // A server that is killed leaves it to the next one.
    let slow = format!("http://127.0.0.1:{}/slow/x.git", remote.port);
    let mut body = clone.clone();
    body["repoUrl"] = slow.into();
    let mut connection = target.connect().await;
    connection.send(&Request::post("/api/git/checkout", &body)).await.unwrap();
    target.until("/api/process/list?all=true", |list| !is_gone(list)).await;
    scene.server.crash();
    scene.server.restart().await;
    target.until("/api/process/list?all=true", is_gone).await;
    scene.server.stop().await;
}

/// A volume: the target exists, and its parent directory is on another file system.
#[tokio::test]
async fn root_clone_into_a_mount_point_and_on_a_full_disk() {
    let scene = scene().await;
    let remote = http_server(&scene.remotes, None, 0);
    let url = format!("http://127.0.0.1:{}/repo.git", remote.port);
    let volume = Disk::mount(scene.server.folder().join("volume"), "4m");
    let cloned = scene.checkout(json!({"repoUrl": url, "targetDir": volume.path})).await.ok();
    assert_eq!(cloned["branch"], "main");
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&volume.path), [".git", "file"]);

    shell(
        &format!(
            "{IDENTITY}cd work; head -c 8000000 /dev/urandom > large; git add large; git commit -qm large; git push -q ../repo.git main"
        ),
        &scene.remotes,
    );
    fs::create_dir(volume.path.join("empty")).unwrap();
    for target in ["new", "empty"] {
        let body = json!({"repoUrl": url, "targetDir": volume.path.join(target)});
        scene.checkout(body).await.refused(507, "NO_SPACE");
        assert_eq!(names(&volume.path), [".git", "empty", "file"]);
        assert_eq!(names(&volume.path.join("empty")), [] as [&str; 0]);
    }
    scene.assert_nothing_left();
    // A mount point could not be removed.
    drop(volume);
    scene.server.stop().await;
}

/// Git gives up a transfer that stalls; the timeout of the request is far longer.
#[tokio::test]
async fn soak_stalled_transfer_is_given_up() {
    let scene = scene().await;
    let remote = http_server(&scene.remotes, None, 0);
    let body = json!({"repoUrl": format!("http://127.0.0.1:{}/slow/x.git", remote.port), "targetDir": scene.path("clone")});
    let mut connection = scene.server.target.connect().await;
    let request = Request::post("/api/git/checkout", &body);
    let answer = tokio::time::timeout(4 * TEST_TIMEOUT, connection.ask(&request)).await.unwrap().unwrap();
    let refused = answer.refused(502, "GIT_NETWORK_ERROR");
    assert!(refused.to_string().contains("too slow"), "{refused}");
    scene.assert_nothing_left();
    scene.server.stop().await;
}

/// Credentials are for the host of the URL, not for one that it redirects to.
#[tokio::test]
async fn redirect_does_not_get_the_credentials() {
    let scene = scene().await;
    let other = scene.server.folder().join("other-remotes");
    fs::create_dir(&other).unwrap();
    let second = http_server(&other, Some(PASSWORD), 0);
    let first = http_server(&scene.remotes, None, second.port);
    let body = json!({
        "repoUrl": format!("http://127.0.0.1:{}/moved/repo.git", first.port), "targetDir": scene.path("clone"),
        "credentials": {"username": USER, "password": PASSWORD}
    });
    scene.checkout(body).await.refused(401, "GIT_AUTH_FAILED");
    let requests = fs::read_to_string(other.join("requests")).unwrap();
    assert!(requests.contains("without") && !requests.contains(" with\n"), "{requests}");
    scene.server.stop().await;
}

#[tokio::test]
async fn clone_over_the_git_protocol() {
    let scene = scene().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    // Without `git`, which would be its parent, and could not be killed together with it.
    let programs = text(&scene.server.target.shell("git --exec-path").await["stdout"]);
    let daemon = Path::new(programs.trim()).join("git-daemon");
    let child = Command::new(daemon)
        .args(["--reuseaddr", "--listen=127.0.0.1", "--export-all"])
        .arg(format!("--port={port}"))
        .arg(format!("--base-path={}", scene.remotes.display()))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let remote = GitServer { child, port };
    let ready = scene
        .server
        .target
        .stream(Request::post("/api/port-watch", &json!({"port": port, "mode": "tcp"})))
        .await;
    assert_eq!({ ready }.rest().await.last().unwrap().kind(), "ready");
    let url = |name: &str| format!("git://127.0.0.1:{}/{name}", remote.port);
    let target = scene.path("clone");
    assert_eq!(
        scene.checkout(json!({"repoUrl": url("repo.git"), "targetDir": target})).await.ok()["branch"],
        "main"
    );
    let refused = scene.checkout(json!({"repoUrl": url("none.git"), "targetDir": scene.path("none")})).await;
    refused.refused(404, "GIT_REPOSITORY_NOT_FOUND");
    drop(remote);
    scene.server.stop().await;
}

#[tokio::test]
async fn progress_of_a_clone() {
    let scene = scene().await;
    let request = |url: String, target: &str| {
        let body = json!({"repoUrl": url, "targetDir": scene.path(target)});
        Request::post("/api/git/checkout", &body).header("accept", "text/event-stream")
    };
    let url = format!("file://{}", scene.path("remotes/repo.git"));
    let events = scene.server.target.stream(request(url, "clone")).await.rest().await;
    let last = events.last().unwrap();
    assert_eq!((last.kind(), &last.data["branch"]), ("complete", &json!("main")), "{events:?}");
    let is_progress = |event: &&sandcrab_conformance::http::Event| event.kind() == "progress";
    let (phases, others): (Vec<_>, Vec<_>) = events.iter().partition(|event| is_progress(event));
    assert_eq!(others.len(), 1, "{events:?}");
    let done =
        phases.iter().any(|event| event.data["phase"] == "Receiving objects" && event.data["percent"] == 100);
    assert!(done, "{events:?}");
    let events = scene.server.target.stream(request("/no/such".into(), "none")).await.rest().await;
    let last = events.last().unwrap();
    assert_eq!((last.kind(), &last.data["code"]), ("error", &json!("GIT_REPOSITORY_NOT_FOUND")));
    scene.server.stop().await;
}

/// The server is killed during a clone. The next one ends it and removes what it made.
#[tokio::test]
async fn interrupted_clone_is_removed() {
    let mut scene = scene().await;
    let remote = http_server(&scene.remotes, None, 0);
    let body = json!({"repoUrl": format!("http://127.0.0.1:{}/slow/x.git", remote.port), "targetDir": scene.path("clone")});
    let mut connection = scene.server.target.connect().await;
    connection.send(&Request::post("/api/git/checkout", &body)).await.unwrap();
    let folder = scene.server.folder().to_owned();
    let left = || {
        let entries = fs::read_dir(&folder).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".sandcrab-")).count()
    };
    until("the clone has begun", || left() == 1).await;
    scene.server.crash();
    assert_eq!(left(), 1);
    scene.server.restart().await;
    until("the clone is removed", || left() == 0).await;
    assert!(!folder.join("clone").exists());
    let list = scene.server.target.get("/api/process/list?all=true&status=running").await.ok();
    assert_eq!(list["processes"], json!([]));
    scene.server.stop().await;
}

async fn until(what: &str, is_met: impl Fn() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !is_met() {
        assert!(Instant::now() < deadline, "not within {TEST_TIMEOUT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn work_in_a_clone() {
    let scene = scene().await;
    let remote = http_server(&scene.remotes, Some(PASSWORD), 0);
    let url = format!("http://127.0.0.1:{}/repo.git", remote.port);
    let credentials = json!({"username": USER, "password": PASSWORD});
    let (one, two) = (scene.path("one"), scene.path("two"));
    for target in [&one, &two] {
        scene.checkout(json!({"repoUrl": url, "targetDir": target, "credentials": credentials})).await.ok();
    }
    fs::write(Path::new(&one).join("file"), "changed\n").unwrap();
    fs::write(Path::new(&one).join("new\nname"), "new\n").unwrap();
    let status = scene.git("status", json!({"path": one})).await;
    assert_eq!(
        (&status["branch"], &status["upstream"], &status["ahead"]),
        (&json!("main"), &json!("origin/main"), &json!(0))
    );
    let files = json!([
        {"path": "file", "index": "unmodified", "worktree": "modified"},
        {"path": "new\nname", "index": "untracked", "worktree": "untracked"},
    ]);
    assert_eq!(status["files"], files);
    let diff = scene.git("diff", json!({"path": one})).await;
    let file = json!({
        "path": "file", "added": 1, "removed": 1, "binary": false,
        "hunks": [{"header": "@@ -1 +1 @@", "lines": "-3\n+changed\n"}]
    });
    assert_eq!(diff["files"], json!([file]));

    scene.git("add", json!({"path": one, "paths": ["new\nname"]})).await;
    assert_eq!(
        scene.git("diff", json!({"path": one, "staged": true})).await["files"][0]["path"],
        "new\nname"
    );
    scene.git("add", json!({"path": one})).await;
    let author = json!({"name": "Ada", "email": "ada@example.com"});
    let commit =
        json!({"path": one, "message": "Say \"why\" – at length\n\nwith a body\n", "author": author});
    let hash = text(&scene.git("commit", commit.clone()).await["hash"]);
    let target = &scene.server.target;
    target.post("/api/git/commit", commit).await.refused(409, "GIT_OPERATION_FAILED");
    let log = scene.git("log", json!({"path": one, "limit": 1})).await;
    let newest = &log["commits"][0];
    assert_eq!((&newest["hash"], &newest["author"]), (&json!(hash), &json!("Ada")));
    assert_eq!(newest["subject"], "Say \"why\" – at length");

    target.post("/api/git/push", json!({"path": one})).await.refused(401, "GIT_AUTH_FAILED");
    let pushed = scene.git("push", json!({"path": one, "credentials": credentials})).await;
    assert_eq!(
        (&pushed["refs"][0]["ref"], &pushed["refs"][0]["after"]),
        (&json!("refs/remotes/origin/main"), &json!(hash))
    );
    let pulled = scene.git("pull", json!({"path": two, "credentials": credentials})).await;
    let refs: Vec<_> = pulled["refs"].as_array().unwrap().iter().map(|update| text(&update["ref"])).collect();
    assert_eq!(refs, ["refs/heads/main", "refs/remotes/origin/main"]);
    assert_eq!(fs::read_to_string(Path::new(&two).join("file")).unwrap(), "changed\n");
    assert_eq!(scene.git("pull", json!({"path": two, "credentials": credentials})).await["refs"], json!([]));
    let branches = scene.git("branches", json!({"path": two})).await;
    let names: Vec<_> =
        branches["branches"].as_array().unwrap().iter().map(|branch| text(&branch["name"])).collect();
    assert_eq!(names, ["main", "origin/main", "origin/other"]);

    // In a session, the path is relative to its directory; a place that is not a repository is an error.
    let session = target.new_session().await;
    target.run(json!({"command": format!("cd {two}"), "sessionId": session})).await;
    assert_eq!(scene.git("status", json!({"sessionId": session})).await["branch"], "main");
    target.post("/api/git/status", json!({"path": scene.path("none")})).await.refused(404, "FILE_NOT_FOUND");
    target.post("/api/git/status", json!({"path": "/"})).await.refused(404, "GIT_REPOSITORY_NOT_FOUND");
    scene.server.stop().await;
}
