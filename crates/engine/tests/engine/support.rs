//! What the tests share: an engine on a state directory of its own.

use std::path::PathBuf;

use sandcrab_engine::{Engine, EngineConfig, SupervisorProgram};

/// The supervisor program of this build.
pub(crate) fn supervisor() -> SupervisorProgram {
    SupervisorProgram::At(PathBuf::from(env!("CARGO_BIN_EXE_sandcrab-supervisor")))
}

/// An engine on a state directory that is removed with it.
pub(crate) struct Fixture {
    pub(crate) engine: Engine,
    pub(crate) dir: tempfile::TempDir,
}

/// A configuration for tests, on this state directory.
pub(crate) fn config(dir: &std::path::Path) -> EngineConfig {
    let mut config = EngineConfig::new(dir);
    config.supervisor = supervisor();
    config
}

/// Opens an engine with the defaults.
pub(crate) async fn open() -> Fixture {
    open_with(|_| ()).await
}

/// Opens an engine with changes to the defaults.
pub(crate) async fn open_with(change: impl FnOnce(&mut EngineConfig)) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    change(&mut config);
    Fixture { engine: Engine::open(config).await.unwrap(), dir }
}

/// The parent of a process, if the process is there.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    status_line(pid, "PPid:")?.parse().ok()
}

/// What a process has in memory, in bytes; 0 if it is gone.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let kib =
        status_line(pid, "VmRSS:").and_then(|line| line.trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Whether a process has ended and was not reaped.
pub(crate) fn is_zombie(pid: u32) -> bool {
    status_line(pid, "State:").is_some_and(|state| state.starts_with('Z'))
}

fn status_line(pid: u32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned())
}

/// The processor time a process has used, in ticks of 10 ms; 0 if it is gone.
pub(crate) fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Counted from behind the name, which may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Every process below this one.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut children = std::collections::HashMap::<u32, Vec<u32>>::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        if let Ok(pid) = entry.file_name().to_string_lossy().parse()
            && let Some(parent) = parent(pid)
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = children.remove(&pid).unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    found
}
