//! A supervisor's connection to the engine: at most one, replaced when a new engine connects.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::{Errno, read, write};
use rustix::net::{SocketFlags, accept_with};

use crate::protocol::{Answer, Envelope, FrameBuffer, FrameError, Refusal, Request, frame};

/// How long the news that a command was accepted and runs may wait for its end.
const NEWS_DELAY: Duration = Duration::from_micros(300);
/// The most bytes that wait to be read by an engine. One that does not read for so long is cut off;
/// it may connect again and loses nothing, since everything is in the journals.
const MAX_BACKLOG: usize = 128 << 20;

/// The listener and the engine that is connected, if one is.
#[derive(Debug)]
pub(crate) struct Link {
    listener: OwnedFd,
    engine: Option<OwnedFd>,
    frames: FrameBuffer,
    unsent: Vec<u8>,
    connected: bool,
    /// When what is unsent is to be sent; `None` if there is nothing, or no room.
    due: Option<Instant>,
}

impl Link {
    pub(crate) fn new(listener: OwnedFd) -> Self {
        Self {
            listener,
            engine: None,
            frames: FrameBuffer::default(),
            unsent: Vec::new(),
            connected: false,
            due: None,
        }
    }

    pub(crate) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    pub(crate) fn engine(&self) -> Option<BorrowedFd<'_>> {
        self.engine.as_ref().map(AsFd::as_fd)
    }

    /// Whether an engine has ever been connected.
    pub(crate) fn was_connected(&self) -> bool {
        self.connected
    }

    /// Whether the loop should wait for room to send.
    pub(crate) fn is_blocked(&self) -> bool {
        self.due.is_none() && !self.unsent.is_empty()
    }

    /// Takes the newest connection. Requests that were still on the old one are returned first: an
    /// engine that was killed right after it sent them has promised their executions.
    pub(crate) fn accept(&mut self) -> Vec<Envelope<Request>> {
        let mut requests = Vec::new();
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(new) = accept_with(&self.listener, flags) {
            requests.append(&mut self.receive());
            self.engine = Some(new);
            self.connected = true;
            self.frames = FrameBuffer::default();
            self.unsent = Vec::new();
            self.due = None;
        }
        requests
    }

    /// Everything the engine has sent so far. Drops the connection when it is over.
    pub(crate) fn receive(&mut self) -> Vec<Envelope<Request>> {
        let mut requests = Vec::new();
        let mut chunk = [0; 4 << 10];
        let (mut over, mut more) = (false, true);
        while more && let Some(engine) = &self.engine {
            match read(engine, &mut chunk[..]) {
                Ok(0) => over = true,
                Ok(n) => {
                    self.frames.extend(&chunk[..n]);
                    // Whatever came since, or its end, makes the next poll return at once.
                    more = n == chunk.len();
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                Err(_) => over = true,
            }
            loop {
                match self.frames.next::<Request>() {
                    Ok(Some(envelope)) => requests.push(envelope),
                    Ok(None) => break,
                    Err(FrameError::Unknown(request)) => {
                        self.send(request, &Answer::Refused(Refusal::Unsupported));
                    }
                    Err(FrameError::TooLong(_) | FrameError::Malformed) => {
                        over = true;
                        break;
                    }
                }
            }
            if over {
                self.disconnect();
            }
        }
        requests
    }

    fn disconnect(&mut self) {
        self.engine = None;
        self.frames = FrameBuffer::default();
        self.unsent = Vec::new();
        self.due = None;
    }

    /// Sends to the engine, if one is connected; request 0 is an event. What one turn of the loop
    /// has to say goes out together, at its end: each write wakes the engine.
    pub(crate) fn send(&mut self, request: u64, answer: &Answer) {
        if self.engine.is_none() {
            return;
        }
        self.unsent.extend_from_slice(&frame(request, answer));
        // Most commands are over before anybody could do anything with the news that they run.
        let can_wait = matches!(answer, Answer::Accepted | Answer::Started { .. });
        let due = if can_wait { Instant::now() + NEWS_DELAY } else { Instant::now() };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
        if self.unsent.len() > MAX_BACKLOG {
            self.flush();
        }
        if self.unsent.len() > MAX_BACKLOG {
            self.disconnect();
        }
    }

    /// When the next thing is to be sent.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        self.due
    }

    /// Sends what is due.
    pub(crate) fn flush_due(&mut self) {
        if self.due.is_some_and(|due| due <= Instant::now()) || self.is_blocked() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.due = None;
        let Some(engine) = &self.engine else { return };
        let mut sent = 0;
        while sent < self.unsent.len() {
            match write(engine, &self.unsent[sent..]) {
                Ok(n) => sent += n,
                Err(Errno::INTR) => {}
                // A connection that is over is found by the next read.
                Err(_) => break,
            }
        }
        self.unsent.drain(..sent);
        if self.unsent.is_empty() && self.unsent.capacity() > 64 << 10 {
            self.unsent = Vec::new();
        }
    }

    /// Waits a moment for the last answers to be taken, before the supervisor goes.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if let Some(engine) = &self.engine {
            rustix::io::ioctl_fionbio(engine, false)?;
            self.flush();
        }
        Ok(())
    }
}
