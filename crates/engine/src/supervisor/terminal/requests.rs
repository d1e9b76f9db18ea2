//! Handlers of the requests on a terminal.

use std::time::Instant;

use super::TerminalIo;
use crate::journal::Stream;
use crate::protocol::{Refusal, Response, Stage};
use crate::supervisor::core::Core;
use crate::supervisor::event_loop::Supervisor;
use crate::supervisor::job::Job;
use crate::terminal::{MAX_TERMINAL_INPUT_BYTES, TerminalSize};

impl Supervisor {
    /// Whether a job is a terminal.
    pub(in crate::supervisor) fn is_terminal(&self, slot: u32) -> bool {
        self.core.find(slot).is_some_and(|job| job.io.terminal().is_some())
    }

    fn running_terminal(&mut self, slot: u32) -> Result<&mut Job, Refusal> {
        let job = self.core.job(slot)?;
        if job.stage == Stage::Running { Ok(job) } else { Err(Refusal::NoSuchExecution) }
    }

    /// Queues input. The reply states how much was accepted.
    pub(in crate::supervisor) fn write_terminal(
        &mut self,
        slot: u32,
        bytes: &[u8],
        direct: Option<u32>,
        now: Instant,
    ) -> Response {
        let written = self.running_terminal(slot).and_then(|job| {
            job.had_input(now);
            let terminal = job.io.terminal_mut().ok_or(Refusal::NotATerminal)?;
            terminal.written_directly(direct);
            let accepted = terminal.queue(bytes);
            Ok((accepted, MAX_TERMINAL_INPUT_BYTES - terminal.room()))
        });
        let number = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        match written {
            Ok((accepted, waiting)) => Response::Queued(number(accepted), Some(number(waiting))),
            Err(why) => Response::Refused(why),
        }
    }

    /// Queues all of the input or nothing, as if the terminal were standard input. Closing it is the character for
    /// end of file.
    pub(in crate::supervisor) fn write_whole(
        &mut self,
        slot: u32,
        mut bytes: Vec<u8>,
        close: bool,
        direct: Option<u32>,
        now: Instant,
    ) -> Response {
        let written = self.running_terminal(slot).and_then(|job| {
            job.had_input(now);
            let terminal = job.io.terminal_mut().ok_or(Refusal::NotATerminal)?;
            if close {
                bytes.push(terminal.eof_character());
            }
            terminal.written_directly(direct);
            terminal.write();
            if bytes.len() > terminal.room() {
                return Err(Refusal::QueueFull);
            }
            terminal.queue(&bytes);
            Ok(())
        });
        written.map_or_else(Response::Refused, |()| Response::Done)
    }

    /// Lets the engine write keys to the terminal itself, unless input must be noticed here because it counts as activity.
    pub(in crate::supervisor) fn share_terminal(&mut self, slot: u32) {
        let Core { jobs, link, .. } = &mut self.core;
        let job = jobs.iter_mut().find(|job| job.slot == slot && job.stage == Stage::Running);
        let job = job.filter(|job| job.command.idle_timeout.is_none());
        if let Some(master) = job.and_then(|job| job.io.terminal_mut()).and_then(TerminalIo::share) {
            link.send_file(&Response::Shared { slot }, master);
        }
    }

    /// Sets the size. Output that was written before is recorded before it.
    pub(in crate::supervisor) fn resize(&mut self, slot: u32, size: TerminalSize, now: Instant) -> Response {
        self.pump(slot, Stream::Stdout, now);
        let resized = self.running_terminal(slot).and_then(|job| job.resize(size));
        resized.map_or_else(Response::Refused, |()| Response::Done)
    }
}
