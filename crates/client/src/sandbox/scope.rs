//! [`Scope`]: the calls that a sandbox and a session have.

use sandcrab_api::ErrorCode;

use crate::{Client, ClientError};

/// The calls that a [`crate::Sandbox`] and a [`crate::Session`] have. Those of a session are bound to it: commands run in
/// its shell, processes and terminals start from its state, and relative paths are relative to its working directory.
///
/// A call takes a text (a path, a pattern, a command), or the request of the API with all options:
///
/// ```no_run
/// # use sandcrab_client::{ClientError, Sandbox};
/// use sandcrab_client::api::search::SearchRequest;
///
/// # async fn example(sandbox: Sandbox) -> Result<(), ClientError> {
/// let all = sandbox.search("TODO").await?;
/// let request = SearchRequest { path: Some("src".into()), word: Some(true), ..SearchRequest::from("TODO") };
/// let words = sandbox.search(request).await?;
/// # Ok(()) }
/// ```
///
/// A request that names another session is sent as it is.
#[derive(Debug, Clone)]
pub struct Scope {
    client: Client,
    session: Option<String>,
}

impl Scope {
    pub(super) fn new(client: Client, session: Option<String>) -> Self {
        Self { client, session }
    }

    /// The client, with one method for each route.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The id of the session that the calls are bound to; `None` for a sandbox.
    pub fn session_id(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// The session of a request: the given one, or that of this object.
    pub(super) fn session_of(&self, given: Option<String>) -> Option<String> {
        given.or_else(|| self.session.clone())
    }
}

/// A request that can name a session.
macro_rules! bound {
    ($scope:expr, $given:expr => $request:ty) => {{
        let mut request: $request = $given.into();
        request.session_id = $scope.session_of(request.session_id);
        request
    }};
}

pub(super) use bound;

/// `None` instead of the error that something is unknown.
pub(super) fn known<T>(found: Result<T, ClientError>, unknown: ErrorCode) -> Result<Option<T>, ClientError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == Some(unknown) => Ok(None),
        Err(error) => Err(error),
    }
}
