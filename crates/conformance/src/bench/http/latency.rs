//! Latency of single requests.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use sandcrab_engine::{CommandSpec, Engine, EngineConfig, Session, SessionSpec};

use super::pinned::{PinnedRoundTrips, ResponderCore};
use super::program::Server;
use super::turns::{Part, take_turns};
use super::{Connection, expect, post, request};
use crate::bench::floors::bash_spawn_once;
use crate::bench::{FigureError, FigureLimit, Measure, Row, Stats, Table, delete_everything};

/// Rounds, and samples per round, of operations that take microseconds. Rounds are long, because the kernel
/// adapts to which processes communicate.
const SHORT_ROUNDS: usize = 5;
const SHORT_SAMPLES: usize = 2_000;
/// The same for operations that take milliseconds.
const LONG_ROUNDS: usize = 10;
const LONG_SAMPLES: usize = 20;
/// 100 per second.
const STATELESS_EVERY: Duration = Duration::from_millis(10);
/// 50 per second.
const NEW_SESSIONS_EVERY: Duration = Duration::from_millis(20);
/// Number of requests over which the client's own cost is measured.
const OWN_COST_SAMPLES: u32 = 2_000;

/// Measures the latency of single requests, and adds a row for each.
pub(super) fn push(
    server: &Server,
    directory: &Path,
    table: &mut Table,
    progress: &mut dyn FnMut(&str),
) -> Result<(), FigureError> {
    progress("pings and bash on one core");
    let one = PinnedRoundTrips::measure(ResponderCore::SameCore, &directory.join("one-core"))?;
    progress("pings and bash to another core");
    let two = PinnedRoundTrips::measure(ResponderCore::OtherCore, &directory.join("two-cores"))?;

    progress("session commands over HTTP, and through the engine alone");
    let session = server.new_session()?;
    let exec = post("/api/execute", &format!(r#"{{"command":"true","sessionId":"{session}"}}"#));
    let mut to_exec = server.connect()?;
    let alone = EngineSession::start()?;
    let [through_engine, run] = take_turns(
        SHORT_ROUNDS,
        [
            Part::new(SHORT_SAMPLES, || alone.run()),
            Part::new(SHORT_SAMPLES, || exec_once(&mut to_exec, &exec)),
        ],
    )?;

    progress("processor time of session commands");
    let before = server.processor_time();
    for _ in 0..OWN_COST_SAMPLES {
        exec_once(&mut to_exec, &exec)?;
    }
    let processor_time = server.processor_time().saturating_sub(before) / OWN_COST_SAMPLES;

    progress("stateless commands, new sessions, processes and kills over HTTP, and bash spawned");
    let mut connections = [server.connect()?, server.connect()?, server.connect()?, server.connect()?];
    let [to_stateless, to_create, to_start, to_kill] = &mut connections;
    let stateless = post("/api/execute", r#"{"command":"true"}"#);
    let [spawn, spawn_at_pace, ran, created, exited, killed] = take_turns(
        LONG_ROUNDS,
        [
            Part::new(LONG_SAMPLES, || Ok(bash_spawn_once()?)),
            Part::new(LONG_SAMPLES, || Ok(bash_spawn_once()?)).every(STATELESS_EVERY),
            Part::new(LONG_SAMPLES, || exec_once(to_stateless, &stateless)).every(STATELESS_EVERY),
            Part::new(LONG_SAMPLES, || create_session(to_create)).every(NEW_SESSIONS_EVERY),
            Part::new(LONG_SAMPLES, || start_to_exit(to_start)),
            Part::new(LONG_SAMPLES, || kill(to_kill)),
        ],
    )?;

    let time = |stats: Stats| Measure::Time(stats.p50);
    let after = |first: Stats| Measure::Time(first.p50 + two.ping.p50);
    let rows = [
        Row::new("floor: bare hyper handler, on one core, p50", time(one.bare)),
        Row::new("floor: bare hyper handler, on another core, p50", time(two.bare)),
        Row::new("floor: the client's own processor time, a request", Measure::Time(one.own)),
        Row::new("floor: bare bash round trip, on one core, p50", time(one.bash)),
        Row::new("floor: bare bash round trip, on another core, p50", time(two.bash)),
        Row::new("floor: session `true` through the engine alone, p50", time(through_engine)),
        Row::new("floor: spawning bash, p50", time(spawn)),
        Row::new("floor: spawning bash, 100 a second, p50", time(spawn_at_pace)),
        Row::new("`GET /api/ping`, on one core, p50", time(one.ping))
            .floor(time(one.bare))
            .limit(FigureLimit::AtMostTimesFloor(1.5)),
        Row::new("`GET /api/ping`, on another core, p50", time(two.ping))
            .floor(time(two.bare))
            .limit(FigureLimit::AtMostTimesFloor(1.5)),
        Row::new("session `true`, p50, to bash and ping on another core", time(run))
            .floor(after(two.bash))
            .limit(FigureLimit::AtMostTimesFloor(2.0)),
        Row::new("session `true`, everything on one core, p50, to bash and ping there", time(one.session))
            .floor(Measure::Time(one.bash.p50 + one.ping.p50)),
        Row::new("session `true`, p50, to the engine alone + ping", time(run)).floor(after(through_engine)),
        Row::new("session `true`, p99, to its p50", Measure::Time(run.p99))
            .floor(time(run))
            .limit(FigureLimit::AtMostTimesFloor(4.0)),
        Row::new("session `true`, processor time of all processes", Measure::Time(processor_time))
            .limit(FigureLimit::AtMost(Measure::Time(Duration::from_micros(120)))),
        Row::new("stateless `true`, 100 a second, p50, to spawning bash + ping", time(ran))
            .floor(after(spawn))
            .limit(FigureLimit::AtMostTimesFloor(0.3)),
        Row::new("stateless `true`, 100 a second, p50, to spawning bash as often + ping", time(ran))
            .floor(after(spawn_at_pace)),
        Row::new("new session, 50 a second, p50, to spawning bash + ping", time(created)).floor(after(spawn)),
        Row::new("process `echo`, start to exit event, p50, to spawning bash + ping", time(exited))
            .floor(after(spawn)),
        Row::new("kill of `sleep`, p50, to spawning bash + ping", time(killed)).floor(after(spawn)),
    ];
    rows.into_iter().for_each(|row| table.push(row));
    Ok(())
}

pub(super) fn exec_once(connection: &mut Connection, request: &[u8]) -> Result<Duration, FigureError> {
    let start = Instant::now();
    let mut succeeded = false;
    connection.ask(request, |piece| {
        succeeded |= piece.windows(14).any(|part| part == br#""success":true"#);
    })?;
    let time = start.elapsed();
    expect(succeeded, "a command over HTTP failed")?;
    Ok(time)
}

fn create_session(connection: &mut Connection) -> Result<Duration, FigureError> {
    let start = Instant::now();
    let answer = connection.ask_whole(&post("/api/session/create", "{}"))?;
    let time = start.elapsed();
    let answer: serde_json::Value = serde_json::from_slice(&answer)?;
    let body = serde_json::json!({"sessionId": answer["data"]["id"]});
    connection.ask_size(&post("/api/session/delete", &body.to_string()))?;
    Ok(time)
}

/// Starts a process. Returns its id and process id.
fn start(connection: &mut Connection, body: &str) -> Result<(String, u64), FigureError> {
    let answer = connection.ask_whole(&post("/api/process/start", body))?;
    let answer: serde_json::Value = serde_json::from_slice(&answer)?;
    let id = answer["processId"].as_str().ok_or("a process without an id")?;
    Ok((id.to_owned(), answer["pid"].as_u64().ok_or("a process without a pid")?))
}

fn start_to_exit(connection: &mut Connection) -> Result<Duration, FigureError> {
    let begun = Instant::now();
    let (id, _) = start(connection, r#"{"command":"echo hello"}"#)?;
    let events = connection.ask_whole(&request("GET", &format!("/api/process/{id}/stream")))?;
    let time = begun.elapsed();
    let events = String::from_utf8(events)?;
    expect(events.contains(r#""type":"exit""#) && events.contains(r"hello\n"), "a stream has no exit event")?;
    Ok(time)
}

fn kill(connection: &mut Connection) -> Result<Duration, FigureError> {
    let (id, pid) = start(connection, r#"{"command":"sleep","args":["60"]}"#)?;
    // A kill before the program sleeps would measure something else.
    let stat = Path::new("/proc").join(pid.to_string()).join("stat");
    while !fs::read_to_string(&stat)?.contains("(sleep) S") {
        thread::sleep(Duration::from_micros(200));
    }
    let delete = request("DELETE", &format!("/api/process/{id}"));
    let begun = Instant::now();
    let receipt = connection.ask_whole(&delete)?;
    let time = begun.elapsed();
    expect(String::from_utf8(receipt)?.contains(r#""command":"sleep 60""#), "a kill ended nothing")?;
    Ok(time)
}

/// A session of an engine without a server.
struct EngineSession {
    runtime: tokio::runtime::Runtime,
    engine: Engine,
    session: Session,
    _directory: tempfile::TempDir,
}

impl EngineSession {
    fn start() -> Result<Self, FigureError> {
        let directory = tempfile::tempdir()?;
        let runtime = tokio::runtime::Runtime::new()?;
        let engine = runtime.block_on(Engine::open(EngineConfig::new(directory.path())))?;
        let session = runtime.block_on(engine.create_session(SessionSpec::new()))?;
        Ok(Self { runtime, engine, session, _directory: directory })
    }

    /// Runs a command from a task, as a server does.
    fn run(&self) -> Result<Duration, FigureError> {
        let session = self.session.clone();
        self.runtime.block_on(self.runtime.spawn(async move {
            let start = Instant::now();
            session.run(CommandSpec::shell("true")).await?;
            Ok(start.elapsed())
        }))?
    }
}

impl Drop for EngineSession {
    fn drop(&mut self) {
        self.runtime.block_on(delete_everything(&self.engine));
    }
}

/// Returns the processor time of this thread per request.
pub(super) fn own_cost(connection: &mut Connection, request: &[u8]) -> Result<Duration, FigureError> {
    let on_processor = || -> Result<Duration, FigureError> {
        let stat = fs::read_to_string("/proc/thread-self/schedstat")?;
        let nanoseconds = stat.split(' ').next().unwrap_or_default().parse()?;
        Ok(Duration::from_nanos(nanoseconds))
    };
    let before = on_processor()?;
    for _ in 0..OWN_COST_SAMPLES {
        connection.ask_size(request)?;
    }
    Ok((on_processor()? - before) / OWN_COST_SAMPLES)
}
