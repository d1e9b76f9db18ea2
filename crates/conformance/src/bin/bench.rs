//! Measures the floors and the figures of one run and prints them as a table.
//!
//! `bench` measures the engine, the server and terminals; `--engine`, `--http` and `--terminals` only one of them,
//! `--workspace` files, which needs ripgrep, and `--previews` previews, which needs nginx. It prints;
//! `--write SPECIFICATION.md` also replaces the tables in that file; `--large` also measures ten thousand live sessions,
//! which needs 20,000 processes and 8 GiB of memory. Files are written to the temporary directory (`TMPDIR`). The exit
//! code is 1 if a figure misses its limit.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program")]

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs, io, thread};

use sandcrab_conformance::bench::{self, FigureError, Floors, Measure, Row, Section, Table};
use sandcrab_engine::{Engine, EngineConfig};

fn main() -> ExitCode {
    bench::init();
    sandcrab_engine::init();
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(missed) => {
            eprintln!("bench: {missed} of the figures missed their limits.");
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

/// Measures, prints and writes. Returns the number of figures that missed their limits.
fn run() -> Result<usize, Box<dyn Error>> {
    let Arguments { target, large, only } = arguments()?;
    let mut missed = 0;
    let default = [Section::Engine, Section::Http, Section::Terminals];
    let chosen = only.map(|only| vec![only]).unwrap_or_else(|| default.into());
    for section in chosen {
        let mut table = Table::new(machine());
        match section {
            Section::Engine => {
                let floors = Floors::measure(&env::temp_dir(), |next| eprintln!("measuring: {next}"))?;
                push_floors(&mut table, &floors);
                push_engine_figures(&mut table, &floors, large)?;
            }
            Section::Http => bench::push_http(&mut table, |next| eprintln!("measuring: {next}"))
                .map_err(|error| error as Box<dyn Error>)?,
            Section::Terminals => bench::push_terminals(&mut table, |next| eprintln!("measuring: {next}"))
                .map_err(|error| error as Box<dyn Error>)?,
            Section::Previews => bench::push_previews(&mut table, |next| eprintln!("measuring: {next}"))
                .map_err(|error| error as Box<dyn Error>)?,
            Section::Workspace => bench::push_workspace(&mut table, |next| eprintln!("measuring: {next}"))
                .map_err(|error| error as Box<dyn Error>)?,
        }
        println!("{table}");
        if let Some(path) = &target {
            table.write_into(path, section)?;
            eprintln!("wrote the table into {}", path.display());
        }
        missed += table.missed();
    }
    Ok(missed)
}

/// The command-line arguments.
#[derive(Debug, Default)]
struct Arguments {
    /// File to write the tables to.
    target: Option<PathBuf>,
    /// Whether to measure ten thousand sessions too.
    large: bool,
    /// The only section to measure, if any.
    only: Option<Section>,
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut arguments = Arguments::default();
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        match (word.as_str(), words.len()) {
            ("--large", _) => arguments.large = true,
            ("--engine", _) => arguments.only = Some(Section::Engine),
            ("--http", _) => arguments.only = Some(Section::Http),
            ("--terminals", _) => arguments.only = Some(Section::Terminals),
            ("--previews", _) => arguments.only = Some(Section::Previews),
            ("--workspace", _) => arguments.only = Some(Section::Workspace),
            ("--write", 1..) => arguments.target = words.next().map(PathBuf::from),
            _ => {
                return Err(
                    "usage: bench [--engine | --http | --terminals | --previews | --workspace] [--large] [--write FILE]"
                        .into(),
                );
            }
        }
    }
    Ok(arguments)
}

fn push_floors(table: &mut Table, floors: &Floors) {
    for (name, stats) in [
        ("bare bash round trip", floors.bash_round_trip),
        ("bare bash round trip after 1 ms", floors.bash_round_trip_after_pause),
        ("bare bash round trip from a task", floors.bash_round_trip_of_task),
        ("spawning bash", floors.bash_spawn),
        ("spawning bash, 100 a second", floors.bash_spawn_at_pace),
    ] {
        table.push(Row::new(format!("floor: {name}, p50"), Measure::Time(stats.p50)));
        table.push(Row::new(format!("floor: {name}, p99"), Measure::Time(stats.p99)));
    }
    table.push(Row::new("floor: pipe throughput", floors.pipe_rate));
    table.push(Row::new("floor: page cache write", floors.file_write_rate));
}

/// Measures the engine on a new state directory, which is cleaned up and removed at the end, also after a
/// failure.
fn push_engine_figures(table: &mut Table, floors: &Floors, large: bool) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let engine = runtime.block_on(Engine::open(EngineConfig::new(directory.path())))?;
    let guard = Guard { runtime, engine };
    let (engine, floors) = (guard.engine.clone(), floors.clone());
    // In a task, as in a server: the main thread is not a worker of the runtime.
    let figures = guard.runtime.spawn(async move {
        let mut table = Table::default();
        let progress = |next: &str| eprintln!("measuring: {next}");
        bench::push_figures(&engine, &floors, &mut table, progress).await?;
        if large {
            bench::push_large(&engine, &mut table, progress).await?;
        }
        Ok::<_, FigureError>(table)
    });
    let figures = guard.runtime.block_on(figures)?;
    table.append(figures.map_err(|error| error as Box<dyn Error>)?);
    Ok(())
}

/// Deletes all sessions on drop, also after a failure or panic.
struct Guard {
    runtime: tokio::runtime::Runtime,
    engine: Engine,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.runtime.block_on(bench::delete_everything(&self.engine));
    }
}

/// Describes the machine in a sentence.
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
