//! The server about itself.

use reqwest::Method;
use sandcrab_api::event::ServerEvent;
use sandcrab_api::service::{Health, Pong, Version};

use crate::{Client, ClientError, Events};

impl Client {
    /// Asks whether the server is there.
    pub async fn ping(&self) -> Result<Pong, ClientError> {
        self.get(&["api", "ping"]).await
    }

    /// Which server it is.
    pub async fn version(&self) -> Result<Version, ClientError> {
        self.get(&["api", "version"]).await
    }

    /// What works there.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.get(&["api", "health"]).await
    }

    /// What happens from now on: executions and sessions as they come and go.
    pub async fn events(&self) -> Result<Events<ServerEvent>, ClientError> {
        Events::open(self.clone(), self.request(Method::GET, &["api", "events"])?, None).await
    }
}
