//! Standard input of this program, passed to a command.

use std::io::{IsTerminal, Read};
use std::os::unix::fs::MetadataExt;

use sandcrab_api::ErrorCode;
use sandcrab_client::{Client, ClientError};
use tokio::sync::watch;

use super::Progress;
use crate::failure::Failure;

/// The largest piece that is sent at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Standard input of this program.
#[derive(Debug)]
pub(crate) struct Stdin(());

impl Stdin {
    /// Standard input, whatever it is.
    pub(crate) fn open() -> Self {
        Self(())
    }

    /// Standard input, unless it is a terminal or `/dev/null`.
    pub(super) fn unless_terminal() -> Option<Self> {
        let stdin = std::io::stdin();
        (!stdin.is_terminal() && !is_null(&stdin)).then(Self::open)
    }

    /// The next bytes; empty at the end.
    pub(crate) async fn read(&self) -> Result<Vec<u8>, Failure> {
        // On another thread: the read may never return.
        let read = tokio::task::spawn_blocking(|| {
            let mut bytes = vec![0; PIECE_BYTES];
            let length = std::io::stdin().lock().read(&mut bytes)?;
            bytes.truncate(length);
            Ok(bytes)
        });
        let read = read.await.map_err(std::io::Error::other).and_then(|read| read);
        read.map_err(|e| Failure::stdin(&e))
    }
}

fn is_null(stdin: &std::io::Stdin) -> bool {
    let null = std::fs::metadata("/dev/null").map(|null| null.rdev());
    matches!((rustix::fs::fstat(stdin), null), (Ok(own), Ok(null)) if own.st_rdev == null)
}

/// Passes everything on as soon as the command runs, and then closes its standard input. Returns only on a failure; a
/// command that does not read is not one.
pub(super) async fn pass_on(
    stdin: Option<Stdin>,
    client: &Client,
    id: &str,
    mut progress: watch::Receiver<Progress>,
) -> Failure {
    if let Some(stdin) = stdin
        && progress.wait_for(|progress| *progress == Progress::Running).await.is_ok()
        && let Err(failure) = pass_all(&stdin, client, id).await
    {
        return failure;
    }
    std::future::pending().await
}

async fn pass_all(stdin: &Stdin, client: &Client, id: &str) -> Result<(), Failure> {
    loop {
        let bytes = stdin.read().await?;
        let is_end = bytes.is_empty();
        match client.write_stdin(id, bytes, is_end).await {
            Ok(_) if is_end => return Ok(()),
            Ok(_) => (),
            Err(error) if is_unwanted(&error) => return Ok(()),
            // It is unknown whether the bytes have arrived, and they must not arrive twice.
            Err(error) => {
                let message = format!("failed to pass standard input on: {error}");
                let failure = Failure::Client(error);
                let (code, hint, exit_code) = (failure.code(), failure.hint(), failure.exit_code());
                return Err(Failure::Local { code, message, hint, exit_code });
            }
        }
    }
}

/// Whether the command has closed its standard input, or has ended.
fn is_unwanted(error: &ClientError) -> bool {
    matches!(
        error.code(),
        Some(ErrorCode::StdinNotOpen | ErrorCode::ProcessEnded | ErrorCode::ProcessNotFound)
    )
}
