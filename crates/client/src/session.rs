//! Sessions: shells that keep their state.

use sandcrab_api::execute::Variables;
use sandcrab_api::process::SuccessResponse;
use sandcrab_api::session::{
    CreatedSession, DeleteSessionRequest, EnvRequest, ForkRequest, InterruptRequest, ResetRequest, Session,
    SessionCreated, SessionEnded, SessionList, SessionRequest, SessionResponse,
};

use crate::{Client, ClientError};

impl Client {
    /// Creates a session.
    pub async fn create_session(&self, request: &SessionRequest) -> Result<CreatedSession, ClientError> {
        let created: SessionCreated = self.post(&["api", "session", "create"], request).await?;
        Ok(created.data)
    }

    /// Lists sessions, the oldest first.
    pub async fn sessions(&self) -> Result<SessionList, ClientError> {
        self.get(&["api", "session", "list"]).await
    }

    /// One session.
    pub async fn session(&self, id: &str) -> Result<Session, ClientError> {
        if id == "list" {
            return Err(ClientError::Id(id.to_owned()));
        }
        let answer: SessionResponse = self.get(&["api", "session", id]).await?;
        Ok(answer.session)
    }

    /// Deletes a session, with everything that runs in it.
    pub async fn delete_session(&self, id: &str) -> Result<SessionEnded, ClientError> {
        let body = DeleteSessionRequest { session_id: id.to_owned() };
        self.post_urgent(&["api", "session", "delete"], &body).await
    }

    /// Ends the command that runs in a session; the shell and its state stay.
    pub async fn interrupt(&self, id: &str, request: &InterruptRequest) -> Result<SessionEnded, ClientError> {
        self.post_urgent(&["api", "session", id, "interrupt"], request).await
    }

    /// Creates a session with the same state.
    pub async fn fork_session(&self, id: &str, new_id: Option<&str>) -> Result<CreatedSession, ClientError> {
        let body = ForkRequest { id: new_id.map(str::to_owned) };
        let created: SessionCreated = self.post(&["api", "session", id, "fork"], &body).await?;
        Ok(created.data)
    }

    /// Replaces the shell of a session, with or without its state.
    pub async fn reset_session(&self, id: &str, restore: bool) -> Result<SuccessResponse, ClientError> {
        let body = ResetRequest { restore: Some(restore) };
        self.post_urgent(&["api", "session", id, "reset"], &body).await
    }

    /// Changes the variables of a session's shell.
    pub async fn set_session_env(&self, id: &str, vars: Variables) -> Result<SuccessResponse, ClientError> {
        self.post(&["api", "session", id, "env"], &EnvRequest { vars }).await
    }

    /// Changes the variables of later commands without a session.
    pub async fn set_env(&self, vars: Variables) -> Result<SuccessResponse, ClientError> {
        self.post(&["api", "env"], &EnvRequest { vars }).await
    }
}
