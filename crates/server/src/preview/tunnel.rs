//! Tunnels: connections after status 101, such as WebSockets.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use super::body::Slot;
use super::exposures::Exposed;
use crate::app::App;

/// Size of the buffer of each direction.
const BUFFER_BYTES: usize = 16 << 10;
/// Time for the other direction after one has ended: a program that ignores the end of its client would keep the tunnel.
const LAST_BYTES_TIME: Duration = Duration::from_secs(10);

/// Passes bytes in both directions until the sides close, the port is no longer exposed, or the server stops.
pub(super) fn start(app: &App, exposed: Arc<Exposed>, client: OnUpgrade, program: OnUpgrade, slot: Slot) {
    let stopping = app.stopping.clone();
    app.tasks.spawn(async move {
        let _slot = slot;
        let copied = async {
            // If one of them fails, the other is closed by its drop.
            let (Ok(client), Ok(program)) = tokio::join!(client, program) else { return };
            if let Err(error) = pass(TokioIo::new(client), TokioIo::new(program)).await {
                tracing::debug!(%error, port = exposed.port(), "a tunnel ended");
            }
        };
        tokio::select! {
            () = copied => {}
            () = exposed.revoked.cancelled() => {}
            () = stopping.begun() => {}
        }
    });
}

/// Passes bytes until both sides have closed, or one has and [`LAST_BYTES_TIME`] is over.
async fn pass(client: impl AsyncRead + AsyncWrite, program: impl AsyncRead + AsyncWrite) -> io::Result<()> {
    let (from_client, to_client) = tokio::io::split(client);
    let (from_program, to_program) = tokio::io::split(program);
    let (mut up, mut down) = (pin!(copy(from_client, to_program)), pin!(copy(from_program, to_client)));
    let last = tokio::select! {
        ended = &mut up => {
            ended?;
            timeout(LAST_BYTES_TIME, down).await
        }
        ended = &mut down => {
            ended?;
            timeout(LAST_BYTES_TIME, up).await
        }
    };
    last.unwrap_or(Ok(()))
}

/// Passes bytes of one direction, and its end.
async fn copy(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    tokio::io::copy_buf(&mut BufReader::with_capacity(BUFFER_BYTES, from), &mut to).await?;
    to.shutdown().await
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_side_that_ignores_the_end_of_the_other_is_closed() {
        for is_client_first in [true, false] {
            let (client, far_client) = tokio::io::duplex(64);
            let (program, far_program) = tokio::io::duplex(64);
            let (mut leaving, mut staying) =
                if is_client_first { (far_client, far_program) } else { (far_program, far_client) };
            let passing = tokio::spawn(pass(client, program));
            leaving.write_all(b"last words").await.unwrap();
            leaving.shutdown().await.unwrap();
            let mut text = String::new();
            staying.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "last words");
            // The answer of a side that has seen the end arrives.
            staying.write_all(b"answer").await.unwrap();
            let mut answer = [0; 6];
            leaving.read_exact(&mut answer).await.unwrap();
            assert!(!passing.is_finished());
            // It never closes, and the tunnel ends nevertheless.
            tokio::time::timeout(LAST_BYTES_TIME * 2, passing).await.unwrap().unwrap().unwrap();
            drop(staying);
        }
    }
}
