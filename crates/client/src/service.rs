//! Services: programs that the server keeps running.

use reqwest::Method;
use sandcrab_api::process::ProcessLogs;
use sandcrab_api::service::{
    Service, ServiceEvent, ServiceHealthResponse, ServiceList, ServiceRequest, ServiceResponse,
    ServiceStarted, ServiceStopRequest, ServiceStopped,
};

use crate::process::{milliseconds, word};
use crate::{Client, ClientError, Events, FollowOptions, KillOptions, LogOptions};

/// Names of routes, which are not ids.
const RESERVED: [&str; 2] = ["list", "start"];

fn checked(id: &str) -> Result<&str, ClientError> {
    if RESERVED.contains(&id) { Err(ClientError::Id(id.to_owned())) } else { Ok(id) }
}

fn how(options: &KillOptions) -> ServiceStopRequest {
    let grace_ms = options.grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
    ServiceStopRequest { signal: options.signal.clone(), grace_ms }
}

impl Client {
    /// Starts a service. It is started once, also if the connection is lost and the request is repeated.
    pub async fn start_service(&self, request: &ServiceRequest) -> Result<ServiceStarted, ClientError> {
        self.start_once(&["api", "service", "start"], request).await
    }

    /// Lists services, the oldest first.
    pub async fn services(&self) -> Result<ServiceList, ClientError> {
        self.get(&["api", "service", "list"]).await
    }

    /// One service, with its current and earlier executions.
    pub async fn service(&self, id: &str) -> Result<Service, ClientError> {
        let answer: ServiceResponse = self.get(&["api", "service", checked(id)?]).await?;
        Ok(answer.service)
    }

    /// The health of a service.
    pub async fn service_health(&self, id: &str) -> Result<ServiceHealthResponse, ClientError> {
        self.get(&["api", "service", checked(id)?, "health"]).await
    }

    /// Ends a service and everything it started. It is not started again.
    pub async fn stop_service(&self, id: &str, options: &KillOptions) -> Result<ServiceStopped, ClientError> {
        self.post_urgent(&["api", "service", checked(id)?, "stop"], &how(options)).await
    }

    /// Ends the current execution of a service, and starts the next one.
    pub async fn restart_service(
        &self,
        id: &str,
        options: &KillOptions,
    ) -> Result<ServiceStarted, ClientError> {
        self.post_urgent(&["api", "service", checked(id)?, "restart"], &how(options)).await
    }

    /// Ends a service and everything it started, and removes it.
    pub async fn delete_service(
        &self,
        id: &str,
        options: &KillOptions,
    ) -> Result<ServiceStopped, ClientError> {
        let query = [("signal", options.signal.clone()), ("graceMs", options.grace.map(milliseconds))];
        self.call_urgent(self.query(Method::DELETE, &["api", "service", checked(id)?], &query)?).await
    }

    /// The output of the current or last execution of a service so far.
    pub async fn service_logs(&self, id: &str, options: &LogOptions) -> Result<ProcessLogs, ClientError> {
        let query = [
            ("encoding", options.encoding.and_then(word)),
            ("tail", options.tail.map(|tail| tail.to_string())),
            ("since", options.since.clone()),
        ];
        self.call_read(self.query(Method::GET, &["api", "service", checked(id)?, "logs"], &query)?).await
    }

    /// Follows the output of a service across its restarts.
    pub async fn follow_service(
        &self,
        id: &str,
        options: &FollowOptions,
    ) -> Result<Events<ServiceEvent>, ClientError> {
        let query = [
            ("encoding", options.encoding.and_then(word)),
            ("follow", options.stop_when_caught_up.then(|| "false".to_owned())),
        ];
        let request = self.query(Method::GET, &["api", "service", checked(id)?, "stream"], &query)?;
        Events::open(self.clone(), request, options.since.clone()).await
    }
}
