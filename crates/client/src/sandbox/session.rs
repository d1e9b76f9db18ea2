//! [`Session`]: a shell that keeps its state.

use std::ops::Deref;

use sandcrab_api::execute::Variables;
use sandcrab_api::session::{InterruptRequest, Session as SessionInfo, SessionEnded};

use super::ending::{Ending, Started};
use super::scope::Scope;
use crate::key::new_id;
use crate::{Client, ClientError};

/// A shell that keeps its state between commands. Its other calls are those of [`Scope`], bound to this session. The object
/// is an id: dropping it ends nothing, [`Session::delete`] does.
///
/// ```no_run
/// # use sandcrab_client::{ClientError, Sandbox};
/// # use sandcrab_client::api::session::SessionRequest;
/// # async fn example(sandbox: Sandbox) -> Result<(), ClientError> {
/// let session = sandbox.create_session(SessionRequest::default()).await?;
/// session.exec("cd /tmp; greet() { echo \"hello from $PWD\"; }").await?;
/// assert_eq!(session.exec("greet").await?.stdout, "hello from /tmp\n");
/// session.delete().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Session {
    id: String,
    cwd: Option<String>,
    scope: Scope,
}

impl Session {
    pub(super) fn new(client: Client, id: String, cwd: Option<String>) -> Self {
        Self { scope: Scope::new(client, Some(id.clone())), id, cwd }
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The working directory when this object was created, if it was known. [`Session::info`] has the present one.
    pub fn initial_cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// Whether it runs a command, how many wait, and its working directory.
    pub async fn info(&self) -> Result<SessionInfo, ClientError> {
        self.client().session(&self.id).await
    }

    /// Sets variables of the shell; `None` unsets one.
    pub async fn set_env_vars(&self, vars: Variables) -> Result<(), ClientError> {
        self.client().set_session_env(&self.id, vars).await.map(drop)
    }

    /// Ends the command that runs, and keeps the shell and its state.
    pub async fn interrupt(&self) -> Result<SessionEnded, ClientError> {
        self.client().interrupt(&self.id, &InterruptRequest::default()).await
    }

    /// A new session with the state after the last command, and with this id or a generated one. Without an id it is deleted
    /// if this future is dropped before it has returned.
    pub async fn fork(&self, id: Option<&str>) -> Result<Self, ClientError> {
        let chosen = id.is_none().then(|| new_id("s"));
        let ending = Ending::new(self.client(), chosen.clone().map(Started::Session));
        let forked = self.client().fork_session(&self.id, id.or(chosen.as_deref())).await;
        let created = ending.answered(forked)?;
        Ok(Self::new(self.client().clone(), created.id, Some(created.cwd)))
    }

    /// Replaces the shell by a new one, with its state or without.
    pub async fn reset(&self, restore: bool) -> Result<(), ClientError> {
        self.client().reset_session(&self.id, restore).await.map(drop)
    }

    /// Ends the shell and everything that runs in it.
    pub async fn delete(&self) -> Result<SessionEnded, ClientError> {
        self.client().delete_session(&self.id).await
    }
}

impl Deref for Session {
    type Target = Scope;

    fn deref(&self) -> &Scope {
        &self.scope
    }
}
