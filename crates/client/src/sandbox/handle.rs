//! [`Sandbox`]: a server and a token.

use std::ops::Deref;
use std::time::Duration;

use sandcrab_api::ErrorCode;
use sandcrab_api::event::ServerEvent;
use sandcrab_api::execute::Variables;
use sandcrab_api::server::{Health, Pong, Version};
use sandcrab_api::session::{OnShellExit, Session as SessionInfo, SessionEnded, SessionRequest};

use super::ending::{Ending, Started};
use super::scope::{Scope, known};
use super::session::Session;
use crate::key::new_id;
use crate::{Client, ClientError, Events};

/// Where `sandcrab serve` listens.
const DEFAULT_ADDRESS: &str = "http://127.0.0.1:7070";

/// A sandbox: a server and a token. It holds no state of the server, and clones share its connections. Its other calls are
/// those of [`Scope`]; they are without a session, unless the request names one.
///
/// ```no_run
/// # use sandcrab_client::{ClientError, Sandbox};
/// # async fn example() -> Result<(), ClientError> {
/// let sandbox = Sandbox::connect("http://127.0.0.1:7070", Some("the token"))?;
/// let result = sandbox.exec("echo hello").await?;
/// assert_eq!((result.stdout.as_str(), result.exit_code), ("hello\n", 0));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Sandbox {
    scope: Scope,
}

impl Sandbox {
    /// The sandbox at a URL (`http://HOST:PORT`) or a socket (`unix:PATH`). Does not connect yet: the first call does.
    pub fn connect(address: &str, token: Option<&str>) -> Result<Self, ClientError> {
        Ok(Client::connect(address, token)?.repeating_reads().into())
    }

    /// The sandbox at the address in the variable `SANDCRAB_URL` (default: `http://127.0.0.1:7070`), with the token in
    /// `SANDCRAB_TOKEN`.
    pub fn from_env() -> Result<Self, ClientError> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let address = set("SANDCRAB_URL");
        Self::connect(address.as_deref().unwrap_or(DEFAULT_ADDRESS), set("SANDCRAB_TOKEN").as_deref())
    }

    /// The same sandbox, whose calls and streams give up when the server is unreachable for so long. Default:
    /// [`crate::RESUME_WINDOW`].
    #[must_use]
    pub fn with_reconnect_timeout(self, timeout: Duration) -> Self {
        self.client().clone().with_reconnect_timeout(timeout).into()
    }

    /// Creates a shell that keeps its state between commands. A text is the id of the session.
    ///
    /// A command that ends the shell (`exit`) has a result, and the next one finds the shell restored. With
    /// [`OnShellExit::Terminate`] it is the error [`ErrorCode::SessionTerminated`] instead.
    ///
    /// If this future is dropped before it has returned, the session is deleted, unless the request has an id.
    pub async fn create_session(&self, request: impl Into<SessionRequest>) -> Result<Session, ClientError> {
        let mut request = request.into();
        request.on_shell_exit.get_or_insert(OnShellExit::Restore);
        let chosen = request.id.is_none().then(|| new_id("s"));
        request.id = request.id.or_else(|| chosen.clone());
        let ending = Ending::new(self.client(), chosen.map(Started::Session));
        let created = ending.answered(self.client().create_session(&request).await)?;
        Ok(Session::new(self.client().clone(), created.id, Some(created.cwd)))
    }

    /// A session; `None` if it is unknown.
    pub async fn session(&self, id: &str) -> Result<Option<Session>, ClientError> {
        let found = known(self.client().session(id).await, ErrorCode::SessionNotFound)?;
        Ok(found.map(|info| Session::new(self.client().clone(), info.id, info.cwd)))
    }

    /// The calls of a session, without a request that checks whether it exists.
    pub fn bound_to(&self, session_id: impl Into<String>) -> Scope {
        Scope::new(self.client().clone(), Some(session_id.into()))
    }

    /// The sessions, the oldest first.
    pub async fn list_sessions(&self) -> Result<Vec<SessionInfo>, ClientError> {
        Ok(self.client().sessions().await?.sessions)
    }

    /// Ends a session and everything that runs in it.
    pub async fn delete_session(&self, id: &str) -> Result<SessionEnded, ClientError> {
        self.client().delete_session(id).await
    }

    /// Sets variables of later commands without a session; `None` unsets one.
    pub async fn set_env_vars(&self, vars: Variables) -> Result<(), ClientError> {
        self.client().set_env(vars).await.map(drop)
    }

    /// What starts, changes and ends in the sandbox. A second `hello` event means that events may be missing.
    pub async fn events(&self) -> Result<Events<ServerEvent>, ClientError> {
        self.client().events().await
    }

    /// Checks that the server answers.
    pub async fn ping(&self) -> Result<Pong, ClientError> {
        self.client().ping().await
    }

    /// The version of the server.
    pub async fn version(&self) -> Result<Version, ClientError> {
        self.client().version().await
    }

    /// The health of the server, and which features work.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.client().health().await
    }

    /// The metrics of the server, in the text format of Prometheus.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        self.client().metrics().await
    }

    /// The OpenAPI document of the server.
    pub async fn openapi(&self) -> Result<serde_json::Value, ClientError> {
        self.client().openapi().await
    }
}

impl From<Client> for Sandbox {
    fn from(client: Client) -> Self {
        Self { scope: Scope::new(client, None) }
    }
}

impl Deref for Sandbox {
    type Target = Scope;

    fn deref(&self) -> &Scope {
        &self.scope
    }
}
