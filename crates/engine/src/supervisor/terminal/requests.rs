//! Handlers of the requests on a terminal.

use std::time::Instant;

use crate::journal::Stream;
use crate::protocol::{Answer, Refusal, Stage};
use crate::supervisor::event_loop::Supervisor;
use crate::supervisor::job::Job;
use crate::terminal::TerminalSize;

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
    pub(in crate::supervisor) fn write_terminal(&mut self, slot: u32, bytes: &[u8], now: Instant) -> Answer {
        let written = self.running_terminal(slot).and_then(|job| {
            job.had_input(now);
            Ok(job.io.terminal_mut().ok_or(Refusal::NotATerminal)?.queue(bytes))
        });
        match written {
            Ok(accepted) => Answer::Queued(u32::try_from(accepted).unwrap_or(u32::MAX)),
            Err(why) => Answer::Refused(why),
        }
    }

    /// Queues all of the input or nothing, as if the terminal were standard input. Closing it is the character for
    /// end of file.
    pub(in crate::supervisor) fn write_whole(
        &mut self,
        slot: u32,
        mut bytes: Vec<u8>,
        close: bool,
        now: Instant,
    ) -> Answer {
        let written = self.running_terminal(slot).and_then(|job| {
            job.had_input(now);
            let terminal = job.io.terminal_mut().ok_or(Refusal::NotATerminal)?;
            if close {
                bytes.push(terminal.eof_character());
            }
            terminal.write();
            if bytes.len() > terminal.room() {
                return Err(Refusal::QueueFull);
            }
            terminal.queue(&bytes);
            Ok(())
        });
        written.map_or_else(Answer::Refused, |()| Answer::Done)
    }

    /// Sets the size. Output that was written before is recorded before it.
    pub(in crate::supervisor) fn resize(&mut self, slot: u32, size: TerminalSize, now: Instant) -> Answer {
        self.pump(slot, Stream::Stdout, now);
        let resized = self.running_terminal(slot).and_then(|job| job.resize(size));
        resized.map_or_else(Answer::Refused, |()| Answer::Done)
    }
}
