//! Cloning: into a temporary directory, which gets its name when the clone is complete.
//!
//! The path of the temporary directory is in the note of the execution. If the server is killed, the next one ends the
//! clone and removes the directory.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandcrab_engine::{Event, Execution, Stream};
use sandcrab_workspace::{Staging, discard};
use tokio::sync::mpsc;

use super::command::Git;
use super::progress::{Progress, ProgressParser};
use super::url::RepositoryUrl;
use crate::app::App;
use crate::error::ApiError;
use crate::files::Place;
use crate::note::{self, ExecutionNote};

/// Maximum size of standard error that is kept for a failure.
const MAX_ERROR_BYTES: usize = 64 << 10;
const SIGKILL: i32 = 9;

/// A clone that is to be made.
#[derive(Debug)]
pub(crate) struct CloneOperation {
    pub(crate) place: Place,
    pub(crate) git: Git,
    pub(crate) url: RepositoryUrl,
    pub(crate) branch: Option<String>,
    pub(crate) depth: Option<u32>,
    pub(crate) target: PathBuf,
}

impl CloneOperation {
    /// Clones, and returns the branch or tag that is checked out. Sends progress that the receiver has room for.
    pub(crate) async fn run(self, progress: Option<mpsc::Sender<Progress>>) -> Result<String, ApiError> {
        let target = self.target.clone();
        let staging = self.place.run(move || Staging::new(&target)).await?;
        let temporary = staging.temporary().to_owned();
        let result = match self.fetch(&temporary, progress).await {
            Ok(()) => self.place.run(move || staging.finish()).await,
            Err(e) => Err(e),
        };
        if let Err(e) = result {
            // What failed matters more than a directory that cannot be removed.
            let removed = self.place.run(move || discard(&temporary)).await;
            if let Err(removal) = removed {
                tracing::warn!(error = removal.message(), "a failed clone could not be removed");
            }
            return Err(e);
        }
        let head = self.target.join(".git/HEAD");
        let head = self.place.run(move || Ok(std::fs::read_to_string(head).unwrap_or_default())).await?;
        let branch = head.trim_end().strip_prefix("ref: refs/heads/").map(ToOwned::to_owned);
        Ok(branch.or(self.branch).unwrap_or_else(|| "HEAD".into()))
    }

    async fn fetch(&self, to: &Path, progress: Option<mpsc::Sender<Progress>>) -> Result<(), ApiError> {
        let mut args: Vec<OsString> = vec!["clone".into()];
        args.extend(progress.is_some().then(|| "--progress".into()));
        args.extend(self.branch.iter().map(|branch| format!("--branch={branch}").into()));
        args.extend(self.depth.iter().map(|depth| format!("--depth={depth}").into()));
        args.extend(["--".into(), self.url.text.clone().into(), to.into()]);
        let note = ExecutionNote {
            clone: Some(STANDARD.encode(to.as_os_str().as_encoded_bytes())),
            ..ExecutionNote::default()
        };
        let execution = self.git.start(&args, None, Some(note::write(&note))).await?;
        let stderr = follow(&execution, progress).await?;
        let end = execution.wait().await?;
        self.git.check("clone", &end, &stderr, &[])
    }
}

/// Follows standard error to its end. Returns the last part of it.
async fn follow(
    execution: &Execution,
    progress: Option<mpsc::Sender<Progress>>,
) -> Result<Vec<u8>, ApiError> {
    let mut follower = execution.follow(0)?;
    let mut parser = ProgressParser::default();
    let mut last = Vec::new();
    while let Some(entry) = follower.next().await? {
        let Event::Output { stream: Stream::Stderr, bytes, .. } = entry.event else { continue };
        if let Some(progress) = &progress {
            for report in parser.feed(&bytes) {
                // A reader that is slow, or has left, misses reports.
                drop(progress.try_send(report));
            }
        }
        last.extend_from_slice(&bytes);
        let excess = last.len().saturating_sub(MAX_ERROR_BYTES);
        last.drain(..excess);
    }
    Ok(last)
}

/// Ends clones of an earlier server, and removes their directories.
pub(crate) fn remove_interrupted(app: &App) {
    for execution in app.sandbox.engine.executions() {
        let info = execution.info();
        let Some(path) = note::read::<ExecutionNote>(info.note.as_deref()).clone else { continue };
        let Ok(path) = STANDARD.decode(path).map(OsString::from_vec) else { continue };
        let place = Place::of_sandbox(app.sandbox.clone());
        app.tasks.spawn(async move {
            if info.status.end().is_none() {
                drop(execution.kill(SIGKILL, std::time::Duration::ZERO).await);
                // Git writes nothing more.
                drop(execution.wait().await);
            }
            if let Err(e) = place.run(move || discard(Path::new(&path))).await {
                tracing::warn!(error = e.message(), "an interrupted clone could not be removed");
            }
        });
    }
}
