//! The tools as an HTTP application (streamable HTTP).

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sandcrab_client::Client;
use tokio_util::sync::CancellationToken;

use crate::calls::Calls;
use crate::limits::{MAX_MCP_SESSIONS, MAX_MESSAGE_BYTES};
use crate::service::Service;

/// How long a session without a message is kept. Longer than the longest wait of a tool.
const SESSION_IDLE: Duration = Duration::from_secs(1_800);

/// An application that serves the tools of the client's server at every path. It checks neither host, origin nor token: the
/// server that mounts it does. When `stop` is cancelled, all its streams end.
pub fn router(client: Client, stop: CancellationToken) -> Router {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION_IDLE);
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(MAX_MESSAGE_BYTES)
        .with_cancellation_token(stop.clone());
    let handler = Service::new(client);
    let sessions = Arc::new(sessions);
    let sessions = BoundedSessions { calls: Calls::new(Arc::clone(&sessions), stop), sessions };
    let service = StreamableHttpService::new(move || Ok(handler.clone()), Arc::new(sessions), config);
    Router::new().fallback_service(service)
}

/// At most [`MAX_MCP_SESSIONS`] sessions. A call whose client has vanished is cancelled.
struct BoundedSessions {
    sessions: Arc<LocalSessionManager>,
    calls: Calls,
}

/// Why a session cannot be used.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error("limit of {MAX_MCP_SESSIONS} MCP sessions reached; close some")]
    TooMany,
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

type Transport = <LocalSessionManager as SessionManager>::Transport;

impl SessionManager for BoundedSessions {
    type Error = SessionError;
    type Transport = Transport;

    async fn create_session(&self) -> Result<(SessionId, Transport), SessionError> {
        if self.sessions.sessions.read().await.len() >= MAX_MCP_SESSIONS {
            return Err(SessionError::TooMany);
        }
        Ok(self.sessions.create_session().await?)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        Ok(self.sessions.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.sessions.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        Ok(self.sessions.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let request = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        Ok(self.calls.watch(id, request, self.sessions.create_stream(id, message).await?))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        Ok(self.sessions.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        Ok(self.sessions.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let call = self.calls.resumed(id, &last_event_id);
        Ok(self.calls.watch_again(call, self.sessions.resume(id, last_event_id).await?))
    }
}
