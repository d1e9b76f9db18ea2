//! `expose`, `expose list`, `expose remove`.

use crate::support::TestServer;

#[test]
fn ports_are_exposed_listed_and_removed() {
    let server = TestServer::new();
    let url = server.run(&["expose", "8080", "--name", "my web", "--token", "mine"]).with_code(0);
    let url = url.text().trim_end();
    assert!(url.starts_with("http://8080-local-mine.localhost:") && url.ends_with('/'), "{url}");
    let exposed = server.run(&["expose", "--json", "8081"]).with_code(0).json();
    assert_eq!((&exposed["port"], &exposed["status"]), (&8081.into(), &"inactive".into()));
    let list = server.run(&["expose", "list"]).with_code(0);
    assert!(list.text().contains("my web") && list.text().contains(url), "{list:?}");
    let list = server.run(&["expose", "list", "--json"]).with_code(0).json();
    assert_eq!((&list["count"], &list["ports"][0]["url"]), (&2.into(), &url.into()));
    let twice = server.run(&["expose", "8080"]).with_code(125);
    assert!(twice.stderr.contains("port 8080 is exposed"), "{twice:?}");
    server.run(&["expose", "remove", "8080"]).with_code(0);
    let removed = server.run(&["expose", "remove", "--json", "8081"]).with_code(0).json();
    assert_eq!(removed["port"], 8081);
    assert!(server.run(&["expose", "remove", "8080"]).with_code(125).stderr.contains("not exposed"));
    for invalid in [&["expose"][..], &["expose", "0"], &["expose", "65536"], &["expose", "remove"]] {
        server.run(invalid).with_code(2);
    }
}

#[test]
fn an_exposure_ends_with_its_process() {
    let server = TestServer::new();
    let events = server.spawn(&["events"]);
    events.wait_for(" connected\n");
    server.run(&["start", "--id", "owner", "sleep 300"]).with_code(0);
    server.run(&["expose", "8080", "--process", "owner", "--name", "web"]).with_code(0);
    events.wait_for(" port_exposed 8080 web\n");
    server.run(&["kill", "owner"]).with_code(0);
    events.wait_for(" port_unexposed 8080 web\n");
    assert_eq!(server.run(&["expose", "list", "--json"]).with_code(0).json()["count"], 0);
}
