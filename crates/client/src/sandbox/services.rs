//! Calls on services.

use sandcrab_api::ErrorCode;
use sandcrab_api::service::ServiceRequest;

use super::scope::{Scope, bound, known};
use super::service::Service;
use crate::ClientError;

impl Scope {
    /// Starts a program that the server keeps running. A text is its command. It is started once, also if the connection is
    /// lost.
    pub async fn start_service(&self, request: impl Into<ServiceRequest>) -> Result<Service, ClientError> {
        let request = bound!(self, request => ServiceRequest);
        let started = self.client().start_service(&request).await?;
        Ok(Service::new(self.client().clone(), started.service_id))
    }

    /// The services, the oldest first.
    pub async fn list_services(&self) -> Result<Vec<Service>, ClientError> {
        let list = self.client().services().await?;
        Ok(list.services.into_iter().map(|info| Service::new(self.client().clone(), info.id)).collect())
    }

    /// A service; `None` if it is unknown.
    pub async fn service(&self, id: &str) -> Result<Option<Service>, ClientError> {
        let found = known(self.client().service(id).await, ErrorCode::ServiceNotFound)?;
        Ok(found.map(|info| Service::new(self.client().clone(), info.id)))
    }
}
