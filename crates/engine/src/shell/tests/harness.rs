//! The supervisor's part: pipes, polling, reaping.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, WaitOptions};

use crate::shell::{
    CommandEnd, Done, Driver, ForkSetup, Report, Shell, ShellConfig, ShellJob, Snapshot, SnapshotError,
    Urgency, find_bash,
};
use crate::sys;

/// A variable of a command.
pub(super) fn set(name: &str, value: &str) -> (OsString, Option<OsString>) {
    (name.into(), Some(value.into()))
}

/// A variable that a command does not have.
pub(super) fn unset(name: &str) -> (OsString, Option<OsString>) {
    (name.into(), None)
}

/// How long something may take that happens at once on an idle machine.
pub(super) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Both drivers.
pub(super) const BOTH: [Driver; 2] = [Driver::Loaded, Driver::Portable];

/// How a command ended, as the supervisor sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Done {
        status: i32,
        how: CommandEnd,
    },
    /// The shell's process ended: exit code, or minus the signal.
    Died(i32),
    /// Nothing happened in time; the shell was killed.
    Hung,
}

/// What a command did.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) ended: Ended,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) took: Duration,
    pub(super) done: Option<Done>,
}

impl Outcome {
    pub(super) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(super) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    pub(super) fn status(&self) -> i32 {
        match self.ended {
            Ended::Done { status, .. } => status,
            other => panic!("{other:?}: {}{}", self.out(), self.err()),
        }
    }
}

/// How to run a command in a test.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) stdin: Option<&'a [u8]>,
    /// A pipe that is kept open, with nothing in it.
    pub(super) open_stdin: bool,
    pub(super) env: &'a [(OsString, Option<OsString>)],
    pub(super) cwd: Option<&'a Path>,
    pub(super) once: bool,
    /// By a fork of the shell; as the only command.
    pub(super) forked: Option<ForkSetup<'a>>,
    /// When to interrupt it.
    pub(super) interrupt: Option<Duration>,
    /// How much it has to write to standard output before it is interrupted.
    pub(super) interrupt_after: usize,
    pub(super) timeout: Duration,
}

impl Default for Run<'_> {
    fn default() -> Self {
        Self {
            stdin: None,
            open_stdin: false,
            env: &[],
            cwd: None,
            once: false,
            forked: None,
            interrupt: None,
            interrupt_after: 0,
            timeout: TEST_TIMEOUT,
        }
    }
}

/// A shell under test, in a directory of its own.
pub(super) struct Session {
    pub(super) shell: Shell,
    pub(super) directory: Arc<tempfile::TempDir>,
    /// Children of the shell at the last look, to be ended with it.
    reaped: Option<i32>,
    /// A snapshot that came while a command ran.
    arrived: Option<Report>,
}

pub(super) fn bash() -> PathBuf {
    find_bash().expect("bash is installed")
}

/// The path of the shells under test, on which `bash` is the same one.
pub(super) fn path() -> OsString {
    let mut path = bash().parent().expect("its path is absolute").as_os_str().to_owned();
    path.push(":/usr/local/bin:/usr/bin:/bin");
    path
}

impl Session {
    pub(super) fn new(driver: Driver) -> Self {
        Self::with_env(driver, &[])
    }

    pub(super) fn with_env(driver: Driver, more: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut env = vec![
            ("PATH".into(), path()),
            ("HOME".into(), directory.path().as_os_str().to_owned()),
            ("LANG".into(), "C.UTF-8".into()),
        ];
        env.extend(more.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
        Self::start(driver, &env, directory)
    }

    pub(super) fn empty(driver: Driver) -> Self {
        Self::start(driver, &[], tempfile::tempdir().unwrap())
    }

    fn start(driver: Driver, env: &[(OsString, OsString)], directory: tempfile::TempDir) -> Self {
        let shell = Shell::start(&ShellConfig {
            driver,
            bash: &bash(),
            env,
            cwd: &directory.path().canonicalize().unwrap(),
            setup: &crate::spawn::ProcessSetup::default(),
        })
        .unwrap();
        let mut session = Self { shell, directory: directory.into(), reaped: None, arrived: None };
        match session.report(TEST_TIMEOUT) {
            Some(Report::Ready) => {}
            other => panic!("the shell began with {other:?}, {:?}", session.died()),
        }
        session
    }

    /// The exit code of the shell, or minus its signal, if it has ended.
    pub(super) fn died(&mut self) -> Option<i32> {
        if self.reaped.is_none() {
            let (_, status) =
                rustix::process::waitpid(Some(self.shell.pid()), WaitOptions::NOHANG).ok()??;
            self.reaped = status.exit_status().or(status.terminating_signal().map(|s| -s));
        }
        self.reaped
    }

    /// Waits for a report.
    pub(super) fn report(&mut self, timeout: Duration) -> Option<Report> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(report) = self.arrived.take().or_else(|| self.shell.receive().unwrap()) {
                return Some(report);
            }
            if self.died().is_some() || Instant::now() > deadline {
                return self.shell.receive().unwrap();
            }
            let mut fds: Vec<_> =
                self.shell.poll_fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            poll(&mut fds, Duration::from_millis(10));
        }
    }

    pub(super) fn run(&mut self, text: &str) -> Outcome {
        self.run_with(text.as_bytes(), Run::default())
    }

    pub(super) fn run_with(&mut self, text: &[u8], how: Run<'_>) -> Outcome {
        let (out, out_writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (err, err_writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (stdin, kept) = stdin(how);
        for fd in [&out, &err] {
            rustix::io::ioctl_fionbio(fd, true).unwrap();
        }
        let started = Instant::now();
        let job = ShellJob {
            text,
            stdin: stdin.as_fd(),
            stdout: out_writer.as_fd(),
            stderr: err_writer.as_fd(),
            env: how.env,
            cwd: how.cwd,
            once: how.once.then_some(Urgency::Low),
        };
        let mut forked = how.forked.map(|setup| {
            let shell = self.shell.fork(job, setup).unwrap();
            Self { shell, directory: self.directory.clone(), reaped: None, arrived: None }
        });
        if forked.is_none() {
            self.shell.run(job).unwrap();
        }
        let this = forked.as_mut().unwrap_or(self);
        drop((out_writer, err_writer, stdin));
        let mut outcome = Outcome {
            ended: Ended::Hung,
            stdout: Vec::new(),
            stderr: Vec::new(),
            took: Duration::ZERO,
            done: None,
        };
        let mut asked = HashMap::new();
        let mut interrupt_at = how.interrupt.map(|after| started + after);
        let deadline = started + how.timeout;
        loop {
            read(&out, &mut outcome.stdout);
            read(&err, &mut outcome.stderr);
            // A single command may say so when it is over; what counts is how its shell ends.
            match this.shell.receive().unwrap() {
                Some(Report::Done(done)) if !how.once => {
                    outcome.ended = Ended::Done { status: done.status, how: done.how };
                    outcome.done = Some(done);
                    break;
                }
                Some(Report::Done(_)) => this.shell.disconnect(),
                Some(snapshot @ Report::Snapshot(_)) => this.arrived = Some(snapshot),
                _ => {}
            }
            if let Some(code) = this.died() {
                outcome.ended = Ended::Died(code);
                // It may have sent more after the reports were read, and exited before it was reaped.
                while let Ok(Some(report)) = this.shell.receive() {
                    if let (Report::Done(done), false) = (report, how.once) {
                        outcome.ended = Ended::Done { status: done.status, how: done.how };
                        outcome.done = Some(done);
                    }
                }
                break;
            }
            let now = Instant::now();
            if now > deadline {
                this.kill();
                break;
            }
            if interrupt_at.is_some_and(|at| now >= at) && outcome.stdout.len() >= how.interrupt_after {
                this.shell.interrupt().unwrap();
                this.end_children(&mut asked);
                interrupt_at = Some(now + Duration::from_millis(20));
            }
            let tick = interrupt_at.map_or(deadline, |at| at.min(deadline)).saturating_duration_since(now);
            let mut fds: Vec<_> = this
                .shell
                .poll_fds()
                .chain([out.as_fd(), err.as_fd()])
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            poll(&mut fds, tick.min(Duration::from_millis(5)));
        }
        outcome.took = started.elapsed();
        read(&out, &mut outcome.stdout);
        read(&err, &mut outcome.stderr);
        drop(kept);
        outcome
    }

    pub(super) fn snapshot(&mut self) -> Result<Snapshot, SnapshotError> {
        self.shell.snapshot(Urgency::High).unwrap();
        match self.report(TEST_TIMEOUT) {
            Some(Report::Snapshot(result)) => result,
            other => panic!("{other:?} in place of a snapshot"),
        }
    }

    pub(super) fn restore(&mut self, snapshot: &Snapshot) {
        self.shell.restore(snapshot).unwrap();
        match self.report(TEST_TIMEOUT) {
            Some(Report::Done(_)) => {}
            other => panic!("{other:?} when restoring; died: {:?}", self.died()),
        }
    }

    /// Closes our end of the connection.
    pub(super) fn disconnect(&mut self) {
        self.shell.disconnect();
    }

    /// Everything below the shell, parents before children and the youngest first, as the engine asks processes
    /// to end: the last of a pipeline must not see the end of its input before it is signalled itself.
    fn children(&self) -> Vec<Pid> {
        let mut found = Vec::new();
        let mut pending = vec![self.shell.pid()];
        while let Some(next) = pending.pop() {
            let pid = next.as_raw_nonzero();
            let list =
                std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            pending.extend(list.split_whitespace().filter_map(|s| Pid::from_raw(s.parse().ok()?)));
            if next != self.shell.pid() {
                found.push(next);
            }
        }
        found
    }

    /// Sends SIGINT to each child, and SIGKILL to those that survived several. A child that has just been forked may
    /// lose one, and bash continues with the text if its child dies of SIGKILL.
    fn end_children(&self, asked: &mut HashMap<Pid, u32>) {
        for child in self.children() {
            let times = asked.entry(child).or_default();
            *times += 1;
            drop(sys::send_signal(child, if *times <= 5 { libc::SIGINT } else { libc::SIGKILL }));
        }
    }

    fn kill(&mut self) {
        if self.reaped.is_none() {
            for child in self.children() {
                drop(sys::send_signal(child, libc::SIGKILL));
            }
            drop(sys::send_signal(self.shell.pid(), libc::SIGKILL));
            let _ = rustix::process::waitpid(Some(self.shell.pid()), WaitOptions::empty());
            self.reaped = Some(-9);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.kill();
    }
}

fn stdin(how: Run<'_>) -> (OwnedFd, Option<OwnedFd>) {
    if how.open_stdin || how.stdin.is_some() {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut writer = std::fs::File::from(writer);
        writer.write_all(how.stdin.unwrap_or_default()).unwrap();
        return (reader, how.open_stdin.then(|| writer.into()));
    }
    (std::fs::File::open("/dev/null").unwrap().into(), None)
}

fn read(from: &OwnedFd, to: &mut Vec<u8>) {
    loop {
        to.reserve(64 << 10);
        match rustix::io::read(from, rustix::buffer::spare_capacity(to)) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

fn poll(fds: &mut [PollFd<'_>], tick: Duration) {
    let tick =
        Timespec { tv_sec: 0, tv_nsec: i64::from(tick.min(Duration::from_millis(900)).subsec_nanos()) };
    let _ = rustix::event::poll(fds, Some(&tick));
}

/// Begins a command with everything from and to /dev/null.
pub(super) fn begin(shell: &mut Shell, text: &str) {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
    let (text, fd) = (text.as_bytes(), null.as_fd());
    shell.run(ShellJob { text, stdin: fd, stdout: fd, stderr: fd, env: &[], cwd: None, once: None }).unwrap();
}
