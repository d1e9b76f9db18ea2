//! [`Service`]: a process that the server restarts and checks.

use std::time::Duration;

use sandcrab_api::ErrorCode;
use sandcrab_api::process::ProcessLogs;
use sandcrab_api::service::{Service as ServiceInfo, ServiceEvent, ServiceHealthResponse, ServiceStopped};
use tokio::time::timeout;

use super::process::Process;
use crate::{Client, ClientError, Events, FollowOptions, KillOptions, LogOptions};

/// A process that the server restarts and checks. The object is an id: dropping it ends nothing.
#[derive(Debug, Clone)]
pub struct Service {
    client: Client,
    id: String,
}

impl Service {
    pub(super) fn new(client: Client, id: String) -> Self {
        Self { client, id }
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// State, health, and current and earlier executions. Each execution is a process with its own id.
    pub async fn info(&self) -> Result<ServiceInfo, ClientError> {
        self.client.service(&self.id).await
    }

    /// The health.
    pub async fn health(&self) -> Result<ServiceHealthResponse, ClientError> {
        self.client.service_health(&self.id).await
    }

    /// The output of the current or last execution so far.
    pub async fn logs(&self) -> Result<ProcessLogs, ClientError> {
        self.client.service_logs(&self.id, &LogOptions::default()).await
    }

    /// Follows the output across restarts, until the service stops or fails.
    pub async fn stream_output(&self, options: &FollowOptions) -> Result<Events<ServiceEvent>, ClientError> {
        self.client.follow_service(&self.id, options).await
    }

    /// Ends the program and everything it started. It is not started again.
    pub async fn stop(&self) -> Result<ServiceStopped, ClientError> {
        self.stop_with(&KillOptions::default()).await
    }

    /// The same with another signal or grace period.
    pub async fn stop_with(&self, options: &KillOptions) -> Result<ServiceStopped, ClientError> {
        self.client.stop_service(&self.id, options).await
    }

    /// The same as [`Service::stop`], under the name that a process has.
    pub async fn kill(&self) -> Result<ServiceStopped, ClientError> {
        self.stop().await
    }

    /// The same as [`Service::stop_with`].
    pub async fn kill_with(&self, options: &KillOptions) -> Result<ServiceStopped, ClientError> {
        self.stop_with(options).await
    }

    /// Waits until the service has stopped or failed, also across restarts of the server. Returns its state, whose first
    /// execution has the exit code. After `limit` the error is [`ErrorCode::WaitTimeout`].
    pub async fn wait_for_exit(&self, limit: Option<Duration>) -> Result<ServiceInfo, ClientError> {
        let end = async {
            let mut events = self.stream_output(&FollowOptions::default()).await?;
            while let Some(event) = events.next().await? {
                if let ServiceEvent::Error(error) = event {
                    return Err(ClientError::of_event(&error));
                }
            }
            self.info().await
        };
        match limit {
            None => end.await,
            Some(limit) => timeout(limit, end)
                .await
                .unwrap_or_else(|_| Err(ClientError::too_late("the end of the service", limit))),
        }
    }

    /// The current or last execution as a process, with its waits for a line of output or a port. If the service was never
    /// started, the error is [`ErrorCode::ProcessNotFound`].
    pub async fn current_process(&self) -> Result<Process, ClientError> {
        let Some(id) = self.info().await?.execution_id else {
            let message = format!("service {} has no execution", self.id);
            return Err(ClientError::local(ErrorCode::ProcessNotFound, message));
        };
        Ok(Process::new(self.client.clone(), self.client.process(&id).await?))
    }

    /// Ends the current execution, and starts the next one at once.
    pub async fn restart(&self) -> Result<(), ClientError> {
        self.client.restart_service(&self.id, &KillOptions::default()).await.map(drop)
    }

    /// Ends the service and everything it started, and removes it.
    pub async fn delete(&self) -> Result<ServiceStopped, ClientError> {
        self.client.delete_service(&self.id, &KillOptions::default()).await
    }
}
