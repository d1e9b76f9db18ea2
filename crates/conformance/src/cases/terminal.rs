//! Terminals over HTTP: created, read, written to, waited for, recorded, deleted.

use serde_json::{Value, json};

use super::shapes;
use super::steps::{fresh, text};
use crate::http::{Request, Target};
use crate::shape::assert_shape;

impl Target {
    /// Creates a terminal of these options; its id.
    pub async fn terminal(&self, body: Value) -> String {
        text(&self.post("/api/terminal/create", body).await.ok()["id"])
    }

    /// Creates a terminal that shows what it gets, without interpreting it.
    pub async fn raw_terminal(&self) -> String {
        let id = self.terminal(json!({"command": "stty raw -echo; printf ready; exec cat -v"})).await;
        self.shows(&id, "ready").await;
        id
    }

    /// Sends text and keys to a terminal.
    pub async fn type_in(&self, id: &str, body: Value) -> Value {
        self.post(format!("/api/terminal/{id}/input"), body).await.ok()
    }

    /// Waits until the screen of a terminal has this text.
    pub async fn shows(&self, id: &str, wanted: &str) -> Value {
        let body = json!({"text": wanted, "timeoutMs": 25_000});
        self.post(format!("/api/terminal/{id}/wait"), body).await.ok()
    }

    /// The screen of a terminal.
    pub async fn screen(&self, id: &str) -> Value {
        self.get(format!("/api/terminal/{id}/screen")).await.ok()
    }

    /// Deletes a terminal.
    pub async fn delete_terminal(&self, id: &str) -> Value {
        self.delete(format!("/api/terminal/{id}")).await.ok()
    }
}

pub(super) async fn every_field_is_there(target: Target) {
    let id = fresh("terminal");
    let body = json!({"id": id, "command": "printf '\\e]2;a title\\a'; cat", "cols": 100, "rows": 30});
    let created = target.post("/api/terminal/create", body).await.ok();
    assert_shape(&created, shapes::TERMINAL_CREATED);
    assert_eq!((&created["id"], &created["executionId"]), (&json!(id), &json!(id)));
    assert_eq!(
        (&created["cols"], &created["rows"], &created["created"]),
        (&json!(100), &json!(30), &json!(true))
    );
    let one =
        target.until(&format!("/api/terminal/{id}"), |answer| answer["terminal"]["title"] == "a title").await;
    assert_shape(&one, shapes::ONE_TERMINAL);
    let terminal = &one["terminal"];
    assert_shape(terminal, shapes::TERMINAL);
    assert_eq!((&terminal["status"], &terminal["viewers"]), (&json!("running"), &json!(0)));
    let list = target.get("/api/terminal/list").await.ok();
    assert_shape(&list, shapes::TERMINALS);
    let listed = list["terminals"].as_array().expect("a list").iter().find(|found| found["id"] == id);
    assert_eq!(listed.expect("it is listed")["title"], "a title");
    let deleted = target.delete_terminal(&id).await;
    assert_shape(&deleted, shapes::TERMINAL_DELETED);
    assert!(!deleted["killed"].as_array().expect("a list").is_empty(), "{deleted}");
    let ended = target.get(format!("/api/terminal/{id}")).await.ok();
    assert_eq!(ended["terminal"]["status"], "exited");
    assert_eq!(ended["terminal"]["end"]["reason"], "killed");
    assert_eq!(ended["terminal"]["title"], "a title");
    assert!(ended["terminal"].get("pid").is_none(), "{ended}");
    // The record of an ended one is removed.
    assert_shape(&target.delete_terminal(&id).await, shapes::TERMINAL_DELETED);
    target.delete(format!("/api/terminal/{id}")).await.refused(404, "TERMINAL_NOT_FOUND");
    target.get(format!("/api/process/{id}")).await.refused(404, "PROCESS_NOT_FOUND");
}

pub(super) async fn one_id_is_one_terminal(target: Target) {
    let id = fresh("shared");
    let create = || async {
        let body = json!({"id": id, "command": "cat"});
        target.post("/api/terminal/create", body).await.ok()
    };
    let answers = futures_util::future::join_all((0..10).map(|_| create())).await;
    let created = answers.iter().filter(|answer| answer["created"] == true).count();
    assert_eq!(created, 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer["pid"] == answers[0]["pid"]), "{answers:?}");
    target.delete_terminal(&id).await;
    // The id of one that has ended is free.
    let again = create().await;
    assert_eq!(again["created"], true);
    assert_ne!(again["pid"], answers[0]["pid"]);
    target.delete_terminal(&id).await;
}

pub(super) async fn the_id_of_a_process_is_taken(target: Target) {
    let id = fresh("process");
    target.start(json!({"command": "sleep 300", "processId": id})).await;
    let body = json!({"id": id});
    target.post("/api/terminal/create", body).await.refused(409, "PROCESS_ALREADY_EXISTS");
    target.get(format!("/api/terminal/{id}/screen")).await.refused(404, "TERMINAL_NOT_FOUND");
    target.kill(&id).await;
}

pub(super) async fn one_that_is_not_there(target: Target) {
    let id = fresh("missing");
    for path in ["", "/screen", "/recording"] {
        target.get(format!("/api/terminal/{id}{path}")).await.refused(404, "TERMINAL_NOT_FOUND");
    }
    target.get(format!("/api/process/{id}/recording")).await.refused(404, "PROCESS_NOT_FOUND");
    target.delete(format!("/api/terminal/{id}")).await.refused(404, "TERMINAL_NOT_FOUND");
    for (path, body) in [
        (format!("/api/terminal/{id}/resize"), json!({"cols": 80, "rows": 24})),
        (format!("/api/terminal/{id}/input"), json!({"text": "x"})),
        (format!("/api/terminal/{id}/wait"), json!({"text": "x"})),
    ] {
        target.post(path, body).await.refused(404, "TERMINAL_NOT_FOUND");
    }
    let body = json!({"sessionId": id});
    target.post("/api/terminal/create", body).await.refused(404, "SESSION_NOT_FOUND");
}

pub(super) async fn invalid_requests(target: Target) {
    for (body, field) in [
        (json!({"cols": 0}), "cols"),
        (json!({"rows": 1001}), "rows"),
        (json!({"cols": -1}), "cols"),
        (json!({"cols": "80"}), "cols"),
        (json!({"colums": 80}), "colums"),
        (json!({"args": ["x"]}), "args"),
        (json!({"term": ""}), "term"),
        (json!({"term": "a b"}), "term"),
        (json!({"id": "list"}), "id"),
        (json!({"id": "create"}), "id"),
        (json!({"limits": {"memory": 1}}), "limits.memory"),
    ] {
        let refused = target.post("/api/terminal/create", body).await.refused(400, "VALIDATION_FAILED");
        assert_eq!(refused["context"]["field"], field, "{refused}");
    }
    target.post("/api/terminal/create", json!({"id": "x".repeat(200)})).await.refused(400, "NAME_TOO_LONG");
    let body = json!({"command": "no-such-program-here", "args": []});
    target.post("/api/terminal/create", body).await.refused(404, "COMMAND_NOT_FOUND");
    let id = target.raw_terminal().await;
    for (route, body, field) in [
        ("resize", json!({"cols": 0, "rows": 1}), "cols"),
        ("resize", json!({"cols": 1, "rows": 1001}), "rows"),
        ("resize", json!({"cols": 1}), "rows"),
        ("resize", json!({"cols": 1, "rows": 1, "x": 1}), "x"),
        ("input", json!({}), "text"),
        ("input", json!({"keys": ["enter", "entr"]}), "keys[1]"),
        ("input", json!({"key": "enter"}), "key"),
        ("input", json!({"keys": vec!["x"; 5_000]}), "keys"),
        ("wait", json!({}), "text"),
        ("wait", json!({"text": "a", "regex": "b"}), "text"),
        ("wait", json!({"regex": "("}), "regex"),
        ("wait", json!({"regex": r"\w{1000}{1000}"}), "regex"),
        ("wait", json!({"text": ""}), "text"),
        ("wait", json!({"idleMs": -1}), "idleMs"),
    ] {
        let refused =
            target.post(format!("/api/terminal/{id}/{route}"), body).await.refused(400, "VALIDATION_FAILED");
        assert_eq!(refused["context"]["field"], field, "{refused}");
    }
    let misspelt = json!({"keys": ["ctrl-entr"]});
    let refused = target.post(format!("/api/terminal/{id}/input"), misspelt).await;
    assert_eq!(refused.refused(400, "VALIDATION_FAILED")["context"]["nearest"], "ctrl-enter");
    for query in ["format=html", "scrollback=-1", "scrolback=1"] {
        target.get(format!("/api/terminal/{id}/screen?{query}")).await.refused(400, "VALIDATION_FAILED");
    }
    target.get(format!("/api/terminal/{id}/recording?format=gif")).await.refused(400, "VALIDATION_FAILED");
    target.delete_terminal(&id).await;
}

pub(super) async fn input_as_bytes_text_and_keys(target: Target) {
    let id = target.raw_terminal().await;
    let raw = Request::new("POST", format!("/api/terminal/{id}/input")).body(&b"\x01raw\xff"[..]);
    let answer = target.send(raw.header("content-type", "application/octet-stream")).await.ok();
    assert_shape(&answer, shapes::STDIN);
    assert_eq!(answer["written"], 5);
    target.shows(&id, "^ArawM-^?").await;
    let keys = ["ctrl-c", "up", "f5", "alt-x", "shift-tab", "ctrl-left", "backspace", "é"];
    let answer = target.type_in(&id, json!({"text": "text ", "keys": keys})).await;
    assert_eq!(answer["written"], 5 + 1 + 3 + 5 + 2 + 3 + 6 + 1 + 2);
    target.shows(&id, "text ^C^[[A^[[15~^[x^[[Z^[[1;5D^?M-CM-)").await;
    target.delete_terminal(&id).await;
}

pub(super) async fn cursor_keys_follow_the_mode(target: Target) {
    let command = "stty raw -echo; printf '\\e[?1hready'; exec cat -v";
    let id = target.terminal(json!({"command": command})).await;
    target.shows(&id, "ready").await;
    target.type_in(&id, json!({"keys": ["up", "home", "ctrl-up"]})).await;
    target.shows(&id, "^[OA^[OH^[[1;5A").await;
    target.delete_terminal(&id).await;
}

/// A program that does not read does not hold up the writer.
pub(super) async fn a_full_queue_is_told(target: Target) {
    let id = target.terminal(json!({"command": "stty raw -echo; printf ready; sleep 300"})).await;
    target.shows(&id, "ready").await;
    let bytes = vec![b'x'; 1_000_000];
    let request = Request::new("POST", format!("/api/terminal/{id}/input")).body(bytes);
    let refused = target.send(request).await.refused(409, "TERMINAL_INPUT_FULL");
    let written = refused["context"]["written"].as_u64().expect("a number");
    assert!((1..1_000_000).contains(&written), "{refused}");
    target.delete_terminal(&id).await;
    let body = json!({"text": "x"});
    target.post(format!("/api/terminal/{id}/input"), body).await.refused(409, "PROCESS_ENDED");
    let body = json!({"cols": 10, "rows": 10});
    target.post(format!("/api/terminal/{id}/resize"), body).await.refused(409, "PROCESS_ENDED");
}

/// Ctrl-C reaches a program that does not read, whatever is queued before it.
pub(super) async fn an_interrupt_is_not_held_up(target: Target) {
    let id =
        target.terminal(json!({"command": "trap 'echo caught; exit 5' INT; echo ready; sleep 300"})).await;
    target.shows(&id, "ready").await;
    let paste = Request::new("POST", format!("/api/terminal/{id}/input")).body(vec![b'x'; 200_000]);
    target.send(paste).await;
    target.type_in(&id, json!({"keys": ["ctrl-c"]})).await;
    assert_eq!(target.ended(&id).await["exitCode"], 5);
}

pub(super) async fn a_size_is_seen(target: Target) {
    let id = target.terminal(json!({"command": "while read -r line; do stty size; done"})).await;
    for (cols, rows) in [(132, 43), (1, 1), (1000, 1000), (80, 24)] {
        let answer =
            target.post(format!("/api/terminal/{id}/resize"), json!({"cols": cols, "rows": rows})).await.ok();
        assert_shape(&answer, "success:flag cols:int rows:int timestamp:time");
        assert_eq!((&answer["cols"], &answer["rows"]), (&json!(cols), &json!(rows)));
        if cols > 1 {
            target.type_in(&id, json!({"keys": ["enter"]})).await;
            target.shows(&id, &format!("{rows} {cols}")).await;
        }
        let screen = target.screen(&id).await;
        assert_eq!((&screen["cols"], &screen["rows"]), (&json!(cols), &json!(rows)));
    }
    target.delete_terminal(&id).await;
}

pub(super) async fn the_screen_as_text_and_cells(target: Target) {
    let command = "stty raw -echo; for i in {1..30}; do printf 'line %d\\r\\n' $i; done; \
                   printf '\\e[1;31mred\\e[0m \\e[48;2;1;2;3mrgb\\e[0m\\e[?25l'; exec cat";
    let id = target.terminal(json!({"command": command, "cols": 40, "rows": 10})).await;
    target.shows(&id, "red rgb").await;
    let screen = target.screen(&id).await;
    assert_shape(&screen, shapes::SCREEN);
    let lines: Vec<_> = screen["text"].as_str().expect("text").split('\n').collect();
    assert_eq!(lines.len(), 10, "{lines:?}");
    assert_eq!((lines[0], lines[8], lines[9]), ("line 22", "line 30", "red rgb"));
    assert_eq!(screen["cursor"], json!({"row": 9, "col": 7, "visible": false}));
    assert_eq!((&screen["alternate"], &screen["source"]), (&json!(false), &json!("live")));
    assert_eq!(screen["scrollbackLines"], 21);
    let more = target.get(format!("/api/terminal/{id}/screen?scrollback=2&format=cells")).await.ok();
    assert!(text(&more["text"]).starts_with("line 20\nline 21\nline 22\n"), "{more}");
    let cells = more["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 12);
    assert_eq!(cells[0], json!([{"text": "line 20"}]));
    assert_eq!(
        cells[11],
        json!([{"text": "red", "fg": 1, "bold": true}, {"text": " "}, {"text": "rgb", "bg": "#010203"}])
    );
    target.delete_terminal(&id).await;
    // It is still there after the end.
    let ended = target.screen(&id).await;
    assert_eq!((&ended["text"], &ended["cursor"]), (&screen["text"], &screen["cursor"]));
}

pub(super) async fn waiting(target: Target) {
    let id = target
        .terminal(json!({"command": "echo one; read -r x; echo \"got $x 42\"; read -r y", "cols": 40}))
        .await;
    let found = target.shows(&id, "one").await;
    assert_shape(&found, "success:flag matched:flag row:int col:int text:text timestamp:time");
    assert_eq!((&found["matched"], &found["row"], &found["col"]), (&json!(true), &json!(0), &json!(0)));
    let path = format!("/api/terminal/{id}/wait");
    // With no time, it looks once.
    target.post(&*path, json!({"text": "one", "timeoutMs": 0})).await.ok();
    let body = json!({"text": "two", "timeoutMs": 0});
    target.post(&*path, body).await.refused(408, "PROCESS_READY_TIMEOUT");
    let body = json!({"regex": "^two", "timeoutMs": 50});
    target.post(&*path, body).await.refused(408, "PROCESS_READY_TIMEOUT");
    let (waited, _) = tokio::join!(
        target.post(&*path, json!({"regex": r"got \w+ (\d+)$", "timeoutMs": 25_000})),
        target.type_in(&id, json!({"text": "it", "keys": ["enter"]}))
    );
    let waited = waited.ok();
    assert_eq!((&waited["text"], &waited["row"]), (&json!("got it 42"), &json!(2)));
    let idle = target.post(&*path, json!({"idleMs": 100, "timeoutMs": 25_000})).await.ok();
    assert_shape(&idle, "success:flag matched:flag timestamp:time");
    let body = json!({"idleMs": 600_000, "timeoutMs": 20});
    target.post(&*path, body).await.refused(408, "PROCESS_READY_TIMEOUT");
    // A wait that cannot be fulfilled any more does not last.
    let (waited, _) = tokio::join!(
        target.post(&*path, json!({"text": "never", "timeoutMs": 25_000})),
        target.delete_terminal(&id)
    );
    waited.refused(409, "PROCESS_ENDED");
    target.post(&*path, json!({"text": "got it"})).await.ok();
    target.post(&*path, json!({"idleMs": 600_000})).await.ok();
    // Output that paints the same again is not a change.
    let id = target.terminal(json!({"command": "while :; do printf '\\r|'; sleep 0.02; done"})).await;
    target.shows(&id, "|").await;
    let path = format!("/api/terminal/{id}/wait");
    target.post(&*path, json!({"idleMs": 500, "timeoutMs": 25_000})).await.ok();
    target.delete_terminal(&id).await;
    let id =
        target.terminal(json!({"command": "while :; do printf '\\r%s' $((++i)); sleep 0.02; done"})).await;
    target.shows(&id, "1").await;
    let body = json!({"idleMs": 10_000, "timeoutMs": 500});
    target.post(format!("/api/terminal/{id}/wait"), body).await.refused(408, "PROCESS_READY_TIMEOUT");
    target.delete_terminal(&id).await;
}

/// A wait for a screen that does not change keeps no other client from it, also if the program writes what is not shown.
pub(super) async fn a_wait_keeps_nothing(target: Target) {
    let command = "stty raw -echo; printf ready; while IFS= read -rn 1 x; do printf '\\0'; done";
    let id = target.terminal(json!({"command": command})).await;
    target.shows(&id, "ready").await;
    let path = format!("/api/terminal/{id}/wait");
    let waits = [json!({"idleMs": 600_000}), json!({"text": "never"})];
    let waits = futures_util::future::select_all(waits.map(|body| Box::pin(target.post(&*path, body))));
    let others = async {
        for _ in 0..20 {
            target.type_in(&id, json!({"text": "x"})).await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            assert_eq!(text(&target.screen(&id).await["text"]).trim_end(), "ready");
        }
    };
    tokio::select! {
        (ended, ..) = waits => panic!("a wait has ended: {}", ended.text()),
        () = others => {}
    }
    target.delete_terminal(&id).await;
}

pub(super) async fn a_recording(target: Target) {
    let command = "printf 'é\\n'; read -r x; printf 'two\\n'; read -r x";
    let id = target.terminal(json!({"command": command, "cols": 50, "rows": 20})).await;
    target.shows(&id, "é").await;
    target.post(format!("/api/terminal/{id}/resize"), json!({"cols": 60, "rows": 25})).await.ok();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    target.type_in(&id, json!({"keys": ["enter"]})).await;
    target.shows(&id, "two").await;
    for path in [
        format!("/api/terminal/{id}/recording"),
        format!("/api/terminal/{id}/recording?format=asciicast"),
        format!("/api/process/{id}/recording"),
    ] {
        let answer = target.get(path).await;
        assert_eq!(answer.header("content-type"), Some("application/x-asciicast"));
        let lines = asciicast(&answer.text());
        assert_eq!((&lines[0]["version"], &lines[0]["width"]), (&json!(2), &json!(50)));
        let events = &lines[1..];
        let at = |wanted: &str| {
            let found =
                events.iter().find(|event| event[2].as_str().is_some_and(|data| data.contains(wanted)));
            found.unwrap_or_else(|| panic!("no {wanted:?} in {events:?}"))
        };
        assert_eq!((&at("60x25")[1], &at("é\r\n")[1]), (&json!("r"), &json!("o")));
        let time = |wanted: &str| at(wanted)[0].as_f64().expect("a time");
        let (first, size, second) = (time("é"), time("60x25"), time("two"));
        assert!(first <= size && size + 0.2 < second, "{events:?}");
    }
    target.delete_terminal(&id).await;
    let process = target.start(json!({"command": "echo a; echo b >&2"})).await;
    target.ended(&process).await;
    let lines = asciicast(&target.get(format!("/api/process/{process}/recording")).await.text());
    let all: String = lines[1..].iter().map(|event| text(&event[2])).collect();
    assert!(all == "a\r\nb\r\n" || all == "b\r\na\r\n", "{all:?}");
}

fn asciicast(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

pub(super) async fn it_is_an_execution(target: Target) {
    let mut events = target.stream(Request::get("/api/events")).await;
    let id = target.terminal(json!({"command": "echo hello; read -r x; exit 7"})).await;
    target.shows(&id, "hello").await;
    target.until(&format!("/api/process/{id}"), |answer| answer["process"]["waiting"] == "input").await;
    assert!(text(&target.get(format!("/api/process/{id}/logs")).await.ok()["stdout"]).contains("hello\r\n"));
    target.type_in(&id, json!({"keys": ["enter"]})).await;
    assert_eq!(target.ended(&id).await["exitCode"], 7);
    for kind in ["execution_started", "execution_ended"] {
        loop {
            let event = events.next().await;
            if event.kind() == kind && event.data["process"]["id"] == id {
                break;
            }
        }
    }
    let terminal = target.get(format!("/api/terminal/{id}")).await.ok();
    assert_eq!(
        (&terminal["terminal"]["exitCode"], &terminal["terminal"]["status"]),
        (&json!(7), &json!("exited"))
    );
}

pub(super) async fn deleting_ends_daemons(target: Target) {
    let command = "setsid sleep 300 & echo daemon $! ready; read -r x";
    let id = target.terminal(json!({"command": command})).await;
    let found =
        target.post(format!("/api/terminal/{id}/wait"), json!({"regex": r"daemon (\d+) ready"})).await.ok();
    let pid: Value = text(&found["text"]).split(' ').nth(1).and_then(|pid| pid.parse::<u32>().ok()).into();
    assert!(target.is_alive(&pid).await);
    let deleted = target.delete_terminal(&id).await;
    assert_eq!((&deleted["success"], &deleted["survivors"]), (&json!(true), &json!([])));
    assert!(!target.is_alive(&pid).await);
    // One that has ended by itself, too.
    let command = "setsid bash -c 'echo daemonized; exec sleep 300' & read -r x; exit 0";
    let id = target.terminal(json!({"command": command})).await;
    target.shows(&id, "daemonized").await;
    target.type_in(&id, json!({"keys": ["enter"]})).await;
    target.ended(&id).await;
    let deleted = target.delete_terminal(&id).await;
    assert_eq!(deleted["killed"].as_array().map(Vec::len), Some(1), "{deleted}");
}

pub(super) async fn it_starts_from_a_session(target: Target) {
    let session = target.new_session().await;
    target
        .in_session(&session, "cd /usr; export GREETING=hi; greet() { echo \"$GREETING from $PWD\"; }")
        .await;
    let id = target.terminal(json!({"sessionId": session})).await;
    target.type_in(&id, json!({"text": "greet", "keys": ["enter"]})).await;
    target.shows(&id, "hi from /usr").await;
    let terminal = target.get(format!("/api/terminal/{id}")).await.ok();
    assert_eq!(terminal["terminal"]["sessionId"], session.as_str());
    // It ends with its session.
    target.delete_session(&session).await;
    assert_eq!(target.ended(&id).await["end"]["reason"], "killed");
}

/// Where no viewer answers the queries of a program, the server does.
pub(super) async fn queries_are_answered(target: Target) {
    let command =
        "stty raw -echo; printf 'abc\\e[6n\\e[c'; head -c 8 | cat -v; printf ' done'; exec sleep 300";
    let id = target.terminal(json!({"command": command})).await;
    target.shows(&id, "^[[1;4R").await;
    target.shows(&id, "done").await;
    target.delete_terminal(&id).await;
    // In their order, however fast they follow each other.
    let command = "stty raw -echo; for col in {1..60}; do printf '\\e[%dG\\e[6n' $col; done; \
                   for col in {1..60}; do IFS=';' read -rd R row seen; [[ $seen = $col ]] || echo \"$seen for $col\"; done; \
                   printf '\\r\\ndone'; exec sleep 300";
    for _ in 0..40 {
        let id = target.terminal(json!({"command": command})).await;
        target.shows(&id, "done").await;
        let screen = target.screen(&id).await;
        assert_eq!(text(&screen["text"]).trim(), "done", "{screen}");
        target.delete_terminal(&id).await;
    }
}
