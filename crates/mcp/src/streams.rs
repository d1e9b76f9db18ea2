//! Standard input and output of any kind: pipes, sockets, files and terminals, which may be non-blocking.
//!
//! A client may hand over descriptors that are non-blocking, or make them so later, if it shares their open file. Reads and
//! writes then fail with `EAGAIN`. Threads wait for such a descriptor. They do not change its mode, which belongs to the client, too.

use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Size of a read, and of what waits in each direction.
const BUFFER_BYTES: usize = 64 << 10;
/// How long the last messages wait for a client that does not read them.
const DRAIN: Duration = Duration::from_secs(5);

/// Whether both are pipes that this process may open again, so that it gets open files of its own.
pub(crate) fn are_pipes() -> bool {
    let is_pipe = |path: &str, access| {
        fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
            && rustix::fs::access(path, access).is_ok()
    };
    is_pipe("/proc/self/fd/0", rustix::fs::Access::READ_OK)
        && is_pipe("/proc/self/fd/1", rustix::fs::Access::WRITE_OK)
}

/// Standard input and output, read and written by threads.
#[derive(Debug)]
pub(crate) struct Threads {
    /// What arrives on standard input.
    pub(crate) input: DuplexStream,
    /// What is written to standard output.
    pub(crate) output: DuplexStream,
    /// When everything is written.
    pub(crate) written: Written,
}

/// Completes when standard output has everything.
#[derive(Debug)]
pub(crate) struct Written(oneshot::Receiver<()>);

impl Threads {
    /// Starts them, from within a runtime.
    pub(crate) fn start() -> Self {
        let (input, to_input) = duplex(BUFFER_BYTES);
        let (output, from_output) = duplex(BUFFER_BYTES);
        let (is_written, written) = oneshot::channel();
        let runtime = Handle::current();
        let reader = runtime.clone();
        // Nothing waits for this thread: a read may last as long as the client.
        std::thread::spawn(move || read_all(&reader, to_input));
        std::thread::spawn(move || {
            write_all(&runtime, from_output);
            // The service may have ended already.
            is_written.send(()).ok();
        });
        Self { input, output, written: Written(written) }
    }
}

impl Written {
    /// Waits, but not for a client that does not read.
    pub(crate) async fn wait(self) {
        drop(timeout(DRAIN, self.0).await);
    }
}

/// Copies standard input until it ends.
fn read_all(runtime: &Handle, mut to: DuplexStream) {
    let stdin = rustix::stdio::stdin();
    let mut piece = vec![0; BUFFER_BYTES];
    loop {
        match patiently(stdin, PollFlags::IN, || rustix::io::read(stdin, &mut *piece)) {
            Ok(0) | Err(_) => return,
            Ok(length) => {
                if runtime.block_on(to.write_all(&piece[..length])).is_err() {
                    return;
                }
            }
        }
    }
}

/// Copies to standard output until the service has ended.
fn write_all(runtime: &Handle, mut from: DuplexStream) {
    let stdout = rustix::stdio::stdout();
    let mut piece = vec![0; BUFFER_BYTES];
    while let Ok(length @ 1..) = runtime.block_on(from.read(&mut piece)) {
        let mut rest = &piece[..length];
        while !rest.is_empty() {
            let Ok(written) = patiently(stdout, PollFlags::OUT, || rustix::io::write(stdout, rest)) else {
                return;
            };
            rest = &rest[written..];
        }
    }
}

/// Repeats a call that fails because the descriptor is not ready.
fn patiently(
    fd: BorrowedFd<'_>,
    ready: PollFlags,
    mut call: impl FnMut() -> rustix::io::Result<usize>,
) -> rustix::io::Result<usize> {
    loop {
        match call() {
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(&fd, ready)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            },
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}
