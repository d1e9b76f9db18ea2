//! Ports: which ones programs listen on, when one is ready, and which ones are exposed.

use reqwest::Method;
use sandcrab_api::port::{
    ExposePortRequest, ExposePortResponse, ExposedPortList, PortList, PortWatchEvent, PortWatchRequest,
    UnexposePortRequest, UnexposePortResponse,
};

use crate::{Client, ClientError, Events};

impl Client {
    /// The TCP ports on which programs listen.
    pub async fn ports(&self) -> Result<PortList, ClientError> {
        self.get(&["api", "ports"]).await
    }

    /// Events until a port is ready, or the named process has ended.
    pub async fn watch_port(
        &self,
        request: &PortWatchRequest,
    ) -> Result<Events<PortWatchEvent>, ClientError> {
        let sent = self.request(Method::POST, &["api", "port-watch"])?.json(request);
        Events::open(self.clone(), sent, None).await
    }

    /// Exposes a port under a host name of its own.
    pub async fn expose_port(&self, request: &ExposePortRequest) -> Result<ExposePortResponse, ClientError> {
        self.post(&["api", "port", "expose"], request).await
    }

    /// Ends the exposure of a port.
    pub async fn unexpose_port(&self, port: u16) -> Result<UnexposePortResponse, ClientError> {
        let request = UnexposePortRequest { port: port.into() };
        self.post(&["api", "port", "unexpose"], &request).await
    }

    /// The exposed ports.
    pub async fn exposed_ports(&self) -> Result<ExposedPortList, ClientError> {
        self.get(&["api", "port", "exposed"]).await
    }
}
