//! [`MainProgram`]: the command after `serve … --`, which the parent runs beside the server.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitStatus, kill_process};

use super::message::{ERROR, print_message};
use super::parent::End;
use crate::exit_code;

/// How long the program has to end after SIGTERM when the server has ended.
pub(super) const STOP_GRACE: Duration = Duration::from_secs(10);

/// The command after `--`, if there is one.
#[derive(Debug)]
pub(super) struct MainProgram {
    /// Taken when it is started.
    command: Option<Vec<OsString>>,
    /// While it runs.
    pid: Option<Pid>,
    /// The exit code, if it has failed.
    failed: Option<u8>,
}

impl MainProgram {
    /// A program that is not started yet; none if the command is empty.
    pub(super) fn new(command: Vec<OsString>) -> Self {
        Self { command: Some(command).filter(|words| !words.is_empty()), pid: None, failed: None }
    }

    /// Whether there is a program that was not started yet, or runs.
    pub(super) fn is_pending(&self) -> bool {
        self.command.is_some() || self.pid.is_some()
    }

    /// Starts it, if that was not done before.
    pub(super) fn start(&mut self) {
        let Some(words) = self.command.take() else { return };
        let Some((program, args)) = words.split_first() else { return };
        match Command::new(program).args(args).spawn() {
            Ok(child) => self.pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw),
            Err(error) => {
                print_message(ERROR, format_args!("failed to start {}: {error}", program.display()));
                self.failed = Some(match error.kind() {
                    io::ErrorKind::NotFound => exit_code::NOT_FOUND,
                    io::ErrorKind::PermissionDenied => exit_code::NOT_EXECUTABLE,
                    _ => exit_code::FAILED,
                });
            }
        }
    }

    /// Takes note of a process that was reaped, if it is this one. Where everything is to stop, its exit code is ignored.
    pub(super) fn reaped(&mut self, pid: Pid, status: WaitStatus, is_stopping: bool) {
        if self.pid != Some(pid) {
            return;
        }
        self.pid = None;
        let end = End(status);
        if end.code() != 0 && !is_stopping {
            print_message(ERROR, format_args!("the main program {end}"));
            self.failed = Some(end.code());
        }
    }

    /// The exit code, if it has failed.
    pub(super) fn failed(&self) -> Option<u8> {
        self.failed
    }

    /// Whether it runs.
    pub(super) fn is_running(&self) -> bool {
        self.pid.is_some()
    }

    /// Passes a signal on to it.
    pub(super) fn signal(&self, signal: Signal) {
        // The terminal has sent these to its whole foreground process group, of which it is a part.
        let is_from_terminal = [Signal::INT, Signal::QUIT].contains(&signal) && io::stdin().is_terminal();
        if let Some(pid) = self.pid
            && !is_from_terminal
        {
            // A child that is not reaped yet, so the process id is its own.
            let _ = kill_process(pid, signal);
        }
    }
}
