//! `grep`, `find`, `replace`, `watch`.

use crate::support::TestServer;

/// A server with files in a directory, and the path of the directory.
fn server() -> (TestServer, String) {
    let server = TestServer::new();
    let script = "d=$(mktemp -d) && cd $d && mkdir src && printf 'one\\nfn needle\\nthree\\n' >src/a.rs && echo Needle >b.txt && echo $d";
    let directory = server.run(&["exec", script]).with_code(0).text().trim_end().to_owned();
    (server, directory)
}

#[test]
fn grep_prints_matching_lines() {
    let (server, directory) = server();
    let found = server.run(&["grep", "needle", &directory]).with_code(0);
    assert_eq!(found.text(), format!("{directory}/src/a.rs:2:fn needle\n"));
    let found = server.run(&["grep", "-i", "-g", "*.txt", "needle", &directory]).with_code(0);
    assert_eq!(found.text(), format!("{directory}/b.txt:1:Needle\n"));
    let found = server.run(&["grep", "-E", "-C", "1", "^fn", &directory]).with_code(0);
    let file = format!("{directory}/src/a.rs");
    assert_eq!(found.text(), format!("{file}-1-one\n{file}:2:fn needle\n{file}-3-three\n"));
    assert_eq!(server.run(&["grep", "nothing", &directory]).with_code(1).text(), "");
    let json = server.run(&["grep", "--json", "needle", &directory]).with_code(0).json();
    assert_eq!((&json["matches"][0]["line"], &json["filesSearched"]), (&2.into(), &2.into()));
    let refused = server.run(&["grep", "-E", "(", &directory]).with_code(2);
    assert!(refused.stderr.contains("pattern"), "{refused:?}");
    server.run(&["exec", &format!("rm -r {directory}")]).with_code(0);
}

#[test]
fn find_prints_paths() {
    let (server, directory) = server();
    let found = server.run(&["find", &directory, "-t", "file"]).with_code(0);
    assert_eq!(found.text(), format!("{directory}/b.txt\n{directory}/src/a.rs\n"));
    let found = server.run(&["find", &directory, "--limit", "1"]).with_code(0);
    assert_eq!(found.text(), format!("{directory}/b.txt\n"));
    assert!(found.stderr.contains("there are more"), "{found:?}");
    let json = server.run(&["find", "--json", &directory, "-g", "*.rs"]).with_code(0).json();
    assert_eq!(json["paths"][0], format!("{directory}/src/a.rs"));
    server.run(&["exec", &format!("rm -r {directory}")]).with_code(0);
}

#[test]
fn watch_ends_after_its_timeout() {
    let (server, directory) = server();
    let shown = server.run(&["watch", &directory, "--timeout", "50ms"]).with_code(0);
    let lines: Vec<_> = shown.text().lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
    assert_eq!(lines, [format!("watching {directory}"), "stopped timeout".to_owned()]);
    // The change comes from a command that waits until the watch has begun.
    let change = format!("while sleep 0.02; do touch {directory}/x; rm -f {directory}/x; done");
    server.run(&["start", "--id", "changes", &change]).with_code(0);
    let shown =
        server.run(&["watch", "--json", &directory, "--timeout", "2s", "--event", "create"]).with_code(0);
    let created = format!("{directory}/x");
    assert!(shown.text().contains(&format!("\"path\":\"{created}\"")), "{shown:?}");
    server.run(&["kill", "changes"]).with_code(0);
    server.run(&["watch", &format!("{directory}/none")]).with_code(125);
    server.run(&["exec", &format!("rm -r {directory}")]).with_code(0);
}

#[test]
fn replace_prints_and_makes_the_changes() {
    let server = TestServer::new();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let (directory, name) = (dir.path().to_str().unwrap(), file.to_str().unwrap());
    std::fs::write(&file, "one two\n").unwrap();
    let diff = format!("--- a{name}\n+++ b{name}\n@@ -1 +1 @@\n-one two\n+one 2\n");
    assert_eq!(server.run(&["replace", "--dry-run", "two", "2", directory]).with_code(0).text(), diff);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one two\n");
    assert_eq!(server.run(&["replace", "two", "2", directory]).with_code(0).text(), diff);
    assert_eq!(server.run(&["replace", "two", "2", directory]).with_code(1).text(), "");
    let json = server.run(&["replace", "--json", "-E", r"(\w+) (\d)", "$2 $1", name]).with_code(0).json();
    assert_eq!(json["replacements"], 1, "{json}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "2 one\n");
    server.run(&["replace", "-E", "(", "", directory]).with_code(2);
}
