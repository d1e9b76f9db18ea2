//! Cloning: into a temporary directory, which gets its name when the clone is complete.
//!
//! The execution of a clone has a note, and its temporary directory a record. If the server is killed, the next one ends
//! the clone and removes the directory.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sandcrab_engine::{Event, Execution, Stream};
use sandcrab_workspace::{FileError, Staging};
use tokio::sync::mpsc;

use super::command::{Git, MAX_ERROR_BYTES};
use super::progress::{Progress, ProgressParser};
use super::secrets::Secrets;
use super::url::RepositoryUrl;
use crate::app::App;
use crate::error::ApiError;
use crate::file_threads::STEP_TIMEOUT;
use crate::files::Place;
use crate::note::{self, ExecutionNote};

/// Maximum size of the file that names the current branch.
const MAX_HEAD_BYTES: u64 = 4096;
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
        let permit = match self.place.sandbox.file_threads.permit(STEP_TIMEOUT).await {
            Ok(permit) => permit,
            Err(error) => {
                self.git.app().tasks.spawn(discard_later(self.place.clone(), staging));
                return Err(error);
            }
        };
        let finished = self.place.run_permitted(permit, move || match result {
            Ok(()) => match staging.finish() {
                Err(e) => Ok((Err(ApiError::from(e)), staging.discard())),
                Ok(()) => Ok::<_, FileError>((Ok(()), Ok(()))),
            },
            Err(e) => Ok((Err(e), staging.discard())),
        });
        let (result, discarded) = finished.await?;
        if let Err(error) = discarded {
            // What failed matters more. The next server tries again.
            tracing::warn!(%error, "a failed clone could not be removed");
        }
        result?;
        let target = self.target.clone();
        let branch = self.place.run_step(move || Ok(current_branch(&target))).await?;
        Ok(branch.or(self.branch).unwrap_or_else(|| "HEAD".into()))
    }

    async fn fetch(&self, to: &Path, progress: Option<mpsc::Sender<Progress>>) -> Result<(), ApiError> {
        let mut args: Vec<OsString> = vec!["clone".into()];
        args.extend(progress.is_some().then(|| "--progress".into()));
        args.extend(self.branch.iter().map(|branch| format!("--branch={branch}").into()));
        args.extend(self.depth.iter().map(|depth| format!("--depth={depth}").into()));
        args.extend(["--".into(), self.url.text.clone().into(), to.into()]);
        let note = ExecutionNote { is_clone: true, ..ExecutionNote::default() };
        let git = self.git.start(&args, None, Some(note::write(&note))).await?;
        let stderr = follow(git.execution()?, progress, &self.git.secrets()).await?;
        let end = git.wait().await?;
        git.finish().await;
        self.git.check("clone", &end, &stderr, &[])
    }
}

/// Removes a clone when a thread is free. If the server stops before, the next one removes it.
async fn discard_later(place: Place, mut staging: Staging) {
    let permit = loop {
        if let Ok(permit) = place.sandbox.file_threads.permit(STEP_TIMEOUT).await {
            break permit;
        }
    };
    if let Err(error) = place.run_permitted(permit, move || staging.discard()).await {
        tracing::warn!(error = error.message(), "a clone that could not be finished could not be removed");
    }
}

/// The branch that is checked out. A hook of the clone may have replaced the file that names it.
fn current_branch(clone: &Path) -> Option<String> {
    let mut reserve = |_| Ok::<(), Infallible>(());
    let head = sandcrab_workspace::read(&clone.join(".git/HEAD"), MAX_HEAD_BYTES, false, &mut reserve);
    let head = String::from_utf8(head.ok()?.ok()?.bytes).ok()?;
    head.trim_end().strip_prefix("ref: refs/heads/").map(ToOwned::to_owned)
}

/// Follows standard error to its end. Returns the last part of it.
async fn follow(
    execution: &Execution,
    progress: Option<mpsc::Sender<Progress>>,
    secrets: &Secrets,
) -> Result<Vec<u8>, ApiError> {
    let mut follower = execution.follow(0)?;
    let mut parser = ProgressParser::default();
    let mut last = Vec::new();
    while let Some(entry) = follower.next().await? {
        let Event::Output { stream: Stream::Stderr, bytes, .. } = entry.event else { continue };
        if let Some(progress) = &progress {
            for mut report in parser.feed(&bytes) {
                // The remote chooses the text.
                report.phase = secrets.masked(&report.phase, false);
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn branch_is_read_from_a_small_regular_file_only() {
        let folder = tempfile::tempdir().unwrap();
        let head = folder.path().join(".git/HEAD");
        fs::create_dir(folder.path().join(".git")).unwrap();
        let branch = || {
            let (done, ended) = mpsc::channel();
            let clone = folder.path().to_owned();
            // A read that blocks cannot be ended.
            std::thread::spawn(move || drop(done.send(current_branch(&clone))));
            ended.recv_timeout(Duration::from_secs(30)).unwrap()
        };
        assert_eq!(branch(), None);
        fs::write(&head, "ref: refs/heads/a/b\n").unwrap();
        assert_eq!(branch().as_deref(), Some("a/b"));
        fs::write(&head, format!("ref: refs/heads/{}\n", "x".repeat(5_000))).unwrap();
        assert_eq!(branch(), None);
        fs::remove_file(&head).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &head).unwrap();
        assert_eq!(branch(), None);
        fs::remove_file(&head).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&head).status().unwrap();
        assert!(made.success());
        assert_eq!(branch(), None);
    }
}
