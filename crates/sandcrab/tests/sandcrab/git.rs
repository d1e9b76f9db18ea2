//! `git`.

use crate::support::TestServer;

#[test]
fn work_in_a_clone() {
    let server = TestServer::new();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (remote, clone) = (at("remote.git"), at("clone"));
    let script = format!(
        "cd {} && git init -q -b main work && cd work && echo 1 >file && git add file && \
         git -c user.name=a -c user.email=a@b commit -qm first && git clone -q --bare . {remote}",
        dir.path().display()
    );
    server.run(&["exec", &script]).with_code(0);
    assert_eq!(server.run(&["git", "clone", &remote, &clone]).with_code(0).text(), format!("{clone}\n"));
    std::fs::write(dir.path().join("clone/file"), "2\n").unwrap();
    std::fs::write(dir.path().join("clone/new"), "").unwrap();
    let of = |operation: &str| server.run(&["git", operation, "-C", &clone]).with_code(0).text().to_owned();
    assert_eq!(of("status"), "main (origin/main)\n M file\n?? new\n");
    let diff = of("diff");
    assert!(diff.starts_with("file +1 -1\n@@ -1 +1 @@\n-1\n+2\n"), "{diff}");
    assert_eq!(of("add"), "");
    let commit = ["git", "commit", "-C", &clone, "-m", "second", "--author", "A", "--email", "a@b"];
    let hash = server.run(&commit).with_code(0).text().trim_end().to_owned();
    let log = server.run(&["git", "log", "-C", &clone, "-n", "1"]).with_code(0);
    assert!(log.text().starts_with(&hash[..10]) && log.text().ends_with(" A: second\n"), "{log:?}");
    assert!(of("branches").contains("* main\n"));
    let pushed = of("push");
    assert!(pushed.ends_with(&format!("..{}\n", &hash[..10])), "{pushed}");
    of("pull");
    let status = server.run(&["git", "status", "--json", "-C", &clone]).with_code(0).json();
    assert_eq!((&status["branch"], &status["files"]), (&"main".into(), &serde_json::json!([])));

    let again = server.run(&["git", "clone", &remote, &clone]);
    assert!(again.code != Some(0) && again.stderr.contains("empty"), "{again:?}");
    let none = server.run(&["git", "clone", &at("none"), &at("other")]);
    assert!(none.code != Some(0) && !none.stderr.is_empty(), "{none:?}");
}
