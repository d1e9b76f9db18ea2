//! Serves one client over standard input and output.

use rmcp::ServiceExt;
use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::transport::io::stdio_pipes;
use sandcrab_client::Client;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::service::Service;
use crate::streams::{Threads, are_pipes};

/// Why the service over standard input and output failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StdioError {
    /// The first messages are not those of an MCP client.
    #[error("failed to initialize: {0}; standard input must be connected to an MCP client")]
    Initialize(Box<ServerInitializeError>),
    /// The service stopped.
    #[error("the service failed: {0}")]
    Failed(tokio::task::JoinError),
}

/// Serves until the client closes standard input. Standard output has only messages of the protocol.
pub async fn serve_stdio(client: Client) -> Result<(), StdioError> {
    if are_pipes() {
        return serve(client, stdio_pipes()).await;
    }
    let Threads { input, output, written } = Threads::start();
    let result = serve(client, (input, output)).await;
    written.wait().await;
    result
}

/// Serves until the end of the input.
async fn serve<R, W>(client: Client, streams: (R, W)) -> Result<(), StdioError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let running = match Service::new(client).serve(streams).await {
        Ok(running) => running,
        // The client has left without a request.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(StdioError::Initialize(Box::new(error))),
    };
    match running.waiting().await {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(StdioError::Failed(error)),
        Ok(_) => Ok(()),
    }
}
