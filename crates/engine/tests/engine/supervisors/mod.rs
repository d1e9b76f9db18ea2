//! Supervisors that are killed, stopped or silent, and what connects to them.

mod foreign_connections;
mod killed;
mod pool;
mod revived;
mod silent;
mod stopped;
mod unread;

use sandcrab_engine::{CommandSpec, Engine};

use crate::support::{Place, Seen, eventually, supervisor_of, with_argument};

/// A number of seconds for `sleep` that nothing else on this machine sleeps.
fn odd_seconds(place: &Place) -> String {
    let name = place.state();
    let sum: u64 = name.to_string_lossy().bytes().fold(7, |sum, b| (sum * 31 + u64::from(b)) % 1_000_000_007);
    format!("{}.{sum}", 300)
}

/// How many `sleep` sleep for so long.
fn sleeping(seconds: &str) -> usize {
    with_argument(seconds).iter().filter(|seen| seen.name() == "sleep").count()
}

/// The files in which a session's state is saved, with their times.
fn saved(place: &Place) -> Vec<std::time::SystemTime> {
    let entries = std::fs::read_dir(place.state().join("snapshots")).unwrap();
    entries.filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok()).collect()
}

/// The supervisor of an idle session.
async fn supervisor_of_session(session: &sandcrab_engine::Session) -> Seen {
    let execution =
        session.start(CommandSpec::shell("read line").stdin(sandcrab_engine::Stdin::Open)).await.unwrap();
    execution.wait_started().await.unwrap();
    let supervisor = supervisor_of(&execution);
    execution.close_stdin().await.unwrap();
    execution.wait().await.unwrap();
    supervisor
}

async fn ready(place: &Place, engine: &Engine) -> Vec<Seen> {
    engine.run(CommandSpec::shell("true")).await.unwrap();
    eventually("four are ready", || place.supervisors().len() == 4 && place.count("supervisors") == 4).await;
    place.supervisors()
}

/// Sends SIGSTOP to a process that the test has found itself.
fn stop(process: Seen) {
    let pid = rustix::process::Pid::from_raw(process.pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
}

/// The sockets of the supervisors.
fn sockets(place: &Place) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(place.state().join("supervisors")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}
