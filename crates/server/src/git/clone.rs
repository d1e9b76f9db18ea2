//! Cloning: into a temporary directory, which gets its name when the clone is complete.
//!
//! The execution of a clone has a note, and its temporary directory a record. If the server is killed, the next one ends
//! the clone and removes the directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sandcrab_engine::{Event, Execution, Stream};
use sandcrab_workspace::Staging;
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
        let records = self.place.sandbox.records.clone();
        let mut staging = self.place.run(move || Staging::new(&target, &records)).await?;
        let content = staging.content().to_owned();
        let result = self.fetch(&content, progress).await;
        // The clone would be lost if this were refused because others use all threads.
        let finished = self.place.run_step(move || match result {
            Ok(()) => match staging.finish() {
                Err(e) => Ok((Err(ApiError::from(e)), staging.discard())),
                Ok(()) => Ok((Ok(()), Ok(()))),
            },
            Err(e) => Ok((Err(e), staging.discard())),
        });
        let (result, discarded) = finished.await?;
        if let Err(error) = discarded {
            // What failed matters more. The next server tries again.
            tracing::warn!(%error, "a failed clone could not be removed");
        }
        result?;
        let head = self.target.join(".git/HEAD");
        let head = self.place.run_step(move || Ok(std::fs::read_to_string(head).unwrap_or_default())).await?;
        let branch = head.trim_end().strip_prefix("ref: refs/heads/").map(ToOwned::to_owned);
        Ok(branch.or(self.branch).unwrap_or_else(|| "HEAD".into()))
    }

    async fn fetch(&self, to: &Path, progress: Option<mpsc::Sender<Progress>>) -> Result<(), ApiError> {
        let mut args: Vec<OsString> = vec!["clone".into()];
        args.extend(progress.is_some().then(|| "--progress".into()));
        args.extend(self.branch.iter().map(|branch| format!("--branch={branch}").into()));
        args.extend(self.depth.iter().map(|depth| format!("--depth={depth}").into()));
        args.extend(["--".into(), self.url.text.clone().into(), to.into()]);
        let note = ExecutionNote { is_clone: true, ..ExecutionNote::default() };
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

/// Ends clones of an earlier server, so that git writes nothing more to their temporary directories.
pub(crate) async fn end_interrupted(app: &App) {
    for execution in app.sandbox.engine.executions() {
        let info = execution.info();
        let is_clone = note::read::<ExecutionNote>(info.note.as_deref()).is_clone;
        if is_clone && info.status.end().is_none() {
            drop(execution.kill(SIGKILL, std::time::Duration::ZERO).await);
            drop(execution.wait().await);
        }
    }
}
