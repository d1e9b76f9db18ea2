//! Finds bash and the driver that works with it.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::WaitOptions;

use super::{Driver, Report, Shell, ShellConfig, ShellJob, loaded};
use crate::spawn::ProcessSetup;
use crate::sys;

/// Maximum time for a shell to reply.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time of retries after a temporary failure: the engine waits a little longer.
const RETRY_TIMEOUT: Duration = Duration::from_secs(8);
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Why the loaded driver does not work.
#[derive(Debug)]
struct DriverFailure {
    reason: String,
    /// Whether the failure is temporary: the machine lacked resources or was too busy.
    is_temporary: bool,
}

impl DriverFailure {
    fn of(doing: &str, e: &io::Error) -> Self {
        let is_temporary = matches!(
            e.raw_os_error(),
            Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::ENOSPC)
        );
        Self { reason: format!("{doing}: {e}"), is_temporary }
    }

    fn late() -> Self {
        Self { reason: "the shell did not answer in time".into(), is_temporary: true }
    }
}

impl From<String> for DriverFailure {
    fn from(reason: String) -> Self {
        Self { reason, is_temporary: false }
    }
}

/// The bash of this machine: the first in PATH, or in its usual location.
pub(crate) fn find_bash() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/bin", "/usr/bin", "/usr/local/bin"].map(PathBuf::from))
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("bash"))
        .find(|bash| bash.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0))
}

/// The driver to use with this bash, and the reason if it is not the loaded one.
///
/// Starts a shell and runs a few commands. For single-threaded processes; it reaps the shell itself.
pub(crate) fn probe(bash: &Path) -> (Driver, Option<String>) {
    if !loaded::is_built() {
        return (Driver::Portable, Some("this build has no object for bash: there was no C compiler".into()));
    }
    let over = Instant::now() + RETRY_TIMEOUT;
    loop {
        match try_loaded(bash, over) {
            Ok(()) => return (Driver::Loaded, None),
            Err(unfit) if unfit.is_temporary && Instant::now() + RETRY_INTERVAL < over => {
                std::thread::sleep(RETRY_INTERVAL);
            }
            Err(unfit) => return (Driver::Portable, Some(unfit.reason)),
        }
    }
}

fn try_loaded(bash: &Path, over: Instant) -> Result<(), DriverFailure> {
    let env = [(OsString::from("PATH"), OsString::from("/usr/bin:/bin"))];
    let mut shell = Shell::start(&ShellConfig {
        driver: Driver::Loaded,
        bash,
        env: &env,
        cwd: Path::new("/"),
        setup: &ProcessSetup::default(),
    })
    .map_err(|e| DriverFailure::of("a shell could not be started", &e))?;
    let result = converse(&mut shell, over.min(Instant::now() + PROBE_TIMEOUT));
    // The shell is not reaped yet, so this reaches only the shell. It may have ended by itself.
    drop(sys::send_signal(shell.pid(), libc::SIGKILL));
    let _ = rustix::process::waitpid(Some(shell.pid()), WaitOptions::empty());
    result
}

/// Each must end with this status, and the second must find what the first has left.
const QUESTIONS: &[(&[u8], i32)] = &[
    (b"f() { local y=4; (exit $((y + $1))); }; x=3; f $x", 7),
    (b"[[ $? == 7 && $x == 3 && $- != *i* && $(f 1; echo $?) == 5 ]] && (exit 9)", 9),
    (b"exit 11", 11),
    (b"f 'unterminated", 2),
    (b"set -e; false", 1),
    (b"[[ $x == 3 ]]", 0),
];

fn converse(shell: &mut Shell, deadline: Instant) -> Result<(), DriverFailure> {
    let failed = |e: io::Error| DriverFailure::of("the shell could not be talked to", &e);
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").map_err(failed)?;
    let null = null.as_fd();
    match wait(shell, deadline)? {
        Report::Ready => {}
        other => return Err(format!("the shell began with {other:?}").into()),
    }
    for (text, status) in QUESTIONS {
        let job = ShellJob { text, stdin: null, stdout: null, stderr: null, env: &[], cwd: None, once: None };
        shell.run(job).map_err(failed)?;
        match wait(shell, deadline)? {
            Report::Done(done) if done.status == *status => {}
            other => {
                let text = String::from_utf8_lossy(text);
                return Err(format!("the shell answered {text:?} with {other:?}").into());
            }
        }
    }
    Ok(())
}

fn wait(shell: &mut Shell, deadline: Instant) -> Result<Report, DriverFailure> {
    loop {
        if let Some(report) =
            shell.receive().map_err(|e| DriverFailure::of("the shell could not be heard", &e))?
        {
            return Ok(report);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(DriverFailure::late());
        }
        if let Ok(Some((_, status))) =
            rustix::process::waitid(rustix::process::WaitId::Pid(shell.pid()), peek())
                .map(|s| s.map(|s| ((), s)))
        {
            return Err(match status.exit_status() {
                Some(code) => format!("bash did not load the object (it ended with {code})"),
                None => "bash died of the object".to_owned(),
            }
            .into());
        }
        // At most 20 ms, since the end of the process makes nothing readable.
        let tick =
            Timespec { tv_sec: 0, tv_nsec: i64::from(left.min(Duration::from_millis(20)).subsec_nanos()) };
        let mut fds: Vec<_> =
            shell.poll_fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let _ = rustix::event::poll(&mut fds, Some(&tick));
    }
}

fn peek() -> rustix::process::WaitIdOptions {
    use rustix::process::WaitIdOptions;
    WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT
}
