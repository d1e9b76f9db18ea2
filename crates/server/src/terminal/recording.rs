//! [`Recording`]: the output of an execution as an asciicast, produced as the client reads.

use sandcrab_api::terminal::{DEFAULT_COLS, DEFAULT_ROWS};
use sandcrab_engine::{Entry, Event, Execution, Follower, ReadError, Stream, Terminal, TerminalSize};

use super::asciicast::{Asciicast, Header};
use crate::body::pieces::PieceSource;

/// A recording of what the journal has.
#[derive(Debug)]
pub(crate) struct Recording {
    follower: Follower,
    cast: Asciicast,
    command: String,
    term: Option<String>,
    /// The end of the output when the recording was requested.
    until: u64,
    size: Option<TerminalSize>,
    has_header: bool,
    is_over: bool,
}

impl Recording {
    pub(crate) fn new(execution: &Execution, terminal: Option<&Terminal>) -> Result<Self, ReadError> {
        let info = execution.info();
        let until = execution.reader()?.cursor_end()?;
        Ok(Self {
            follower: execution.follow(0)?,
            cast: Asciicast::new(info.created_at, terminal.is_some()),
            command: info.command,
            term: terminal.map(|terminal| terminal.term().to_owned()),
            until,
            size: None,
            has_header: false,
            is_over: false,
        })
    }

    /// Writes the header, in front of the first event that needs it.
    fn header(&mut self, to: &mut Vec<u8>) {
        if std::mem::replace(&mut self.has_header, true) {
            return;
        }
        let size = self.size.unwrap_or(TerminalSize { cols: DEFAULT_COLS, rows: DEFAULT_ROWS });
        let header =
            Header { cols: size.cols, rows: size.rows, command: &self.command, term: self.term.as_deref() };
        self.cast.header(&header, to);
    }

    fn entry(&mut self, entry: Entry, to: &mut Vec<u8>) {
        let time = entry.time;
        match entry.event {
            Event::Output { stream, bytes, .. } => {
                self.header(to);
                self.cast.output(time, usize::from(stream == Stream::Stderr), &bytes, to);
            }
            // The first size is that of the header.
            Event::Size { size, .. } => {
                let before = self.size.replace(size);
                if before.is_none_or(|before| before == size) {
                    return;
                }
                self.header(to);
                self.cast.resize(time, size.cols, size.rows, to);
            }
            Event::Gap { from, to: end } => {
                self.header(to);
                self.cast.gap(time, end - from, to);
            }
            _ => {}
        }
    }
}

impl PieceSource for Recording {
    type Error = ReadError;

    fn next_piece(&mut self, about: usize) -> Result<Vec<u8>, ReadError> {
        let mut piece = Vec::new();
        self.follower.limit_entries(about);
        while !self.is_over && piece.len() < about {
            match self.follower.try_next() {
                Ok(Some(entry)) => {
                    // Output of later processes would make the recording endless.
                    self.is_over = entry.cursor > self.until;
                    self.entry(entry, &mut piece);
                }
                Ok(None) => self.is_over = true,
                // What was read is returned first, because it is not read again.
                Err(ReadError::OutOf(_)) if !piece.is_empty() => return Ok(piece),
                Err(e) => return Err(e),
            }
        }
        if self.is_over {
            self.header(&mut piece);
        }
        Ok(piece)
    }

    fn release(&mut self) {
        self.follower.release();
    }

    fn is_temporary(error: &ReadError) -> bool {
        matches!(error, ReadError::OutOf(_))
    }
}
