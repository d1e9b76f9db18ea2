//! Standard input of this program becomes that of the command.

use std::io::{IsTerminal, Read};
use std::os::unix::fs::MetadataExt;

use sandcrab_api::ErrorCode;
use sandcrab_client::{Client, ClientError};
use tokio::sync::watch;

use super::Progress;
use crate::failure::Failure;

/// How much is sent at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Standard input of this program, when there may be something in it.
#[derive(Debug)]
pub(super) struct Stdin(());

impl Stdin {
    /// `None` if it is a terminal, which people type to us on, or `/dev/null`.
    pub(super) fn of_this_program() -> Option<Self> {
        let stdin = std::io::stdin();
        if stdin.is_terminal() || is_null(&stdin) {
            return None;
        }
        Some(Self(()))
    }

    /// The next bytes; none at the end.
    async fn read(&self) -> std::io::Result<Vec<u8>> {
        // On another thread, which may wait for ever.
        let read = tokio::task::spawn_blocking(|| {
            let mut bytes = vec![0; PIECE_BYTES];
            let length = std::io::stdin().lock().read(&mut bytes)?;
            bytes.truncate(length);
            Ok(bytes)
        });
        read.await.map_err(std::io::Error::other)?
    }
}

fn is_null(stdin: &std::io::Stdin) -> bool {
    let null = std::fs::metadata("/dev/null").map(|null| null.rdev());
    matches!((rustix::fs::fstat(stdin), null), (Ok(own), Ok(null)) if own.st_rdev == null)
}

/// Passes everything on once the command runs, and then closes its standard input. Returns only if that fails; a
/// command that does not want to read is no failure.
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
        let bytes = stdin.read().await.map_err(|e| Failure::stdin(&e))?;
        let is_end = bytes.is_empty();
        match client.write_stdin(id, bytes, is_end).await {
            Ok(_) if is_end => return Ok(()),
            Ok(_) => (),
            Err(error) if is_unwanted(&error) => return Ok(()),
            // Whether the bytes have arrived is not known, and they must not arrive twice.
            Err(error) => {
                return Err(Failure::Own {
                    message: format!("failed to pass standard input on: {error}"),
                    hint: error.hint(),
                    exit_code: Failure::Client(error).exit_code(),
                });
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
