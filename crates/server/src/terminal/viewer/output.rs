//! [`Output`]: the output of a terminal for one viewer, read from the journal when the viewer has taken the last piece.

use std::sync::Arc;
use std::time::Duration;

use sandcrab_api::signal;
use sandcrab_api::terminal::TerminalExitFrame;
use sandcrab_engine::{End, Entry, Event, Follower, ReadError, TerminalSize};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::convert;
use crate::summary::READ_RETRY_INTERVAL;
use crate::terminal::hub::Hub;

/// Number of bytes that a viewer may be behind for [`BEHIND_TIME`]. It is then repainted instead.
pub(crate) const MAX_BEHIND_BYTES: u64 = 1 << 20;
/// Time for which a viewer may be behind. Shorter delays are those of a busy machine.
const BEHIND_TIME: Duration = Duration::from_secs(1);

/// A piece of output.
#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Vec<u8>),
    Size(TerminalSize),
    /// The viewer is too far behind.
    Behind,
    /// Output is missing, because the disk is full.
    Unrecorded,
    Ended(TerminalExitFrame),
}

/// The output of a terminal for one viewer.
#[derive(Debug)]
pub(super) struct Output {
    hub: Arc<Hub>,
    /// `None`: the viewer must be repainted.
    follower: Option<Follower>,
    /// The cursor after the pieces that were returned.
    cursor: u64,
    /// An entry that follows the bytes that were returned.
    next: Option<Entry>,
    /// Whether everything was read: there is more when [`Output::wait`] returns.
    is_read: bool,
    /// Wakes a viewer whose terminal got another size.
    sizes: watch::Receiver<TerminalSize>,
    /// Whether output is not recorded.
    unrecorded: watch::Receiver<bool>,
    /// Whether the viewer must be told that.
    is_unrecorded: bool,
    /// When all output was last read.
    caught_up: Instant,
    /// When the position of the viewer was last checked.
    checked: Instant,
    /// A read failed for lack of resources, and is repeated at this time.
    retry_at: Option<Instant>,
}

impl Output {
    pub(super) fn new(hub: &Arc<Hub>, follower: Follower, cursor: u64) -> Self {
        Self { follower: Some(follower), cursor, ..Self::behind(hub) }
    }

    /// The output of a viewer that must be repainted.
    pub(super) fn behind(hub: &Arc<Hub>) -> Self {
        let now = Instant::now();
        let unrecorded = hub.terminal.unrecorded();
        let is_unrecorded = *unrecorded.borrow();
        Self {
            hub: Arc::clone(hub),
            follower: None,
            cursor: 0,
            next: None,
            is_read: false,
            sizes: hub.terminal.sizes(),
            unrecorded,
            is_unrecorded,
            caught_up: now,
            checked: now,
            retry_at: None,
        }
    }

    /// The cursor after the pieces that were returned.
    pub(super) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Waits until a piece may be available.
    pub(super) async fn wait(&mut self) {
        if let Some(at) = self.retry_at {
            tokio::time::sleep_until(at).await;
            (self.retry_at, self.is_read) = (None, false);
            return;
        }
        let Some(follower) = &mut self.follower else { return };
        if self.next.is_some() {
            return;
        }
        let sizes = &mut self.sizes;
        let resized = async {
            if sizes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let read = tokio::select! {
            read = follower.next_reported() => read,
            // A size is a record without bytes, which does not wake a follower.
            () = resized => {
                self.is_read = false;
                return;
            }
            Ok(()) = self.unrecorded.changed() => {
                self.is_unrecorded = *self.unrecorded.borrow_and_update();
                self.is_read = false;
                return;
            }
        };
        self.is_read = false;
        match read {
            Ok(Some(entry)) => self.next = Some(entry),
            // Ended, and read to the end.
            Ok(None) => self.next = self.end_entry().or_else(|| self.next.take()),
            Err(ReadError::OutOf(_)) => self.retry_at = Some(Instant::now() + READ_RETRY_INTERVAL),
            // The next read reports it.
            Err(_) => {}
        }
    }

    /// The end, if the follower does not return it.
    fn end_entry(&self) -> Option<Entry> {
        let end = self.hub.terminal.execution().status().end().cloned()?;
        let time = std::time::SystemTime::now();
        Some(Entry { cursor: self.cursor, time, event: Event::Ended(end) })
    }

    /// The next piece, of about this many bytes, if one is available.
    pub(super) fn next_piece(&mut self, about: usize) -> Result<Option<Piece>, ReadError> {
        if self.retry_at.is_some() {
            return Ok(None);
        }
        if self.is_behind() {
            return Ok(Some(Piece::Behind));
        }
        if std::mem::take(&mut self.is_unrecorded) {
            return Ok(Some(Piece::Unrecorded));
        }
        let mut bytes = Vec::new();
        loop {
            let entry = match self.next.take() {
                Some(entry) => entry,
                None => match self.read()? {
                    Some(entry) => entry,
                    None => {
                        self.caught_up = Instant::now();
                        break;
                    }
                },
            };
            match entry.event {
                Event::Output { bytes: more, .. } => {
                    self.cursor = entry.cursor;
                    if bytes.is_empty() {
                        bytes = more;
                    } else {
                        bytes.extend_from_slice(&more);
                    }
                    // The rest, if there is one, is looked for when this is on its way.
                    if bytes.len() >= about
                        || self.follower.as_ref().is_none_or(Follower::has_returned_reported)
                    {
                        break;
                    }
                }
                Event::Size { .. } | Event::Gap { .. } | Event::Ended(_) if !bytes.is_empty() => {
                    self.next = Some(entry);
                    break;
                }
                Event::Size { size, .. } => return Ok(Some(Piece::Size(size))),
                // The journal has dropped output that this viewer has not read.
                Event::Gap { .. } => return Ok(Some(Piece::Behind)),
                Event::Ended(end) => {
                    self.finish();
                    return Ok(Some(Piece::Ended(exit_frame(&end))));
                }
                _ => {}
            }
        }
        Ok((!bytes.is_empty()).then_some(Piece::Bytes(bytes)))
    }

    fn read(&mut self) -> Result<Option<Entry>, ReadError> {
        let Some(follower) = self.follower.as_mut().filter(|_| !self.is_read) else { return Ok(None) };
        match follower.try_next() {
            Ok(None) => {
                self.is_read = true;
                Ok(None)
            }
            Err(ReadError::OutOf(_)) => {
                self.retry_at = Some(Instant::now() + READ_RETRY_INTERVAL);
                Ok(None)
            }
            read => read,
        }
    }

    /// Whether the viewer must be repainted.
    fn is_behind(&mut self) -> bool {
        let Some(follower) = &self.follower else { return true };
        let now = Instant::now();
        if now.duration_since(self.caught_up.max(self.checked)) < BEHIND_TIME {
            return false;
        }
        self.checked = now;
        let end = self.hub.terminal.execution().reader().and_then(|mut reader| reader.cursor_end());
        end.is_ok_and(|end| end.saturating_sub(follower.cursor()) > MAX_BEHIND_BYTES)
    }

    /// Releases the record: its id may be used again.
    fn finish(&mut self) {
        if let Some(follower) = &mut self.follower {
            follower.finish();
        }
    }
}

/// The exit frame of a terminal that has ended.
pub(super) fn exit_frame(end: &End) -> TerminalExitFrame {
    let code = convert::exit_code(end);
    let signal = end.signal.map(signal::name);
    TerminalExitFrame { exit_code: code, code, end: convert::end(end), signal }
}
