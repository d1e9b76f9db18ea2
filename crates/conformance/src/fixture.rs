//! Shared code of the fixture programs: forking, detaching, arguments, and predictable output.
//!
//! JUSTIFICATION: the fixtures need functions of the C library that have no safe interface (fork without
//! exec, signal dispositions, a raw exit), so this module contains unsafe code. The programs themselves
//! contain none. They are single-threaded.
#![expect(unsafe_code, reason = "fixtures do what no safe interface offers")]

mod arguments;
pub mod attack;
mod output;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

pub use arguments::{argument, argument_or, fail};
pub use output::{FLOOD_BLOCK_BYTES, Flood, binary_sample};

/// Environment variable with the lifetime of a fixture in seconds.
pub const LIFETIME_VARIABLE: &str = "SANDCRAB_FIXTURE_SECONDS";
/// Default of [`LIFETIME_VARIABLE`].
pub const DEFAULT_LIFETIME: Duration = Duration::from_secs(120);

static DEADLINE: OnceLock<Instant> = OnceLock::new();

/// Limits the lifetime of this process and of all processes that it forks. Every fixture calls it first.
pub fn start() {
    let seconds = std::env::var(LIFETIME_VARIABLE).ok().and_then(|text| text.parse().ok());
    start_for(seconds.map_or(DEFAULT_LIFETIME, Duration::from_secs));
}

/// Like [`start`], with a given lifetime.
pub fn start_for(lifetime: Duration) {
    DEADLINE.get_or_init(|| Instant::now() + lifetime);
    arm();
}

/// Requests SIGALRM at the deadline, which ends the process in any state.
fn arm() {
    let left = DEADLINE.get().map_or(DEFAULT_LIFETIME, |end| end.saturating_duration_since(Instant::now()));
    let seconds = libc::c_uint::try_from(left.as_secs()).unwrap_or(libc::c_uint::MAX);
    // SAFETY: neither call has preconditions; SIG_DFL is a valid disposition.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(seconds.saturating_add(1));
    }
}

/// Returns whether the lifetime is over, for loops that fork.
pub fn is_over() -> bool {
    DEADLINE.get().is_some_and(|end| Instant::now() >= *end)
}

/// Forks. Returns the process id of the child in the parent, and `None` in the child, whose lifetime is
/// limited too.
pub fn fork() -> Option<i32> {
    // SAFETY: fixtures are single-threaded, so no lock is held by a thread the child does not have.
    match unsafe { libc::fork() } {
        -1 => fail(&format!("could not fork: {}", io::Error::last_os_error())),
        0 => {
            arm();
            None
        }
        pid => Some(pid),
    }
}

/// Waits for any child. Returns `false` if there is none.
pub fn wait() -> bool {
    let mut status = 0;
    // SAFETY: the pointer is valid for writing.
    unsafe { libc::wait(&raw mut status) > 0 }
}

/// Exits at once, without exit handlers.
pub fn end(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Makes this process a session leader.
pub fn leave_session() {
    // SAFETY: setsid has no preconditions.
    if unsafe { libc::setsid() } < 0 {
        fail(&format!("could not start a session: {}", io::Error::last_os_error()));
    }
}

/// Redirects the standard streams to /dev/null, as a daemon does.
pub fn detach_stdio() {
    let null = match File::options().read(true).write(true).open("/dev/null") {
        Ok(file) => file,
        Err(error) => fail(&format!("could not open /dev/null: {error}")),
    };
    for target in 0..=2 {
        // SAFETY: both are descriptors of this process; dup2 replaces the target in one step.
        unsafe { libc::dup2(null.as_raw_fd(), target) };
    }
}

/// Ignores a signal in this process and its future children.
pub fn ignore_signal(signal: i32) {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Sends itself a signal, without a core file. Returns if the signal does not end the process.
pub fn die_of(signal: i32) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is initialised; SIG_DFL is a valid disposition; kill has no preconditions.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
}

/// Forks twice, so that the process that runs `work` is an orphan. Returns its process id once it has
/// detached from the standard streams.
pub fn daemon(new_session: bool, work: impl FnOnce()) -> i32 {
    let (mut reader, mut writer) = match io::pipe() {
        Ok(ends) => ends,
        Err(error) => fail(&format!("could not make a pipe: {error}")),
    };
    if fork().is_none() {
        drop(reader);
        if new_session {
            leave_session();
        }
        if fork().is_none() {
            detach_stdio();
            let told = writer.write_all(&std::process::id().to_ne_bytes());
            drop(writer);
            if told.is_ok() {
                work();
            }
        }
        end(0);
    }
    drop(writer);
    wait();
    let mut pid = [0; 4];
    if let Err(error) = reader.read_exact(&mut pid) {
        fail(&format!("the daemon did not start: {error}"));
    }
    i32::from_ne_bytes(pid)
}

/// Sleeps until a signal or the lifetime ends the process.
pub fn sleep_until_killed() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// Prints a line. Exits silently if the reader has closed the pipe.
pub fn say(line: &str) {
    if writeln!(io::stdout(), "{line}").is_err() {
        end(0);
    }
}
