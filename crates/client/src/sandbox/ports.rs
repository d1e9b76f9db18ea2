//! Calls on ports and previews.

use std::time::Duration;

use sandcrab_api::ErrorCode;
use sandcrab_api::port::{
    ExposePortRequest, ExposePortResponse, ExposedPort, Port, PortWatchEvent, PortWatchRequest,
};
use tokio::time::timeout;

use super::scope::Scope;
use crate::{Client, ClientError, Events};

impl Scope {
    /// The TCP ports on which programs listen.
    pub async fn list_ports(&self) -> Result<Vec<Port>, ClientError> {
        Ok(self.client().ports().await?.ports)
    }

    /// Waits until a port is ready. After `limit` the error is [`ErrorCode::WaitTimeout`].
    pub async fn wait_for_port(
        &self,
        request: impl Into<PortWatchRequest>,
        limit: Option<Duration>,
    ) -> Result<(), ClientError> {
        wait_for_port(self.client(), &request.into(), limit).await
    }

    /// Events until a port is ready, or the named process has ended.
    pub async fn watch_port(
        &self,
        request: impl Into<PortWatchRequest>,
    ) -> Result<Events<PortWatchEvent>, ClientError> {
        self.client().watch_port(&request.into()).await
    }

    /// Exposes a port under a host name of its own: a preview.
    pub async fn expose_port(
        &self,
        request: impl Into<ExposePortRequest>,
    ) -> Result<ExposePortResponse, ClientError> {
        self.client().expose_port(&request.into()).await
    }

    /// Ends the exposure of a port.
    pub async fn unexpose_port(&self, port: u16) -> Result<(), ClientError> {
        self.client().unexpose_port(port).await.map(drop)
    }

    /// The exposed ports.
    pub async fn exposed_ports(&self) -> Result<Vec<ExposedPort>, ClientError> {
        Ok(self.client().exposed_ports().await?.ports)
    }
}

pub(super) async fn wait_for_port(
    client: &Client,
    request: &PortWatchRequest,
    limit: Option<Duration>,
) -> Result<(), ClientError> {
    let wait = watch(client, request);
    match limit {
        None => wait.await,
        Some(limit) => {
            let what = format!("port {}", request.port);
            timeout(limit, wait).await.unwrap_or_else(|_| Err(ClientError::too_late(&what, limit)))
        }
    }
}

async fn watch(client: &Client, request: &PortWatchRequest) -> Result<(), ClientError> {
    let mut events = client.watch_port(request).await?;
    while let Some(event) = events.next().await? {
        match event {
            PortWatchEvent::Ready(_) => return Ok(()),
            PortWatchEvent::Error(error) => return Err(ClientError::of_event(&error)),
            PortWatchEvent::ProcessExited(_) => break,
            PortWatchEvent::Watching(_) => (),
        }
    }
    let message = format!("the process has ended, and port {} was not ready", request.port);
    Err(ClientError::local(ErrorCode::ProcessEnded, message))
}
