//! Measures the floors and the figures of one run and prints them as a table.
//!
//! `bench` prints; `bench --write SPECIFICATION.md` also replaces the table in that file. Files are
//! written to the temporary directory (`TMPDIR`). The exit code is 1 if a figure misses its bar.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program")]

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs, io, thread};

use sandcrab_conformance::bench::{self, Floors, Measure, Row, Table};
use sandcrab_engine::{Engine, EngineConfig};

fn main() -> ExitCode {
    bench::init();
    sandcrab_engine::init();
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(missed) => {
            eprintln!("bench: {missed} of the figures missed their bars.");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("bench: {error}.");
            let mut source = error.source();
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::from(2)
        }
    }
}

/// Measures, prints and writes; the number of figures that missed their bars.
fn run() -> Result<usize, Box<dyn Error>> {
    let target = target()?;
    let floors = Floors::measure(&env::temp_dir(), |next| eprintln!("measuring: {next}"))?;
    let mut table = Table::new(machine());
    push_floors(&mut table, &floors);
    push_engine_figures(&mut table, &floors)?;
    println!("{table}");
    if let Some(path) = target {
        table.write_into(&path)?;
        eprintln!("wrote the table into {}", path.display());
    }
    Ok(table.missed())
}

/// The file named by `--write`, if there is one.
fn target() -> Result<Option<PathBuf>, Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Ok(None),
        ["--write", path] => Ok(Some(path.into())),
        _ => Err("usage: bench [--write FILE]".into()),
    }
}

fn push_floors(table: &mut Table, floors: &Floors) {
    for (name, stats) in [
        ("bare bash round trip", floors.bash_round_trip),
        ("bare bash round trip after 1 ms", floors.bash_round_trip_after_pause),
        ("spawning bash", floors.bash_spawn),
    ] {
        table.push(Row::new(format!("floor: {name}, p50"), Measure::Time(stats.p50)));
        table.push(Row::new(format!("floor: {name}, p99"), Measure::Time(stats.p99)));
    }
    table.push(Row::new("floor: pipe throughput", floors.pipe_rate));
    table.push(Row::new("floor: page cache write", floors.file_write_rate));
}

/// Measures the engine on a state directory of its own, which is empty of processes and removed at
/// the end, however that comes.
fn push_engine_figures(table: &mut Table, floors: &Floors) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let engine = runtime.block_on(Engine::open(EngineConfig::new(directory.path())))?;
    let guard = Guard { runtime, engine };
    let (engine, floors) = (guard.engine.clone(), floors.clone());
    // In a task, as a server would: the thread that waits here is none of the runtime's workers.
    let figures = guard.runtime.spawn(async move {
        let mut table = Table::default();
        let measured =
            bench::push_figures(&engine, &floors, &mut table, |next| eprintln!("measuring: {next}")).await;
        measured.map(|()| table)
    });
    let figures = guard.runtime.block_on(figures)?;
    table.append(figures.map_err(|error| error as Box<dyn Error>)?);
    Ok(())
}

/// Leaves no session behind, also when measuring fails or panics.
struct Guard {
    runtime: tokio::runtime::Runtime,
    engine: Engine,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.runtime.block_on(bench::delete_everything(&self.engine));
    }
}

/// A sentence on where this was measured.
fn machine() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.split(['-', '+']).next().unwrap_or_default();
    let bash = bash_version().unwrap_or_else(|_| "of unknown version".to_owned());
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    format!("Measured on {cores} cores, Linux {}, bash {bash}, {build} build.", kernel.trim())
}

fn bash_version() -> io::Result<String> {
    let text = r#"printf %s "${BASH_VERSION%%(*}""#;
    let mut bash =
        Command::new("bash").args(["--norc", "--noprofile", "-c", text]).stdout(Stdio::piped()).spawn()?;
    let version = bash.stdout.take().map(io::read_to_string).transpose()?;
    bash.wait()?;
    Ok(version.unwrap_or_default())
}
