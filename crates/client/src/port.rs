//! Ports: which ones programs listen on, and when one is ready.

use reqwest::Method;
use sandcrab_api::port::{PortList, PortWatchEvent, PortWatchRequest};

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
}
