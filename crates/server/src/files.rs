//! Operations on files: the meaning of a request's paths, the user, and the thread.
//!
//! A route takes [`Files`], names the session of its body, and gets a [`Place`]: what relative paths mean, and with
//! whose permissions operations run.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use base64::Engine as _;
use sandcrab_api::ErrorCode;
use sandcrab_engine::{Session, StartError, User};
use sandcrab_workspace::{Base, FileError, FileErrorKind, Identity, resolve};
use tokio::sync::oneshot;

use crate::app::App;
use crate::error::ApiError;
use crate::file_threads::{self, STEP_TIMEOUT, THREAD_TIMEOUT, run_with};
use crate::input::{find_session, named_session};
use crate::sandbox::Sandbox;

/// Time for the recovery of folders before requests are served all the same.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// The sandbox of a request on files, and the session that its header or query names.
#[derive(Debug)]
pub(crate) struct Files {
    sandbox: Sandbox,
    named: Result<Option<String>, ApiError>,
    rules: FileRules,
}

/// How requests on files are understood. The native API has the default; a layer can put others into the extensions of a
/// request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FileRules {
    /// An empty id, and that of a session that does not exist, mean no session.
    pub(crate) unknown_session_is_none: bool,
    /// The name of a file decides whether it is binary.
    pub(crate) type_by_name: bool,
}

impl FromRequestParts<App> for Files {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let sandbox = Sandbox::from_request_parts(parts, app).await?;
        let named = named_session(None, &parts.headers, parts.uri.query());
        let rules = parts.extensions.get().copied().unwrap_or_default();
        Ok(Self { sandbox, named, rules })
    }
}

impl Files {
    /// How the request is understood.
    pub(crate) fn rules(&self) -> FileRules {
        self.rules
    }

    /// Finds the session that the body, the header or the query names, in this order. Without one, paths are relative
    /// to the workspace.
    pub(crate) async fn place(self, in_body: Option<String>) -> Result<Place, ApiError> {
        let is_given = |id: &String| !(self.rules.unknown_session_is_none && id.is_empty());
        let named = match in_body.filter(is_given) {
            Some(id) => named_session(Some(id), &axum::http::HeaderMap::new(), None)?,
            None => self.named?,
        };
        let sandbox = self.sandbox;
        let session = named.filter(|id| id != sandcrab_api::NO_SESSION);
        let session = match session.map(|id| find_session(&sandbox, &id)).transpose() {
            Err(error)
                if self.rules.unknown_session_is_none && error.code() == ErrorCode::SessionNotFound =>
            {
                None
            }
            found => found?,
        };
        let place = Place::of_sandbox(sandbox);
        let Some(session) = session else { return Ok(place) };
        let user = session.user().cloned();
        Ok(Place {
            cwd: working_directory(&session).await,
            identity: user.as_ref().map_or(place.identity, identity),
            user,
            ..place
        })
    }
}

/// The working directory of a session. An error counts only if a path is relative to it: another directory would be
/// wrong.
async fn working_directory(session: &Session) -> Result<PathBuf, ApiError> {
    let unknown = || {
        let message = "the working directory of the session is not known";
        ApiError::new(ErrorCode::ExecutionLost, message)
            .suggest("run a command in the session, or give an absolute path")
    };
    match session.cwd().await {
        Ok(cwd) => cwd.ok_or_else(unknown),
        Err(StartError::SessionGone(id)) => Err(ApiError::from(StartError::SessionGone(id))),
        Err(_) => Err(unknown()),
    }
}

fn identity(user: &User) -> Identity {
    if user.is_own() { Identity::own() } else { Identity::of(user.uid, user.gid, &user.groups) }
}

/// What the paths of a request mean, and with whose permissions operations run.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) sandbox: Sandbox,
    /// The directory of relative paths.
    cwd: Result<PathBuf, ApiError>,
    /// The user of the session, if one is named.
    pub(crate) user: Option<User>,
    identity: Identity,
    has_workspace_directory: bool,
}

impl Place {
    /// The place of requests without a session.
    pub(crate) fn of_sandbox(sandbox: Sandbox) -> Self {
        let identity = sandbox.run_as.as_ref().map_or_else(Identity::own, identity);
        let has_workspace_directory = sandbox.has_workspace_directory();
        Self {
            cwd: Ok(sandbox.workspace_path.clone()),
            user: None,
            identity,
            has_workspace_directory,
            sandbox,
        }
    }

    /// The directory of relative paths.
    pub(crate) fn cwd(&self) -> Result<&PathBuf, ApiError> {
        self.cwd.as_ref().map_err(Clone::clone)
    }

    /// Maps a path of the request to an absolute path.
    pub(crate) fn resolve(&self, path: &GivenPath) -> Result<PathBuf, ApiError> {
        let Self { sandbox, has_workspace_directory, .. } = self;
        let workspace = &sandbox.workspace_path;
        let cwd = if path.bytes.starts_with(b"/") { workspace } else { self.cwd()? };
        let base = Base { cwd, workspace, has_workspace_directory: *has_workspace_directory };
        resolve(&path.bytes, &base).map_err(|error| match error.kind {
            FileErrorKind::InvalidPath => {
                ApiError::invalid(path.field, "expected a path without NUL bytes, not empty")
            }
            _ => ApiError::from(error).with("field", path.field),
        })
    }

    /// The same paths, with the permissions of the server itself.
    pub(crate) fn as_server(&self) -> Self {
        Self { identity: Identity::own(), ..self.clone() }
    }

    /// The directories that must stay: the workspace, the state directory, and what contains them.
    pub(crate) fn kept(&self) -> [PathBuf; 2] {
        [self.sandbox.workspace_path.clone(), self.sandbox.state_dir.clone()]
    }

    /// Runs an operation on a thread of its own, with the permissions of the user of the commands. It runs to its end
    /// if the client disconnects.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        operation: impl FnOnce() -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.run_search(operation).await
    }

    /// The same for an operation with errors of its own, such as a search.
    pub(crate) async fn run_search<T: Send + 'static, E>(
        &self,
        operation: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, ApiError>
    where
        ApiError: From<E>,
    {
        let permit = self.sandbox.file_threads.permit(THREAD_TIMEOUT).await?;
        self.run_permitted(permit, operation).await
    }

    /// The same for a later step of a request, which waits longer for a thread.
    pub(crate) async fn run_step<T: Send + 'static>(
        &self,
        operation: impl FnOnce() -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let permit = self.sandbox.file_threads.permit(STEP_TIMEOUT).await?;
        self.run_permitted(permit, operation).await
    }

    /// The same, with a permit, which is dropped at the end of the operation.
    pub(crate) async fn run_permitted<T: Send + 'static, E>(
        &self,
        permit: impl Send + 'static,
        operation: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, ApiError>
    where
        ApiError: From<E>,
    {
        let identity = self.identity.clone();
        let work = move || match identity.run(operation) {
            Ok(done) => done.map_err(ApiError::from),
            Err(e) => Err(ApiError::internal(format!("cannot take the identity of the user: {e}"))),
        };
        run_with(permit, work).await?
    }
}

/// Completes or undoes replacements of folders that an earlier server had begun. This must end before requests are served: a
/// file that a client writes meanwhile could be taken for one that is to be replaced. When the result is used, temporary
/// files and directories of the earlier server are removed in the background.
pub(crate) async fn recover_leftovers(sandbox: &Sandbox) -> oneshot::Sender<()> {
    let leftovers = std::mem::take(&mut *sandbox.leftovers.lock().unwrap_or_else(PoisonError::into_inner));
    let (recovering, recovered) = oneshot::channel::<()>();
    let (remove, may_remove) = oneshot::channel();
    if leftovers.is_empty() {
        return remove;
    }
    let work = move || {
        let report = |error: &FileError, path: &Path| {
            tracing::warn!(%error, path = %path.display(), "a temporary file could not be removed");
        };
        let mut all = Vec::new();
        for leftover in leftovers {
            let path = leftover.path().to_owned();
            match leftover.recover() {
                Ok(recovered) => all.push(recovered),
                Err(error) => report(&error, &path),
            }
        }
        drop(recovering);
        // Without permission, the next server removes them.
        if may_remove.blocking_recv().is_ok() {
            for leftover in all {
                let path = leftover.path().to_owned();
                if let Err(error) = leftover.remove() {
                    report(&error, &path);
                }
            }
        }
    };
    if let Err(error) = file_threads::spawn(work) {
        tracing::warn!(%error, "temporary files of an earlier server were not removed");
    } else if tokio::time::timeout(RECOVERY_TIMEOUT, recovered).await.is_err() {
        tracing::warn!("a file system does not respond: folders of an earlier server are not complete yet");
    }
    remove
}

/// A path as a request gives it.
#[derive(Debug, Clone)]
pub(crate) struct GivenPath {
    bytes: Vec<u8>,
    field: &'static str,
}

impl GivenPath {
    /// The path in `field`, or in base64 in the field with the suffix `Base64`.
    pub(crate) fn new(
        field: &'static str,
        text: Option<String>,
        base64: Option<String>,
    ) -> Result<Self, ApiError> {
        let bytes = match (text, base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(base64)) => {
                base64::engine::general_purpose::STANDARD.decode(base64).map_err(|e| {
                    ApiError::invalid(&format!("{field}Base64"), format!("not valid base64: {e}"))
                })?
            }
            (None, None) => {
                return Err(ApiError::invalid(field, format!("missing; give {field} or {field}Base64")));
            }
            (Some(_), Some(_)) => {
                return Err(ApiError::invalid(
                    field,
                    format!("give either {field} or {field}Base64, not both"),
                ));
            }
        };
        Ok(Self { bytes, field })
    }

    /// Whether the path begins with a slash.
    pub(crate) fn is_absolute(&self) -> bool {
        self.bytes.starts_with(b"/")
    }

    /// The path as it is.
    pub(crate) fn to_path(&self) -> PathBuf {
        OsString::from_vec(self.bytes.clone()).into()
    }

    /// The path for responses. Bytes that are not UTF-8 are replaced.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_both_paths_is_required() {
        let given = |text: Option<&str>, base64: Option<&str>| {
            GivenPath::new("oldPath", text.map(Into::into), base64.map(Into::into))
                .map(|path| path.bytes)
                .map_err(|e| e.field().unwrap_or_default().to_owned())
        };
        assert_eq!(given(Some("a"), None), Ok(b"a".to_vec()));
        assert_eq!(given(None, Some("/w==")), Ok(vec![0xff]));
        assert_eq!(given(None, Some("?")), Err("oldPathBase64".into()));
        assert_eq!(given(None, None), Err("oldPath".into()));
        assert_eq!(given(Some("a"), Some("YQ==")), Err("oldPath".into()));
    }
}
