//! Commands that run as another user than the server cannot affect it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sandcrab_conformance::cases::steps::text;
use serde_json::{Value, json};

use crate::support::ServerProcess;

/// A user that is otherwise unused, and another one.
const USER: &str = "54321:54322";
const OTHER: &str = "54323:54324";

/// A server whose state directory is in a directory that every user can enter, and the program that attacks
/// it.
async fn server(settings: &[&str]) -> (ServerProcess, PathBuf) {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("attacks_server");
    fs::copy(env!("CARGO_BIN_EXE_attacks_server"), &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let state = dir.path().join("state");
    (ServerProcess::start_in(dir, state, settings).await, program)
}

/// Returns the command that attacks a server, its zygote and its supervisors.
fn attack(server: &ServerProcess, program: &Path) -> Vec<String> {
    let state = server.folder().join("state").display().to_string();
    let pids = server.own_processes().into_iter().chain([server.pid()]);
    [program.display().to_string(), state].into_iter().chain(pids.map(|pid| pid.to_string())).collect()
}

/// Returns the successful attempts, and the number of all attempts.
fn outcome(stdout: &str) -> (Vec<&str>, usize) {
    let mut lines: Vec<_> = stdout.lines().collect();
    let attempts =
        lines.pop().and_then(|line| line.strip_prefix("attempts: ")).unwrap_or_else(|| panic!("{stdout}"));
    (lines, attempts.parse().unwrap())
}

/// Returns the successful attempts on processes of the server. A process that was listed as one of the server
/// may have become the command's own shell.
fn against_server<'a>(server: &ServerProcess, succeeded: &[&'a str]) -> Vec<&'a str> {
    let own: Vec<_> = server.own_processes().into_iter().chain([server.pid()]).collect();
    let is_other = |line: &str| {
        let pid = line.rsplit(' ').next().and_then(|word| word.parse().ok());
        pid.is_some_and(|pid| !own.contains(&pid))
    };
    succeeded.iter().copied().filter(|line| !is_other(line)).collect()
}

/// Runs a program in each way that a command can be run, and returns its output.
async fn in_every_way(
    server: &ServerProcess,
    words: &[String],
    user: Option<&str>,
) -> Vec<(&'static str, Value)> {
    let target = &server.target;
    let command = words.join(" ");
    let with = |mut body: Value| {
        if let Some(user) = user {
            body["user"] = user.into();
        }
        body
    };
    let session = target.make_session(with(json!({}))).await;
    let process = target.start(json!({"command": command, "sessionId": session})).await;
    target.get(&format!("/api/process/{process}/wait")).await.ok();
    let background = target.start(with(json!({"command": command}))).await;
    target.get(&format!("/api/process/{background}/wait")).await.ok();
    vec![
        ("shell text", target.run(with(json!({"command": command}))).await),
        ("argv", target.run(with(json!({"command": words[0], "args": words[1..]}))).await),
        ("session", target.run(json!({"command": command, "sessionId": session})).await),
        ("process of a session", target.get(&format!("/api/process/{process}/logs")).await.ok()),
        ("process", target.get(&format!("/api/process/{background}/logs")).await.ok()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn root_command_cannot_affect_the_server() {
    let (server, program) = server(&[&format!("run-as={USER}")]).await;
    // Ensures that there is a supervisor of a run and one of a session.
    server.target.start(json!({"command": "sleep 100"})).await;
    server.target.new_session().await;
    for (way, result) in in_every_way(&server, &attack(&server, &program), None).await {
        let stdout = text(&result["stdout"]);
        let (succeeded, attempts) = outcome(&stdout);
        let succeeded = against_server(&server, &succeeded);
        assert!(succeeded.is_empty(), "{way}: {succeeded:?}");
        assert!(attempts > 40, "{way}: {attempts}");
    }
    // A user named in a request is isolated as well.
    for (way, result) in in_every_way(&server, &attack(&server, &program), Some(OTHER)).await {
        let stdout = text(&result["stdout"]);
        assert!(against_server(&server, &outcome(&stdout).0).is_empty(), "{way}: {result}");
    }
    server.stop().await;
}

/// The attempts are effective: as the server's own user they succeed.
#[tokio::test(flavor = "multi_thread")]
async fn same_user_can_affect_the_server() {
    let (server, program) = server(&[]).await;
    let result = server.target.shell(&attack(&server, &program).join(" ")).await;
    let stdout = text(&result["stdout"]);
    let (succeeded, _) = outcome(&stdout);
    for name in
        ["kill", "pidfd_send_signal", "environ", "mem", "fd", "cwd", "root", "prlimit", "setpriority", "read"]
    {
        assert!(succeeded.iter().any(|line| line.split(' ').next() == Some(name)), "{name}: {stdout}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn root_command_runs_as_the_user() {
    let (server, _) = server(&[&format!("run-as={USER}")]).await;
    let script = "id -u; id -g; id -G; echo $HOME $USER $LOGNAME; ulimit -c >/dev/null; pwd; \
                  echo out > /dev/stdout; echo err > /proc/self/fd/2; echo fd >/dev/fd/1";
    let words = ["bash".into(), "-c".into(), format!("'{script}'")];
    for (user, id, group) in [(None, "54321", "54322"), (Some(OTHER), "54323", "54324")] {
        for (way, result) in in_every_way(&server, &words, user).await {
            if way == "argv" {
                continue;
            }
            let expected = format!("{id}\n{group}\n{group}\n/ {id} {id}\n/\nout\nfd\n");
            assert_eq!(text(&result["stdout"]), expected, "{way}: {result}");
            assert_eq!(text(&result["stderr"]), "err\n", "{way}");
        }
        let mut body = json!({"command": "bash", "args": ["-c", script]});
        if let Some(user) = user {
            body["user"] = user.into();
        }
        let result = server.target.run(body).await;
        assert!(text(&result["stdout"]).starts_with(&format!("{id}\n{group}\n")), "{result}");
    }
    // Given standard input can be read, also through its name in /proc.
    for body in [json!({"stdin": "given"}), json!({"stdin": "given", "keepStdinOpen": true})] {
        let mut body = body;
        body["command"] = "head -c 5 /dev/stdin".into();
        assert_eq!(text(&server.target.run(body).await["stdout"]), "given");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn root_session_keeps_its_user() {
    let (mut server, _) = server(&[]).await;
    let session = server.target.make_session(json!({"user": USER})).await;
    let run = async |server: &ServerProcess, session: &str, command: &str| {
        text(&server.target.run(json!({"command": command, "sessionId": session})).await["stdout"])
    };
    assert_eq!(run(&server, &session, "x=1; id -u").await, "54321\n");
    // After its shell has ended, in a fork, after the server was killed, and after its supervisor was killed.
    let dead = json!({"command": "kill -9 $$", "sessionId": session});
    assert_eq!(server.target.post("/api/execute", dead).await.status(), 410);
    assert_eq!(run(&server, &session, "id -u").await, "54321\n");
    let copy = server.target.post(&format!("/api/session/{session}/fork"), json!({})).await.ok();
    let copy = text(&copy["data"]["id"]);
    assert_eq!(run(&server, &copy, "id -u").await, "54321\n");
    server.crash();
    server.restart().await;
    assert_eq!(run(&server, &session, "id -u").await, "54321\n");
    let supervisor = run(&server, &session, "echo $PPID").await;
    let supervisor = rustix::process::Pid::from_raw(supervisor.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(supervisor, rustix::process::Signal::KILL).unwrap();
    // A command may still be sent to the dead supervisor.
    let body = json!({"command": "id -u; echo $HOME", "sessionId": session});
    let mut answer = server.target.post("/api/execute", body.clone()).await;
    while answer.status() == 502 {
        answer = server.target.post("/api/execute", body.clone()).await;
    }
    assert_eq!(text(&answer.ok()["stdout"]), "54321\n/\n");
    // A session cannot run a command as another user.
    let body = json!({"command": "id -u", "sessionId": session, "user": OTHER});
    assert_eq!(server.target.post("/api/execute", body).await.status(), 400);
    assert_eq!(text(&server.target.shell("id -u").await["stdout"]), "0\n");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn root_invalid_users_are_refused() {
    let (server, _) = server(&[&format!("run-as={USER}")]).await;
    for (user, status) in
        [("root", 403), ("0", 403), ("0:54321", 403), ("no-such-user", 400), ("54321", 400), ("", 400)]
    {
        for path in ["/api/execute", "/api/process/start", "/api/session/create"] {
            let mut body = json!({"user": user});
            if path != "/api/session/create" {
                body["command"] = "true".into();
            }
            let answer = server.target.post(path, body).await;
            assert_eq!(answer.status(), status, "{user} {path}");
        }
    }
    // Killing the process tree of another user leaves nothing behind.
    let id = server.target.start(json!({"command": "setsid sleep 300 & sleep 300", "user": OTHER})).await;
    let killed = server.target.delete(&format!("/api/process/{id}")).await.ok();
    assert!(killed["survivors"].as_array().unwrap().is_empty() && killed["success"] == true, "{killed}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn group_of_the_own_user_is_applied() {
    let server = ServerProcess::start(&[]).await;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let session = server.target.new_session().await;
    let other = format!("{uid}:{}", gid + 1);
    for body in [
        json!({"command": "true", "user": other}),
        json!({"command": "true", "user": other, "sessionId": session}),
    ] {
        let answer = server.target.post("/api/execute", body).await;
        assert!((400..500).contains(&answer.status()), "{}", answer.status());
    }
    let own = json!({"command": "id -g", "user": format!("{uid}:{gid}")});
    assert_eq!(server.target.post("/api/execute", own).await.ok()["stdout"], format!("{gid}\n"));
    server.stop().await;
}

/// `UID:GID` has no supplementary groups, even if it is the server's own user.
#[tokio::test]
async fn root_own_user_and_group_have_no_supplementary_groups() {
    let server = ServerProcess::start_in_groups("0,54999", &[]).await;
    let groups = async |body: Value| {
        let mut groups: Vec<_> = text(&server.target.run(body).await["stdout"])
            .split_whitespace()
            .map(|group| group.parse::<u32>().unwrap())
            .collect();
        groups.sort_unstable();
        groups
    };
    assert_eq!(groups(json!({"command": "id -G"})).await, [0, 54_999]);
    assert_eq!(groups(json!({"command": "id -G", "user": "root"})).await, [0, 54_999]);
    for body in [json!({"command": "id -G"}), json!({"command": "id", "args": ["-G"]})] {
        let mut body = body;
        body["user"] = "0:0".into();
        assert_eq!(groups(body).await, [0]);
    }
    let session = server.target.make_session(json!({"user": "0:0"})).await;
    assert_eq!(groups(json!({"command": "id -G", "sessionId": session})).await, [0]);
    // A session with all groups of the server cannot run a command without them.
    let session = server.target.make_session(json!({})).await;
    let body = json!({"command": "id -G", "sessionId": session, "user": "0:0"});
    assert_eq!(server.target.post("/api/execute", body).await.status(), 400);
    server.stop().await;
}
