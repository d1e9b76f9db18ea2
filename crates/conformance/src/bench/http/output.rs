//! Large outputs: throughput, and the memory that the server keeps afterwards.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::program::{Memory, Program, Server};
use super::{Connection, OUTPUT_BYTES, bare, expect, post, request};
use crate::bench::{FigureError, FigureLimit, Measure, Row, Table, rate};

/// Number of rounds of each measurement. The best counts, because memory that is touched for the first time
/// is slow.
const ROUNDS: usize = 6;
/// A line of the text, as in a log, with characters that JSON escapes.
const LINE: &str = "2026-01-31T12:00:00.000Z INFO  request \"r-1\" was answered in 12.5 ms with 200, ok\n";

/// Measures memory and throughput of a new server, and adds a row for each.
pub(super) fn push(
    server: &Server,
    directory: &Path,
    table: &mut Table,
    progress: &mut dyn FnMut(&str),
) -> Result<(), FigureError> {
    let text = directory.join("text");
    let expected = write_text(&text)?;
    let mut connection = server.connect()?;
    connection.ask_size(&request("GET", "/api/ping"))?;
    let fresh = server.memory()?;

    progress("large outputs over HTTP");
    let session = server.new_session()?;
    let limit = 2 * OUTPUT_BYTES;
    let body = |options: &str| format!(r#"{{"command":"cat {}"{options}}}"#, text.display());
    let session = format!(r#","sessionId":"{session}""#);
    let bound = format!(r#","maxOutputBytes":{limit}"#);
    let stateless = body(&bound);
    let in_session = body(&format!("{session}{bound}"));
    let [exec_in_session, exec] = [&in_session, &stateless].map(|body| post("/api/execute", body));
    for request in [&exec_in_session, &exec, &exec_in_session, &exec] {
        expect_text(&connection.ask_whole(request)?, &expected)?;
    }
    let after = server.memory()?;

    let floor = Program::start(bare::command("{}"))?;
    let mut to_floor = floor.connect()?;
    let large = request("GET", bare::LARGE_PATH);
    let streams = [session.as_str(), ""].map(|options| post("/api/execute/stream", &body(options)));
    let mut best = [Duration::MAX; 6];
    for _ in 0..ROUNDS {
        let execution = execution_id(&connection.ask_whole(&exec)?)?;
        let raw = request("GET", &format!("/api/process/{execution}/output"));
        let mut time = |which: usize, connection: &mut Connection, request: &[u8], least: usize| {
            let start = Instant::now();
            let size = connection.ask_size(request)?;
            best[which] = best[which].min(start.elapsed());
            expect(size >= least, "an output is not whole")
        };
        time(0, &mut to_floor, &large, OUTPUT_BYTES)?;
        time(1, &mut connection, &exec_in_session, expected.len())?;
        time(2, &mut connection, &exec, expected.len())?;
        time(3, &mut connection, &streams[0], expected.len())?;
        time(4, &mut connection, &streams[1], expected.len())?;
        time(5, &mut connection, &raw, OUTPUT_BYTES)?;
    }
    let [floor, session_exec, exec, session_stream, stream, raw] =
        best.map(|time| rate(OUTPUT_BYTES as u64, time));
    table.push(Row::new("floor: 50 MB from a bare hyper handler", floor));
    for (name, value, limit) in [
        ("50 MB of text, session `exec`, as JSON", session_exec, 400e6),
        ("50 MB of text, stateless `exec`, as JSON", exec, 400e6),
        ("50 MB of text, session command, as events", session_stream, 250e6),
        ("50 MB of text, stateless command, as events", stream, 250e6),
        ("50 MB of text, raw, after the end", raw, 1e9),
    ] {
        table.push(
            Row::new(name, value).floor(floor).limit(FigureLimit::AtLeast(Measure::BytesPerSecond(limit))),
        );
    }
    push_memory(table, fresh, after, server.memory()?);
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "figures are shown with three digits")]
fn push_memory(table: &mut Table, fresh: Memory, after: Memory, later: Memory) {
    let bytes = |amount: u64| Measure::Bytes(amount as f64);
    let at_most = |amount: f64| FigureLimit::AtMost(Measure::Bytes(amount));
    table.push(Row::new("RSS of the server, fresh", bytes(fresh.server)).limit(at_most(15e6)));
    table.push(Row::new("RSS of the server, after 4 × 50 MB", bytes(after.server)).limit(at_most(40e6)));
    table.push(Row::new("RSS of the server, after all of these", bytes(later.server)).limit(at_most(40e6)));
    let name = format!("PSS of the {} processes around a fresh server", fresh.other_processes);
    table.push(Row::new(name, bytes(fresh.others)));
}

/// Writes the text, and returns it as escaped in JSON.
fn write_text(path: &Path) -> Result<String, FigureError> {
    let text: String = LINE.chars().cycle().take(OUTPUT_BYTES).collect();
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(text.as_bytes())?;
    file.flush()?;
    let json = serde_json::to_string(&text)?;
    Ok(json.trim_matches('"').to_owned())
}

/// Checks that the text arrived unchanged.
fn expect_text(answer: &[u8], expected: &str) -> Result<(), FigureError> {
    let rest = answer.strip_prefix(br#"{"stdout":""#);
    let whole = rest.and_then(|rest| rest.strip_prefix(expected.as_bytes()));
    expect(
        whole.is_some_and(|rest| rest.starts_with(b"\",\"stderr\":\"\",")),
        "an output is not what was written",
    )
}

fn execution_id(answer: &[u8]) -> Result<String, FigureError> {
    let answer: serde_json::Value = serde_json::from_slice(answer)?;
    Ok(answer["executionId"].as_str().ok_or("an answer without an execution")?.to_owned())
}
