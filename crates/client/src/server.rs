//! The server: health, version, events.

use reqwest::Method;
use sandcrab_api::event::ServerEvent;
use sandcrab_api::server::{Health, Pong, Version};

use crate::{Client, ClientError, Events};

impl Client {
    /// Checks that the server answers.
    pub async fn ping(&self) -> Result<Pong, ClientError> {
        self.get(&["api", "ping"]).await
    }

    /// The version of the server.
    pub async fn version(&self) -> Result<Version, ClientError> {
        self.get(&["api", "version"]).await
    }

    /// The health of the server, and which features work.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.get(&["api", "health"]).await
    }

    /// The metrics of the server, in the text format of Prometheus.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        self.call_text(self.request(Method::GET, &["metrics"])?).await
    }

    /// The OpenAPI document of the server.
    pub async fn openapi(&self) -> Result<serde_json::Value, ClientError> {
        self.get(&["openapi.json"]).await
    }

    /// Events from now on: executions and sessions that start, change and end.
    pub async fn events(&self) -> Result<Events<ServerEvent>, ClientError> {
        Events::open(self.clone(), self.request(Method::GET, &["api", "events"])?, None).await
    }
}
