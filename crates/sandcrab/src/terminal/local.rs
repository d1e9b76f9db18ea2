//! [`LocalTerminal`]: the terminal that this program runs in, in raw mode, and always restored.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, Once};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetwinsize, tcsetattr};

use super::modes::Modes;
use crate::failure::Failure;

/// The terminal to restore when this program panics.
static RESTORED_AT_PANIC: Mutex<Option<Arc<Inner>>> = Mutex::new(None);
static PANIC_HOOK: Once = Once::new();

/// The terminal that this program runs in. Dropping it, and a panic, restore it.
#[derive(Debug)]
pub(super) struct LocalTerminal {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    input: OwnedFd,
    display: OwnedFd,
    original: Termios,
    /// Locked during a write: if it cannot be locked, the terminal does not take any output.
    modes: Mutex<Modes>,
}

impl LocalTerminal {
    /// The terminal of standard input; `None` if it is not one. Output goes to standard output, or to the terminal if
    /// standard output is needed for something else.
    pub(super) fn open(is_stdout_taken: bool) -> Result<Option<Self>, Failure> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let open = || {
            let stdout = io::stdout();
            let display = if is_stdout_taken && !stdout.is_terminal() {
                OwnedFd::from(std::fs::File::options().write(true).open("/dev/tty")?)
            } else {
                rustix::io::dup(stdout.as_fd())?
            };
            let input = rustix::io::dup(stdin.as_fd())?;
            let original = tcgetattr(&input)?;
            io::Result::Ok(Inner { input, display, original, modes: Mutex::default() })
        };
        let inner = Arc::new(open().map_err(|e| Failure::terminal(&e))?);
        PANIC_HOOK.call_once(|| {
            let hook = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                // Before the message, which would not be readable otherwise.
                let terminal = RESTORED_AT_PANIC.try_lock().ok().and_then(|mut terminal| terminal.take());
                if let Some(terminal) = terminal {
                    terminal.restore();
                }
                hook(info);
            }));
        });
        if let Ok(mut terminal) = RESTORED_AT_PANIC.lock() {
            *terminal = Some(Arc::clone(&inner));
        }
        Ok(Some(Self { inner }))
    }

    /// Passes every key on as it is, without echo, line editing or signals.
    pub(super) fn set_raw(&self) -> Result<(), Failure> {
        let mut raw = self.inner.original.clone();
        raw.make_raw();
        self.set(&raw)
    }

    /// Reads keys without echo and line editing. Ctrl-C and Ctrl-Z are still signals.
    pub(super) fn set_silent(&self) -> Result<(), Failure> {
        use rustix::termios::LocalModes;
        let mut silent = self.inner.original.clone();
        silent.local_modes &= !(LocalModes::ECHO | LocalModes::ICANON);
        self.set(&silent)
    }

    fn set(&self, modes: &Termios) -> Result<(), Failure> {
        retry(|| tcsetattr(&self.inner.input, OptionalActions::Now, modes))
            .map_err(|e| Failure::terminal(&e.into()))
    }

    /// Restores everything, as before this program.
    pub(super) fn restore(&self) {
        self.inner.restore();
    }

    /// Drops keys that were not read: answers to a program that is gone.
    pub(super) fn drop_input(&self) {
        // They appear as text otherwise, which is not worth an error.
        let _ = tcflush(&self.inner.input, QueueSelector::IFlush);
    }

    /// Columns and rows; `None` if the terminal does not know them.
    pub(super) fn size(&self) -> Option<(u16, u16)> {
        size_of(self.inner.input.as_fd())
    }

    /// A descriptor of the keyboard.
    pub(super) fn input(&self) -> io::Result<OwnedFd> {
        self.inner.input.try_clone()
    }

    /// A writer to the screen, for another thread.
    pub(super) fn screen(&self) -> ScreenWriter {
        ScreenWriter(Arc::clone(&self.inner))
    }
}

impl Drop for LocalTerminal {
    fn drop(&mut self) {
        self.restore();
        if let Ok(mut terminal) = RESTORED_AT_PANIC.lock() {
            *terminal = None;
        }
    }
}

/// Writes the output of a program, and tracks the modes that it sets.
#[derive(Debug)]
pub(super) struct ScreenWriter(Arc<Inner>);

impl ScreenWriter {
    /// Writes all of it; may block for as long as the terminal takes nothing.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let Ok(mut modes) = self.0.modes.lock() else { return Err(io::ErrorKind::Other.into()) };
        modes.feed(bytes);
        write_all(self.0.display.as_fd(), bytes)
    }
}

impl Inner {
    fn restore(&self) {
        // Not locked: a writer waits for a terminal that takes nothing.
        if let Ok(mut modes) = self.modes.try_lock() {
            let reset = modes.reset();
            // The terminal may be gone.
            drop(write_all(self.display.as_fd(), &reset));
        }
        let _ = retry(|| tcsetattr(&self.input, OptionalActions::Now, &self.original));
    }
}

/// Columns and rows of a terminal; `None` if it is not one, or does not know.
pub(super) fn size_of(terminal: BorrowedFd<'_>) -> Option<(u16, u16)> {
    let size = tcgetwinsize(terminal).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

fn retry(mut call: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => (),
            done => return done,
        }
    }
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => (),
            // Another program has made the terminal non-blocking.
            Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(&to, PollFlags::OUT)], None)),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}
