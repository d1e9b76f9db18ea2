//! The floors: the minimum cost of a round trip, a spawn, a pipe and a file on this machine.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Measure, Stats};
use crate::fixture::Flood;

/// Environment variable that makes [`init`] write this many bytes to standard output and exit.
const WRITER_VARIABLE: &str = "SANDCRAB_BENCH_WRITE_BYTES";
/// Number of bytes that pass through the pipe.
const PIPE_BYTES: u64 = 1 << 30;
/// Read size of the pipe's reader.
const PIPE_READ_BYTES: usize = 256 << 10;
/// Number of bytes written to the file.
const FILE_BYTES: u64 = 64 << 20;
const ROUND_TRIPS: usize = 3_000;
const ROUND_TRIPS_AFTER_PAUSE: usize = 1_000;
/// Long enough for both sides to sleep, as they do between commands of a real client.
const PAUSE: Duration = Duration::from_millis(1);
const SPAWNS: usize = 300;
const SPAWN_PACE: Duration = Duration::from_millis(10);
/// The fraction of samples that is discarded first, while caches and clocks settle.
const WARM_UP_DIVISOR: usize = 10;

/// The floors of one run.
#[derive(Debug, Clone)]
pub struct Floors {
    /// A line (`true; echo $?`) to a waiting bash and its reply, over pipes, without pauses. The kernel keeps
    /// both sides on one core, so no system of more than two processes comes close.
    pub bash_round_trip: Stats,
    /// The same with a pause of one millisecond before each, so that waking up counts.
    pub bash_round_trip_after_pause: Stats,
    /// The same without a pause, from a task of an async runtime with a worker per core, as in the engine.
    /// Bash and its client are on different cores, and most of the time is spent waking up.
    pub bash_round_trip_of_task: Stats,
    /// Starting bash without a command, and waiting for it.
    pub bash_spawn: Stats,
    /// The same 100 times per second, so that caches and cores were idle before each.
    pub bash_spawn_at_pace: Stats,
    /// Throughput of a pipe that a child fills.
    pub pipe_rate: Measure,
    /// Throughput of writing a file that is already in the page cache.
    pub file_write_rate: Measure,
}

impl Floors {
    /// Measures all floors, with files in `directory`. Calls `progress` before each.
    pub fn measure(directory: &Path, mut progress: impl FnMut(&str)) -> io::Result<Self> {
        progress("bare bash round trip");
        let round_trip = bash_round_trip(ROUND_TRIPS, Duration::ZERO)?;
        progress("bare bash round trip, after a pause");
        let after_pause = bash_round_trip(ROUND_TRIPS_AFTER_PAUSE, PAUSE)?;
        progress("bare bash round trip, from a task");
        let of_task = bash_round_trip_of_task(ROUND_TRIPS)?;
        progress("spawning bash");
        let back_to_back = bash_spawn(SPAWNS, Duration::ZERO)?;
        progress("spawning bash, a hundred a second");
        let at_pace = bash_spawn(SPAWNS, SPAWN_PACE)?;
        progress("pipe throughput");
        let pipe_rate = pipe_rate(Path::new("/proc/self/exe"), PIPE_BYTES)?;
        progress("page cache write");
        let file_write_rate = file_write_rate(directory, FILE_BYTES)?;
        Ok(Self {
            bash_round_trip: round_trip,
            bash_round_trip_after_pause: after_pause,
            bash_round_trip_of_task: of_task,
            bash_spawn: back_to_back,
            bash_spawn_at_pace: at_pace,
            pipe_rate,
            file_write_rate,
        })
    }
}

/// Call this first in `main`. It turns this process into the writer of [`pipe_rate`] or the bare handler, if
/// requested.
pub fn init() {
    super::http::init();
    super::terminal::init();
    let bytes = std::env::var(WRITER_VARIABLE).ok().and_then(|text| text.parse().ok());
    if let Some(bytes) = bytes {
        let written = write_flood(&io::stdout(), bytes);
        crate::fixture::end(i32::from(written.is_err()));
    }
}

/// Writes bytes of a [`Flood`] from one buffer, unbuffered.
pub fn write_flood(stream: &impl AsFd, bytes: u64) -> io::Result<()> {
    let mut file = File::from(stream.as_fd().try_clone_to_owned()?);
    let mut flood = Flood::new(0);
    let mut left = bytes;
    while left > 0 {
        let chunk = flood.chunk(left);
        let written = chunk.len();
        file.write_all(chunk)?;
        flood.advance(written);
        left -= written as u64;
    }
    Ok(())
}

fn bash() -> Command {
    let mut command = Command::new("bash");
    command.args(["--norc", "--noprofile"]).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Measures the round trip from a task of an async runtime.
pub fn bash_round_trip_of_task(samples: usize) -> io::Result<Stats> {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
    use tokio::net::unix::pipe;

    let mut child = bash().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("bash was started without pipes"));
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let times = runtime.block_on(async {
        let task = tokio::task::spawn(async move {
            let mut stdin = pipe::Sender::from_owned_fd(stdin.into())?;
            let mut stdout = tokio::io::BufReader::new(pipe::Receiver::from_owned_fd(stdout.into())?);
            let mut answer = String::new();
            let mut times = Vec::with_capacity(samples);
            for number in 0..samples + warm_up(samples) {
                answer.clear();
                let start = Instant::now();
                stdin.write_all(b"true; echo $?\n").await?;
                stdout.read_line(&mut answer).await?;
                if number >= warm_up(samples) {
                    times.push(start.elapsed());
                }
            }
            Ok::<_, io::Error>(times)
        });
        task.await.map_err(io::Error::other)?
    })?;
    child.wait()?;
    Ok(Stats::of(times))
}

fn warm_up(samples: usize) -> usize {
    samples.div_ceil(WARM_UP_DIVISOR)
}

/// A running bash that waits for lines.
#[derive(Debug)]
pub(super) struct BareBash {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    answer: String,
}

impl BareBash {
    pub(super) fn start() -> io::Result<Self> {
        let mut child = bash().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (stdin, Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("bash was started without pipes"));
        };
        Ok(Self { child, stdin, stdout: BufReader::new(stdout), answer: String::new() })
    }

    /// Measures one line and its reply.
    pub(super) fn round_trip(&mut self) -> io::Result<Duration> {
        self.answer.clear();
        let start = Instant::now();
        if let Some(stdin) = &mut self.stdin {
            stdin.write_all(b"true; echo $?\n")?;
        }
        self.stdout.read_line(&mut self.answer)?;
        let time = start.elapsed();
        match self.answer.as_str() {
            "0\n" => Ok(time),
            answer => Err(io::Error::other(format!("bash answered {answer:?}, not 0"))),
        }
    }
}

impl Drop for BareBash {
    fn drop(&mut self) {
        // Bash exits at the end of its input.
        self.stdin = None;
        drop(self.child.wait());
    }
}

/// Measures the round trips of a running bash over pipes, with a pause before each.
pub fn bash_round_trip(samples: usize, pause: Duration) -> io::Result<Stats> {
    let mut bash = BareBash::start()?;
    let mut times = Vec::with_capacity(samples);
    for number in 0..samples + warm_up(samples) {
        if !pause.is_zero() {
            thread::sleep(pause);
        }
        let time = bash.round_trip()?;
        if number >= warm_up(samples) {
            times.push(time);
        }
    }
    Ok(Stats::of(times))
}

/// Measures starting bash without a command, and waiting for its end.
pub fn bash_spawn(samples: usize, every: Duration) -> io::Result<Stats> {
    let mut times = Vec::with_capacity(samples);
    let mut next = Instant::now();
    for number in 0..samples + warm_up(samples) {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += every;
        let time = bash_spawn_once()?;
        if number >= warm_up(samples) {
            times.push(time);
        }
    }
    Ok(Stats::of(times))
}

pub(super) fn bash_spawn_once() -> io::Result<Duration> {
    let start = Instant::now();
    let status = bash().args(["-c", "true"]).status()?;
    let time = start.elapsed();
    if status.success() {
        Ok(time)
    } else {
        Err(io::Error::other(format!("bash -c true ended with {status}")))
    }
}

/// Measures how fast a reader empties a pipe that a child fills. The child is `program`, whose `main` calls
/// [`init`] first.
pub fn pipe_rate(program: &Path, bytes: u64) -> io::Result<Measure> {
    let mut child = Command::new(program)
        .env(WRITER_VARIABLE, bytes.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let Some(mut stdout) = child.stdout.take() else {
        return Err(io::Error::other("the writer was started without a pipe"));
    };
    let mut buffer = vec![0; PIPE_READ_BYTES];
    // The time starts with the first bytes, so that starting the child does not count.
    let mut total = stdout.read(&mut buffer)? as u64;
    let (start, before) = (Instant::now(), total);
    loop {
        match stdout.read(&mut buffer)? {
            0 => break,
            count => total += count as u64,
        }
    }
    let time = start.elapsed();
    let status = child.wait()?;
    if total != bytes || !status.success() {
        let message = format!("the writer wrote {total} of {bytes} bytes and ended with {status}");
        return Err(io::Error::other(message));
    }
    Ok(rate(total - before, time))
}

/// Measures writing a file in `directory` whose pages are in the cache: the second of two passes.
pub fn file_write_rate(directory: &Path, bytes: u64) -> io::Result<Measure> {
    let path = directory.join(format!("sandcrab-floor-{}", std::process::id()));
    let measured = write_twice(&path, bytes);
    std::fs::remove_file(&path)?;
    Ok(rate(bytes, measured?))
}

fn write_twice(path: &Path, bytes: u64) -> io::Result<Duration> {
    let mut file = File::create(path)?;
    write_flood(&file, bytes)?;
    file.rewind()?;
    let start = Instant::now();
    write_flood(&file, bytes)?;
    Ok(start.elapsed())
}

/// Converts bytes and a duration to a rate.
#[expect(clippy::cast_precision_loss, reason = "a rate is shown with three digits")]
pub fn rate(bytes: u64, time: Duration) -> Measure {
    Measure::BytesPerSecond(bytes as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_answers_and_spawns() {
        assert!(bash_round_trip(20, Duration::ZERO).unwrap().p50 > Duration::ZERO);
        assert!(bash_spawn(3, Duration::ZERO).unwrap().p50 > Duration::ZERO);
    }

    #[test]
    fn the_file_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let measured = file_write_rate(directory.path(), 1 << 20).unwrap();
        assert!(measured.amount() > 0.0);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
