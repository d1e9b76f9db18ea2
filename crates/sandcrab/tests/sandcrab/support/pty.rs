//! [`Pty`]: the program on its own terminal, with scripted input.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcgetwinsize, tcsetwinsize};

use super::program::Gathered;
use super::{Finished, eventually};

/// A program in a terminal. The terminal is its controlling one, so that keys, sizes and a hang-up have their effect.
#[derive(Debug)]
pub(crate) struct Pty {
    child: Child,
    master: File,
    slave: Option<OwnedFd>,
    output: Gathered,
    /// How the terminal was set before the program.
    original: String,
}

impl Pty {
    /// Starts a program in a terminal of 80 columns and 24 rows. Its standard output may be another one.
    pub(crate) fn start(command: &Command) -> Self {
        Self::with_stdout(command, None)
    }

    pub(crate) fn with_stdout(command: &Command, stdout: Option<File>) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(&*name, flags, Mode::empty()).unwrap();
        tcsetwinsize(&master, winsize(80, 24)).unwrap();
        let original = attributes(&slave);
        // It makes the terminal the controlling one, and becomes the program.
        let mut leader = Command::new("setsid");
        leader.arg("--ctty").arg(command.get_program()).args(command.get_args());
        leader.env_clear().env("TERM", "xterm-256color");
        for (name, value) in command.get_envs() {
            value.map(|value| leader.env(name, value));
        }
        if let Some(dir) = command.get_current_dir() {
            leader.current_dir(dir);
        }
        leader.stdin(slave.try_clone().unwrap()).stderr(slave.try_clone().unwrap());
        match stdout {
            Some(file) => leader.stdout(file),
            None => leader.stdout(slave.try_clone().unwrap()),
        };
        let child = leader.spawn().unwrap();
        let master = File::from(master);
        let output = Gathered::from(master.try_clone().unwrap());
        Self { child, master, slave: Some(slave), output, original }
    }

    /// Types.
    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Types from another thread: a terminal takes only so much at a time.
    pub(crate) fn paste(&self, text: String) -> std::thread::JoinHandle<()> {
        let mut master = self.master.try_clone().unwrap();
        std::thread::spawn(move || master.write_all(text.as_bytes()).unwrap())
    }

    /// What was shown so far, with all escape sequences.
    pub(crate) fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.output.so_far()).into_owned()
    }

    /// Waits until something is shown.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait_after(0, text);
    }

    /// Waits until something is shown after the first `from` bytes.
    #[track_caller]
    pub(crate) fn wait_after(&self, from: usize, text: &str) {
        let shown = || self.output.so_far().get(from..).map(|new| String::from_utf8_lossy(new).into_owned());
        let deadline = std::time::Instant::now() + super::TEST_TIMEOUT;
        while !shown().unwrap_or_default().contains(text) {
            assert!(std::time::Instant::now() < deadline, "{text:?} is not shown: {:?}", shown());
            std::thread::sleep(super::POLL_INTERVAL);
        }
    }

    /// The number of bytes shown so far.
    pub(crate) fn mark(&self) -> usize {
        self.output.so_far().len()
    }

    pub(crate) fn resize(&self, cols: u16, rows: u16) {
        tcsetwinsize(&self.master, winsize(cols, rows)).unwrap();
        assert_eq!(tcgetwinsize(&self.master).unwrap().ws_col, cols);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the terminal is set as it was before the program.
    pub(crate) fn is_restored(&self) -> bool {
        self.slave.as_ref().is_some_and(|slave| attributes(slave) == self.original)
    }

    /// Waits for the end of the program. The terminal must be set as it was before.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Finished {
        let status = eventually(&format!("it ends: {self:?}"), || self.child.try_wait().unwrap());
        let left = self.slave.as_ref().map(attributes);
        assert_eq!(left.as_deref(), Some(&*self.original), "the terminal is not restored: {self:?}");
        // The last descriptor of the other side: the reader comes to the end.
        drop(self.slave.take());
        Finished { code: status.code(), stdout: self.output.finish(), stderr: String::new() }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // It has ended, unless the test has failed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn winsize(cols: u16, rows: u16) -> Winsize {
    Winsize { ws_col: cols, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }
}

fn attributes(terminal: &impl AsFd) -> String {
    let set = tcgetattr(terminal).unwrap();
    format!("{:?} {:?} {:?} {:?}", set.input_modes, set.output_modes, set.control_modes, set.local_modes)
}
