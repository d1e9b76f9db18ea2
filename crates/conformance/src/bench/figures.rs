//! The figures of the engine, measured through its public interface.

use std::error::Error;
use std::fs;
use std::future::Future;
use std::time::{Duration, Instant};

use sandcrab_engine::{CommandSpec, Engine, Event, Execution, Session, SessionSpec, Status};

use super::{FigureLimit, Floors, Measure, Row, Stats, Table, rate};

/// An error while measuring.
pub type FigureError = Box<dyn Error + Send + Sync>;

/// Number of consecutive commands.
const COMMANDS: usize = 3_000;
/// Number of commands with a pause before each.
const COMMANDS_AFTER_PAUSE: usize = 1_000;
/// The same as for the floor: long enough for all processes to sleep.
const PAUSE: Duration = Duration::from_millis(1);
const STATELESS: usize = 300;
/// 100 per second.
const STATELESS_EVERY: Duration = Duration::from_millis(10);
const NEW_SESSIONS: usize = 150;
/// 50 per second.
const NEW_SESSIONS_EVERY: Duration = Duration::from_millis(20);
const KILLS: usize = 200;
/// Output of a session command in bytes.
const OUTPUT_BYTES: u64 = 50_000_000;
/// Number of rounds. The best counts, because memory that is touched for the first time is slow.
const OUTPUT_ROUNDS: usize = 8;
pub(super) const MANY_SESSIONS: usize = 100;
pub(super) const COMMANDS_EACH: usize = 20;
/// Number of rounds in which all sessions run their commands. The best counts.
const MANY_ROUNDS: usize = 5;

/// Number of sessions that are deleted concurrently.
const DELETIONS_AT_ONCE: usize = 16;

/// Measures all figures that take seconds, and adds a row for each.
pub async fn push_figures(
    engine: &Engine,
    floors: &Floors,
    table: &mut Table,
    mut progress: impl FnMut(&str),
) -> Result<(), FigureError> {
    let time = |stats: Stats| Measure::Time(stats.p50);
    let (trip, spawn) = (time(floors.bash_round_trip), time(floors.bash_spawn));
    let after_pause = time(floors.bash_round_trip_after_pause);
    let of_task = time(floors.bash_round_trip_of_task);

    progress("commands of a session");
    let session = engine.create_session(SessionSpec::new()).await?;
    let stats = session_commands(&session, COMMANDS, Duration::ZERO).await?;
    let limit = FigureLimit::AtMostTimesFloor(2.5);
    table.push(Row::new("session `true`, back to back, p50", time(stats)).floor(of_task).limit(limit));
    table.push(
        Row::new("session `true`, back to back, p50, to the floor on one core", time(stats)).floor(trip),
    );
    table.push(Row::new("session `true`, back to back, p99", Measure::Time(stats.p99)));
    progress("commands of a session, after a pause");
    let stats = session_commands(&session, COMMANDS_AFTER_PAUSE, PAUSE).await?;
    table.push(Row::new("session `true` after 1 ms, p50", time(stats)).floor(after_pause));
    table.push(Row::new("session `true` after 1 ms, p99", Measure::Time(stats.p99)));

    progress("stateless commands");
    let stats = stateless(engine, STATELESS, STATELESS_EVERY).await?;
    let limit = FigureLimit::AtMostTimesFloor(0.4);
    table.push(Row::new("stateless `true`, 100 a second, p50", time(stats)).floor(spawn).limit(limit));
    table.push(
        Row::new("stateless `true`, 100 a second, p50, to spawning bash as often", time(stats))
            .floor(time(floors.bash_spawn_at_pace)),
    );
    let stats = stateless(engine, STATELESS, Duration::ZERO).await?;
    table.push(
        Row::new("stateless `true`, back to back, mean", Measure::Time(stats.mean)).floor(spawn).limit(limit),
    );
    table.push(
        Row::new("stateless `true`, back to back, p99, to its p50", Measure::Time(stats.p99))
            .floor(time(stats))
            .limit(FigureLimit::AtMostTimesFloor(4.0)),
    );

    progress("new sessions");
    let stats = new_sessions(engine).await?;
    let limit = FigureLimit::AtMostTimesFloor(0.4);
    table.push(Row::new("new session, 50 a second, p50", time(stats)).floor(spawn).limit(limit));

    progress("kills");
    let stats = kills(engine).await?;
    let limit = FigureLimit::AtMostTimesFloor(1.0);
    table.push(Row::new("kill of `sleep`, to receipt and end, p50", time(stats)).floor(spawn).limit(limit));

    progress("output");
    let Throughput { written, followed, output } = throughput(&session).await?;
    let limit = FigureLimit::AtLeast(Measure::BytesPerSecond(1e9));
    let named = |what: &str| format!("50 MB of a session's command, {what}");
    table.push(Row::new(named("start to end"), written).floor(floors.pipe_rate).limit(limit));
    table.push(Row::new(named("followed afterwards"), followed).floor(floors.file_write_rate).limit(limit));
    table.push(Row::new(named("read as a whole"), output).floor(floors.file_write_rate).limit(limit));
    session.delete().await?;

    progress("many sessions");
    let Many { rate, pss } = many_sessions(engine).await?;
    let limit = FigureLimit::AtLeast(Measure::PerSecond(8_000.0));
    table.push(Row::new("100 sessions × 20 commands", rate).limit(limit));
    let limit = FigureLimit::AtMost(Measure::Bytes(500e3));
    table.push(Row::new("PSS of an idle session, bash and supervisor", pss).limit(limit));
    Ok(())
}

/// Deletes all sessions and kills all executions, also after a failure.
pub async fn delete_everything(engine: &Engine) {
    let mut tasks = tokio::task::JoinSet::new();
    for session in engine.sessions() {
        if tasks.len() >= DELETIONS_AT_ONCE {
            tasks.join_next().await;
        }
        tasks.spawn(async move { drop(session.delete().await) });
    }
    for execution in engine.executions() {
        if !matches!(execution.status(), Status::Ended(_)) {
            tasks.spawn(async move { drop(execution.kill(libc::SIGKILL, Duration::ZERO).await) });
        }
    }
    tasks.join_all().await;
}

/// Measures an operation a number of times, with a pause before each, after 10 % more to warm up.
async fn time_each<F>(
    samples: usize,
    pause: Duration,
    mut once: impl FnMut() -> F,
) -> Result<Stats, FigureError>
where
    F: Future<Output = Result<Duration, FigureError>>,
{
    let warm_up = samples.div_ceil(10);
    let mut times = Vec::with_capacity(samples);
    for number in 0..samples + warm_up {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let time = once().await?;
        if number >= warm_up {
            times.push(time);
        }
    }
    Ok(Stats::of(times))
}

fn expect_success(code: i32) -> Result<(), FigureError> {
    if code == 0 { Ok(()) } else { Err(format!("a command ended with {code}").into()) }
}

async fn session_commands(session: &Session, samples: usize, pause: Duration) -> Result<Stats, FigureError> {
    time_each(samples, pause, async || {
        let start = Instant::now();
        let outcome = session.run(CommandSpec::shell("true")).await?;
        let time = start.elapsed();
        expect_success(outcome.exit_code())?;
        Ok(time)
    })
    .await
}

/// Commands arrive at a steady rate: the interval is counted from start to start.
async fn stateless(engine: &Engine, samples: usize, every: Duration) -> Result<Stats, FigureError> {
    let mut arrivals = arrivals(every);
    let mut times = Vec::with_capacity(samples);
    let warm_up = samples.div_ceil(10);
    for number in 0..samples + warm_up {
        arrivals.next().await;
        let start = Instant::now();
        let outcome = engine.run(CommandSpec::shell("true")).await?;
        if number >= warm_up {
            times.push(start.elapsed());
        }
        expect_success(outcome.exit_code())?;
    }
    Ok(Stats::of(times))
}

async fn new_sessions(engine: &Engine) -> Result<Stats, FigureError> {
    let mut arrivals = arrivals(NEW_SESSIONS_EVERY);
    let mut times = Vec::with_capacity(NEW_SESSIONS);
    for _ in 0..NEW_SESSIONS {
        arrivals.next().await;
        let start = Instant::now();
        let session = engine.create_session(SessionSpec::new()).await?;
        times.push(start.elapsed());
        session.delete().await?;
    }
    Ok(Stats::of(times))
}

/// The arrival times of commands.
struct Arrivals {
    interval: Option<tokio::time::Interval>,
}

fn arrivals(every: Duration) -> Arrivals {
    let interval = (!every.is_zero()).then(|| tokio::time::interval(every));
    Arrivals { interval }
}

impl Arrivals {
    async fn next(&mut self) {
        if let Some(interval) = &mut self.interval {
            interval.tick().await;
        }
    }
}

async fn kills(engine: &Engine) -> Result<Stats, FigureError> {
    let mut times = Vec::with_capacity(KILLS);
    for _ in 0..KILLS {
        let execution = engine.start(CommandSpec::argv(["sleep", "60"])).await?;
        wait_until_asleep(&execution).await?;
        let start = Instant::now();
        let receipt = execution.kill(libc::SIGTERM, Duration::from_secs(5)).await?;
        execution.wait().await?;
        times.push(start.elapsed());
        if !receipt.killed.iter().any(|killed| killed.command == "sleep 60") || !receipt.survivors.is_empty()
        {
            return Err(format!("a kill of sleep gave {receipt:?}").into());
        }
    }
    Ok(Stats::of(times))
}

/// Waits until the program sleeps. A kill before that would measure something else.
async fn wait_until_asleep(execution: &Execution) -> Result<(), FigureError> {
    let pid = execution.info().pid.ok_or("an execution that runs has no process")?;
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        if stat.contains("(sleep) S") {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
}

/// Throughput, the best of several rounds each.
struct Throughput {
    /// From the start of the command to its end, with all output in the journal.
    written: Measure,
    /// Through a follower, after the end.
    followed: Measure,
    /// As one output.
    output: Measure,
}

async fn throughput(session: &Session) -> Result<Throughput, FigureError> {
    let mut best = [Duration::MAX; 3];
    for _ in 0..OUTPUT_ROUNDS {
        // The journal keeps all output, so no bytes are dropped to save time.
        let command =
            CommandSpec::shell(format!("head -c {OUTPUT_BYTES} /dev/zero")).journal_bytes(256 << 20);
        let start = Instant::now();
        let execution = session.start(command).await?;
        execution.wait().await?;
        best[0] = best[0].min(start.elapsed());

        let start = Instant::now();
        let mut follower = execution.follow(0)?;
        let mut bytes_seen = 0;
        while let Some(entry) = follower.next().await? {
            if let Event::Output { bytes, .. } = entry.event {
                bytes_seen += bytes.len() as u64;
            }
        }
        best[1] = best[1].min(start.elapsed());
        expect_bytes(bytes_seen)?;

        let start = Instant::now();
        let output = execution.output(usize::MAX)?;
        best[2] = best[2].min(start.elapsed());
        expect_bytes(output.stdout.bytes.len() as u64)?;
    }
    let [written, followed, output] = best.map(|time| rate(OUTPUT_BYTES, time));
    Ok(Throughput { written, followed, output })
}

fn expect_bytes(bytes: u64) -> Result<(), FigureError> {
    if bytes == OUTPUT_BYTES {
        Ok(())
    } else {
        Err(format!("{bytes} of {OUTPUT_BYTES} bytes came out").into())
    }
}

struct Many {
    rate: Measure,
    pss: Measure,
}

/// Sessions that run commands concurrently.
#[derive(Debug, Clone)]
pub(super) struct Sessions(Vec<Session>);

impl Sessions {
    pub(super) async fn create(engine: &Engine) -> Result<Self, FigureError> {
        let mut sessions = Vec::with_capacity(MANY_SESSIONS);
        for _ in 0..MANY_SESSIONS {
            sessions.push(engine.create_session(SessionSpec::new()).await?);
        }
        Ok(Self(sessions))
    }

    /// Runs the commands of all sessions. Returns the duration.
    pub(super) async fn run_all(&self) -> Result<Duration, FigureError> {
        let start = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for session in &self.0 {
            let session = session.clone();
            tasks.spawn(async move {
                for _ in 0..COMMANDS_EACH {
                    let outcome = session.run(CommandSpec::shell("true")).await?;
                    expect_success(outcome.exit_code())?;
                }
                Ok::<(), FigureError>(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(start.elapsed())
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures are shown with three digits")]
async fn many_sessions(engine: &Engine) -> Result<Many, FigureError> {
    let sessions = Sessions::create(engine).await?;
    let mut best = Duration::MAX;
    for _ in 0..MANY_ROUNDS {
        best = best.min(sessions.run_all().await?);
    }
    // Long enough for every session to save its state.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut pss = 0;
    for session in &sessions.0 {
        pss += session_pss(session).await?;
    }
    for session in sessions.0 {
        session.delete().await?;
    }
    let commands = (MANY_SESSIONS * COMMANDS_EACH) as f64;
    Ok(Many {
        rate: Measure::PerSecond(commands / best.as_secs_f64()),
        pss: Measure::Bytes(pss as f64 / MANY_SESSIONS as f64),
    })
}

/// Returns the memory of a session, bash and supervisor together. Shared pages count proportionally.
async fn session_pss(session: &Session) -> Result<u64, FigureError> {
    // The process id of a session's command is that of its shell.
    let execution = session.start(CommandSpec::shell(":")).await?;
    execution.wait().await?;
    let bash = execution.info().pid.ok_or("a command that has run has no process")?;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let supervisor = parent(bash)?;
    Ok(pss(bash)? + pss(supervisor)?)
}

fn parent(pid: u32) -> Result<u32, FigureError> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    Ok(line.ok_or("a process without a parent")?.trim().parse()?)
}

/// Returns the proportional set size of a process in bytes.
pub(super) fn pss(pid: u32) -> Result<u64, FigureError> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib: u64 = line.ok_or("no Pss in smaps_rollup")?.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib << 10)
}
