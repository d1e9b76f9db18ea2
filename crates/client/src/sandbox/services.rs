//! Calls on services.

use sandcrab_api::ErrorCode;
use sandcrab_api::service::ServiceRequest;

use super::ending::{Ending, Started};
use super::scope::{Scope, bound, known};
use super::service::Service;
use crate::ClientError;
use crate::key::new_id;

impl Scope {
    /// Starts a program that the server keeps running. A text is its command. It is started once, also if the connection is
    /// lost. If this future is dropped before it has returned, the service is deleted, unless the request has an id.
    pub async fn start_service(&self, request: impl Into<ServiceRequest>) -> Result<Service, ClientError> {
        let mut request = bound!(self, request => ServiceRequest);
        let chosen = request.service_id.is_none().then(|| new_id("svc"));
        request.service_id = request.service_id.or_else(|| chosen.clone());
        let ending = Ending::new(self.client(), chosen.map(Started::Service));
        let started = ending.answered(self.client().start_service(&request).await)?;
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
