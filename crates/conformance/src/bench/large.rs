//! Ten thousand live sessions on one machine.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sandcrab_engine::{CommandSpec, Engine, Session, SessionSpec};
use tokio::task::JoinSet;

use super::{FigureError, FigureLimit, Measure, Row, Stats, Table, delete_everything};

const SESSIONS: usize = 10_000;
/// Number of sessions that are created concurrently.
const AT_ONCE: usize = 8;
/// Number of sessions that run commands while the others are measured.
const BUSY: usize = 100;
/// Pause of a busy session between two commands. Together they run a thousand per second.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// Number of samples of the latency without load.
const ALONE: usize = 500;
/// Pause before each sample, with and without load, so that the samples themselves are not the load.
const PAUSE: Duration = Duration::from_millis(1);
/// Number of processes that the machine must allow beyond two per session.
const SPARE_PROCESSES: usize = 4_000;
const NEEDED_BYTES: u64 = 8 << 30;

/// Measures ten thousand live sessions, and adds a row for each figure. Deletes them afterwards.
pub async fn push_large(
    engine: &Engine,
    table: &mut Table,
    mut progress: impl FnMut(&str),
) -> Result<(), FigureError> {
    check_room()?;
    progress("one session alone");
    let alone = latency_alone(engine).await?;
    let memory_before = available_bytes()?;

    progress("ten thousand sessions: making them");
    let start = Instant::now();
    let sessions = Arc::new(make_sessions(engine).await?);
    let made_in = start.elapsed();
    #[expect(clippy::cast_precision_loss, reason = "figures are shown with three digits")]
    let per_second = SESSIONS as f64 / made_in.as_secs_f64();
    table.push(Row::new("10,000 sessions: made", Measure::PerSecond(per_second)));

    progress("ten thousand sessions: a command in each, while a hundred are busy");
    let paced = ask_each(&sessions, Some(PAUSE)).await?;
    let (floor, limit) = (Measure::Time(alone.p50), FigureLimit::AtMostTimesFloor(10.0));
    let named = |what: &str| format!("10,000 sessions, 100 busy: `true` in each, {what}");
    table.push(Row::new(named("p50"), Measure::Time(paced.p50)).floor(floor).limit(limit));
    table.push(Row::new(named("p99"), Measure::Time(paced.p99)).floor(floor).limit(limit));
    progress("ten thousand sessions: the same without a pause");
    let pressed = ask_each(&sessions, None).await?;
    table.push(Row::new(named("back to back, p50"), Measure::Time(pressed.p50)).floor(floor));
    table.push(Row::new(named("back to back, p99"), Measure::Time(pressed.p99)).floor(floor));

    tokio::time::sleep(Duration::from_secs(1)).await;
    #[expect(clippy::cast_precision_loss, reason = "figures are shown with three digits")]
    let memory = memory_before.saturating_sub(available_bytes()?) as f64;
    table.push(Row::new("10,000 sessions: memory of the machine", Measure::Bytes(memory)));

    progress("ten thousand sessions: deleting them");
    drop(sessions);
    let start = Instant::now();
    delete_everything(engine).await;
    table.push(Row::new("10,000 sessions: deleted in", Measure::Time(start.elapsed())));
    tokio::time::sleep(Duration::from_secs(2)).await;
    // The zygote, and the supervisors and shells that are kept ready.
    let left = descendants()?;
    if left > 32 || !engine.sessions().is_empty() {
        return Err(format!("{left} processes are left of ten thousand sessions").into());
    }
    Ok(())
}

fn check_room() -> Result<(), FigureError> {
    let number = |path: &str| -> Result<usize, FigureError> { Ok(fs::read_to_string(path)?.trim().parse()?) };
    let needed = 2 * SESSIONS + SPARE_PROCESSES;
    for path in ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"] {
        let limit = number(path)?;
        if limit < needed {
            return Err(format!("{path} is {limit}; ten thousand sessions need {needed}").into());
        }
    }
    let available = available_bytes()?;
    if available < NEEDED_BYTES {
        return Err(format!(
            "{available} bytes of memory are free; ten thousand sessions need {NEEDED_BYTES}"
        )
        .into());
    }
    Ok(())
}

fn available_bytes() -> Result<u64, FigureError> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: u64 = line.ok_or("no MemAvailable in meminfo")?.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib << 10)
}

/// Returns the number of descendants of this process.
fn descendants() -> Result<usize, FigureError> {
    let mut children = HashMap::<u32, Vec<u32>>::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent =
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = children.remove(&std::process::id()).unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    Ok(found.len())
}

async fn run_true(session: &Session) -> Result<Duration, FigureError> {
    let start = Instant::now();
    let outcome = session.run(CommandSpec::shell("true")).await?;
    let time = start.elapsed();
    if outcome.exit_code() == 0 { Ok(time) } else { Err("true failed".into()) }
}

async fn latency_alone(engine: &Engine) -> Result<Stats, FigureError> {
    let session = engine.create_session(SessionSpec::new()).await?;
    let mut times = Vec::with_capacity(ALONE);
    for _ in 0..ALONE {
        tokio::time::sleep(PAUSE).await;
        times.push(run_true(&session).await?);
    }
    session.delete().await?;
    Ok(Stats::of(times))
}

async fn make_sessions(engine: &Engine) -> Result<Vec<Session>, FigureError> {
    let made = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (engine, made) = (engine.clone(), Arc::clone(&made));
        tasks.spawn(async move {
            let mut own = Vec::new();
            while made.fetch_add(1, Ordering::Relaxed) < SESSIONS {
                own.push(engine.create_session(SessionSpec::new()).await?);
            }
            Ok::<_, FigureError>(own)
        });
    }
    let mut sessions = Vec::with_capacity(SESSIONS);
    while let Some(own) = tasks.join_next().await {
        sessions.extend(own??);
    }
    Ok(sessions)
}

/// Runs one command in each session that is not busy, one after the other.
async fn ask_each(sessions: &Arc<Vec<Session>>, pause: Option<Duration>) -> Result<Stats, FigureError> {
    let over = Arc::new(AtomicBool::new(false));
    let mut busy = JoinSet::new();
    for session in sessions.iter().take(BUSY) {
        let (session, over) = (session.clone(), Arc::clone(&over));
        busy.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                run_true(&session).await?;
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            Ok::<_, FigureError>(())
        });
    }
    let mut times = Vec::with_capacity(SESSIONS);
    let mut failed = None;
    for session in sessions.iter().skip(BUSY) {
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
        match run_true(session).await {
            Ok(time) => times.push(time),
            Err(error) => failed = Some(error),
        }
    }
    over.store(true, Ordering::Relaxed);
    while let Some(done) = busy.join_next().await {
        done??;
    }
    failed.map_or_else(|| Ok(Stats::of(times)), Err)
}
