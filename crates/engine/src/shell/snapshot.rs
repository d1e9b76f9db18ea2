//! Snapshots: shell text that restores the state of a bash in a new one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::PipeFlags;
use thiserror::Error;

/// The last line of a complete snapshot.
const END: &[u8] = b"# end\n";
/// The beginning of the first line; the number after it is `$?`.
const STATUS: &[u8] = b"# status ";
/// A shell's reply if its state has not changed since the last one.
const UNCHANGED: &[u8] = b"# unchanged\n";
/// Maximum size of a snapshot.
pub(crate) const MAX_SNAPSHOT_BYTES: usize = 64 << 20;

/// Run before the text. A new shell has these variables, so the text does not remove them if the user has; and some
/// functions cannot be parsed without extended patterns.
const PREPARE: &[u8] = b"shopt -s extglob
unset -v HISTFILE HISTFILESIZE HISTSIZE HOSTNAME HOSTTYPE IFS MACHTYPE MAILCHECK OLDPWD OPTERR OPTIND OSTYPE PATH \
PS1 PS2 PS4 PWD SHELL SHLVL TERM
";

/// A shell's state: directory, variables, functions, aliases, options, umask, traps and positional parameters.
///
/// It does not contain descriptors, limits, the directory stack, the hash table, completions, `$!` and jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    text: Vec<u8>,
}

/// Why a snapshot failed.
#[derive(Debug, Error)]
pub(crate) enum SnapshotError {
    /// The state is that of the last snapshot, or the initial state of a shell.
    #[error("the shell's state has not changed")]
    Unchanged,
    /// The process that wrote it ended early.
    #[error("the shell's state was written only in part ({0} bytes)")]
    Incomplete(usize),
    /// The state has more than [`MAX_SNAPSHOT_BYTES`].
    #[error("the shell's state is too large")]
    TooLarge,
    #[error("the shell's state could not be read")]
    Read(#[from] io::Error),
}

impl Snapshot {
    /// Parses the result of [`Snapshot::as_bytes`].
    pub(crate) fn from_bytes(mut text: Vec<u8>) -> Result<Self, SnapshotError> {
        // It is kept, and was read into a much larger buffer.
        text.shrink_to_fit();
        if text.starts_with(STATUS) && text.ends_with(END) {
            Ok(Self { text })
        } else {
            Err(SnapshotError::Incomplete(text.len()))
        }
    }

    /// Parses what a shell has written to a file before it exited. A command may have replaced it with anything.
    pub(super) fn from_file(file: &OwnedFd) -> Option<Self> {
        let stat = rustix::fs::fstat(file).ok()?;
        let size = usize::try_from(stat.st_size).ok().filter(|size| *size <= MAX_SNAPSHOT_BYTES)?;
        if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
            return None;
        }
        let mut text = vec![0; size];
        let mut done = 0;
        while done < size {
            match rustix::io::pread(file, &mut text[done..], done as u64) {
                Ok(0) => return None,
                Ok(n) => done += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        Self::from_bytes(text).ok()
    }

    /// The same state with another `$?`.
    pub(crate) fn with_status(&self, status: i32) -> Self {
        let rest = self.text.iter().position(|b| *b == b'\n').map_or(&[][..], |end| &self.text[end..]);
        Self { text: [STATUS, status.to_string().as_bytes(), rest].concat() }
    }

    /// The snapshot in its stored form.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// The value of `$?` in the snapshot.
    pub(crate) fn status(&self) -> i32 {
        let digits = self.text[STATUS.len()..].split(|b| *b == b'\n').next().unwrap_or_default();
        str::from_utf8(digits).ok().and_then(|s| s.parse().ok()).unwrap_or(0)
    }

    /// The text for a new bash.
    pub(crate) fn restore_text(&self) -> Vec<u8> {
        [PREPARE, &self.text].concat()
    }
}

/// Reads a snapshot from a pipe as it arrives.
#[derive(Debug)]
pub(super) struct Reader {
    pipe: OwnedFd,
    text: Vec<u8>,
}

impl Reader {
    /// Creates a reader, and the writer's end, which may block.
    pub(super) fn new() -> io::Result<(Self, OwnedFd)> {
        let (pipe, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok((Self { pipe, text: Vec::new() }, writer))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Reads available data. `Some` at its end.
    pub(super) fn read(&mut self) -> Option<Result<Snapshot, SnapshotError>> {
        loop {
            self.text.reserve(64 << 10);
            match rustix::io::read(&self.pipe, rustix::buffer::spare_capacity(&mut self.text)) {
                Ok(0) if self.text == UNCHANGED => return Some(Err(SnapshotError::Unchanged)),
                Ok(0) => return Some(Snapshot::from_bytes(std::mem::take(&mut self.text))),
                Ok(_) if self.text.len() > MAX_SNAPSHOT_BYTES => {
                    return Some(Err(SnapshotError::TooLarge));
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return None,
                Err(e) => return Some(Err(SnapshotError::Read(e.into()))),
            }
        }
    }
}
