//! Many commands leave nothing behind, and sessions that wait cost nothing.

use std::time::Duration;

use sandcrab_engine::{CommandSpec, EngineConfig, SessionSpec};

use crate::support::{Scene, cpu_ticks, descendants, eventually, is_zombie, resident_bytes};

/// How many free journals the engine may have, and have open, for the commands to come: now more and now fewer.
const OPEN_AHEAD: usize = 64;

/// Free journals that are kept for later commands. There are more of them if commands come faster than the records of
/// earlier ones are removed, as on a busy machine.
const FREE_SLOTS: usize = 512;

/// What could grow.
#[derive(Debug, Clone, Copy)]
struct Usage {
    descriptors: usize,
    processes: usize,
    zombies: usize,
    files: usize,
    engine_bytes: u64,
    others_bytes: u64,
}

impl Usage {
    /// Once everything has settled, and no more than `kept` records are left.
    async fn of(scene: &Scene, kept: usize) -> Self {
        let own = std::process::id();
        // The zygote, a supervisor and its shell for each session, and for what is kept ready also the fork of its shell that
        // waits for a command: the ready ones have come back, what has ended is reaped, states are saved.
        eventually("all is quiet", || {
            let health = scene.engine.health();
            scene.engine.executions().len() <= kept
                && health.ready == 1
                && descendants(own).len() == 1 + 3 * health.ready + 2 * health.sessions
        })
        .await;
        let processes = descendants(own);
        let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
        let state = scene.place.state();
        let folders = ["", "journals", "supervisors", "snapshots"];
        Self {
            descriptors: count("/proc/self/fd"),
            zombies: processes.iter().filter(|pid| is_zombie(**pid)).count(),
            files: folders.iter().map(|name| count(state.join(name).to_str().unwrap())).sum(),
            engine_bytes: resident_bytes(own),
            others_bytes: processes.iter().map(|pid| resident_bytes(*pid)).sum(),
            processes: processes.len(),
        }
    }

    fn check_not_grown_since(&self, before: &Self) {
        let grown = format!("from {before:?} to {self:?}");
        assert_eq!(self.zombies, 0, "zombies: {grown}");
        assert!(self.descriptors <= before.descriptors + OPEN_AHEAD + 2, "descriptors: {grown}");
        assert!(self.processes <= before.processes, "processes: {grown}");
        assert!(self.files <= before.files + OPEN_AHEAD + FREE_SLOTS, "files: {grown}");
        assert!(self.engine_bytes <= before.engine_bytes + (4 << 20), "memory of the engine: {grown}");
        assert!(self.others_bytes <= before.others_bytes + (2 << 20), "memory of the others: {grown}");
    }
}

/// As many finished ones as are kept are there at the first look.
fn keep_few(config: &mut EngineConfig, count: usize) -> usize {
    (config.retention.max_count, config.retention.grace) = (count / 20, Duration::ZERO);
    // Retention tolerates a sixteenth more, so that not every end causes a clean-up.
    config.retention.max_count + config.retention.max_count / 16
}

async fn session_commands(count: usize) {
    let mut kept = 0;
    let scene = Scene::open_with(|config| kept = keep_few(config, count)).await;
    let session = scene.engine.create_session(SessionSpec::new()).await.unwrap();
    let mut before = None;
    for number in 0..count {
        if number == count / 10 {
            before = Some(Usage::of(&scene, kept).await);
        }
        let text = match number % 10 {
            0 => "x=$(echo some words); /bin/true",
            1 => "printf '%s\\n' {1..50}; echo problem >&2",
            _ => "true",
        };
        let outcome = session.run(CommandSpec::shell(text)).await.unwrap();
        assert_eq!(outcome.exit_code(), 0);
    }
    Usage::of(&scene, kept).await.check_not_grown_since(&before.unwrap());
    session.delete().await.unwrap();
}

async fn stateless_commands(count: usize) {
    let mut kept = 0;
    let scene = Scene::open_with(|config| kept = keep_few(config, count)).await;
    let mut before = None;
    for number in 0..count {
        if number == count / 10 {
            before = Some(Usage::of(&scene, kept).await);
        }
        let spec =
            if number % 4 == 0 { CommandSpec::argv(["true"]) } else { CommandSpec::shell("echo words") };
        assert_eq!(scene.engine.run(spec).await.unwrap().exit_code(), 0);
    }
    Usage::of(&scene, kept).await.check_not_grown_since(&before.unwrap());
}

/// Sessions that wait cost no time: not the engine's, not their supervisors', not their shells'.
async fn idle_sessions(count: usize) {
    let scene = Scene::open_with(|_| ()).await;
    let mut sessions = Vec::new();
    for _ in 0..count {
        let session = scene.engine.create_session(SessionSpec::new()).await.unwrap();
        session.run(CommandSpec::shell("x=1; cd /")).await.unwrap();
        sessions.push(session);
    }
    let processes = descendants(std::process::id());
    assert!(processes.len() >= 2 * count, "only {} processes", processes.len());
    let ticks = || processes.iter().map(|pid| cpu_ticks(*pid)).sum::<u64>();
    // On a busy machine it takes a while until all states are saved.
    let mut used = Vec::new();
    while !used.last().is_some_and(|(others, own)| *others <= 1 && *own <= 1) {
        assert!(used.len() < 10, "ticks of supervisors and shells, and of the engine, in 3 s: {used:?}");
        tokio::time::sleep(Duration::from_secs(2)).await;
        // Reading all of this costs the engine's process time of its own, so its ticks are read inside.
        let (before, own_before) = (ticks(), cpu_ticks(std::process::id()));
        tokio::time::sleep(Duration::from_secs(3)).await;
        let (own_after, after) = (cpu_ticks(std::process::id()), ticks());
        used.push((after - before, own_after - own_before));
    }
    for session in sessions {
        session.delete().await.unwrap();
    }
}

#[tokio::test]
async fn session_commands_leave_nothing_behind() {
    session_commands(1_000).await;
}

#[tokio::test]
async fn soak_a_hundred_thousand_session_commands_leave_nothing_behind() {
    session_commands(100_000).await;
}

#[tokio::test]
async fn stateless_commands_leave_nothing_behind() {
    stateless_commands(200).await;
}

#[tokio::test]
async fn soak_twenty_thousand_stateless_commands_leave_nothing_behind() {
    stateless_commands(20_000).await;
}

#[tokio::test]
async fn serial_idle_sessions_cost_nothing() {
    idle_sessions(50).await;
}

#[tokio::test]
async fn soak_a_thousand_idle_sessions_cost_nothing() {
    idle_sessions(1_000).await;
}
