//! The benchmark of terminals: a server in a process of its own, viewed over its WebSocket.
//!
//! The floors are a pseudo-terminal without a server, and a WebSocket server without a terminal, measured in turns with
//! the figures. The program in each terminal is `cat` with a raw line discipline: it is the program that echoes, as a
//! shell or an editor does, and not the kernel.

mod echo;
mod floors;
mod idle;
mod throughput;
mod viewer;

use std::path::Path;

pub(super) use floors::init;
use viewer::Viewer;

use super::http::{Server, post};
use super::{FigureError, FigureLimit, Measure, Row, Table};

/// Starts a server, measures everything, and adds a row for each figure. Nothing is left running.
pub fn push_terminals(table: &mut Table, mut progress: impl FnMut(&str)) -> Result<(), FigureError> {
    let directory = tempfile::tempdir()?;
    let server = Server::start(&directory.path().join("state"))?;
    echo::push(&server, table, &mut progress)?;
    throughput::push(&server, directory.path(), table, &mut progress)?;
    attach(&server, table, &mut progress)?;
    idle::push(&server, table, &mut progress)
}

/// Creates a terminal that runs a shell command; its id.
fn create(server: &Server, command: Option<&str>, (cols, rows): (u16, u16)) -> Result<String, FigureError> {
    let body = serde_json::json!({"command": command, "cols": cols, "rows": rows});
    let answer = server.connect()?.ask_whole(&post("/api/terminal/create", &body.to_string()))?;
    let answer: serde_json::Value = serde_json::from_slice(&answer)?;
    Ok(answer["id"].as_str().ok_or("a terminal without an id")?.to_owned())
}

/// Attaches to a terminal whose program has printed `ready`, and reads the repaint.
fn attach_when_ready(server: &Server, id: &str, size: (u16, u16)) -> Result<Viewer, FigureError> {
    let body = r#"{"text":"ready","timeoutMs":30000}"#;
    server.connect()?.ask_size(&post(&format!("/api/terminal/{id}/wait"), body))?;
    let mut viewer = Viewer::attach(server.address(), id, size)?;
    viewer.read_until_ready()?;
    Ok(viewer)
}

/// How often a viewer attaches.
const ATTACHES: usize = 200;

/// Measures how long it takes from the connection to the end of the repaint, for a screen that is full of colours.
fn attach(server: &Server, table: &mut Table, progress: &mut dyn FnMut(&str)) -> Result<(), FigureError> {
    progress("attaching to a full screen");
    let size = (200, 50);
    let command = r#"stty raw -echo; for row in {1..50}; do for word in {1..25}; do
        printf '\e[%d;%dm%-8s' $((30 + (row + word) % 8)) $((40 + word % 8)) "$row.$word"; done; done; printf ready; exec cat"#;
    let id = create(server, Some(command), size)?;
    drop(attach_when_ready(server, &id, size)?);
    let mut times = Vec::with_capacity(ATTACHES);
    for _ in 0..ATTACHES {
        let start = std::time::Instant::now();
        let mut viewer = Viewer::attach(server.address(), &id, size)?;
        let painted = viewer.read_until_ready()?;
        times.push(start.elapsed());
        super::http::expect(painted > 200 * 50, "a repaint does not contain the screen")?;
    }
    let stats = super::Stats::of(times);
    let limit = FigureLimit::AtMost(Measure::Time(std::time::Duration::from_millis(5)));
    table.push(
        Row::new("attach to a full screen of 200 × 50, until it is repainted, p50", Measure::Time(stats.p50))
            .limit(limit),
    );
    table.push(Row::new(
        "attach to a full screen of 200 × 50, until it is repainted, p99",
        Measure::Time(stats.p99),
    ));
    Ok(())
}

/// A file with so many bytes of text lines.
fn write_lines(path: &Path, bytes: usize) -> std::io::Result<()> {
    let mut text = Vec::with_capacity(bytes + 80);
    let mut number = 0_u32;
    while text.len() < bytes {
        text.extend_from_slice(
            format!("{number:08} the quick brown fox jumps over the lazy dog\r\n").as_bytes(),
        );
        number += 1;
    }
    text.truncate(bytes);
    std::fs::write(path, text)
}
