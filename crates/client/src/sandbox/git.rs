//! Calls on Git repositories.

use sandcrab_api::git::{
    GitAddRequest, GitBranches, GitCheckoutRequest, GitCheckoutResult, GitCommitRequest, GitCommitResult,
    GitDiff, GitDiffRequest, GitEvent, GitLog, GitLogRequest, GitRequest, GitStatus, GitSyncRequest,
    GitSyncResult,
};

use super::scope::{Scope, bound};
use crate::{ClientError, Events};

/// A text is the directory of the repository, unless said otherwise.
impl Scope {
    /// Clones a repository. A text is its URL.
    pub async fn git_checkout(
        &self,
        request: impl Into<GitCheckoutRequest>,
    ) -> Result<GitCheckoutResult, ClientError> {
        let request = bound!(self, request => GitCheckoutRequest);
        self.client().git_checkout(&request).await
    }

    /// The same with events about the progress.
    pub async fn git_checkout_stream(
        &self,
        request: impl Into<GitCheckoutRequest>,
    ) -> Result<Events<GitEvent>, ClientError> {
        let request = bound!(self, request => GitCheckoutRequest);
        self.client().git_checkout_stream(&request).await
    }

    /// The branch and the files that differ.
    pub async fn git_status(&self, request: impl Into<GitRequest>) -> Result<GitStatus, ClientError> {
        let request = bound!(self, request => GitRequest);
        self.client().git_status(&request).await
    }

    /// The differences between worktree, index and commits.
    pub async fn git_diff(&self, request: impl Into<GitDiffRequest>) -> Result<GitDiff, ClientError> {
        let request = bound!(self, request => GitDiffRequest);
        self.client().git_diff(&request).await
    }

    /// Commits, the newest first.
    pub async fn git_log(&self, request: impl Into<GitLogRequest>) -> Result<GitLog, ClientError> {
        let request = bound!(self, request => GitLogRequest);
        self.client().git_log(&request).await
    }

    /// The branches.
    pub async fn git_branches(&self, request: impl Into<GitRequest>) -> Result<GitBranches, ClientError> {
        let request = bound!(self, request => GitRequest);
        self.client().git_branches(&request).await
    }

    /// Stages files.
    pub async fn git_add(&self, request: impl Into<GitAddRequest>) -> Result<(), ClientError> {
        let request = bound!(self, request => GitAddRequest);
        self.client().git_add(&request).await.map(drop)
    }

    /// Commits what is staged. A text is the message, in the workspace.
    pub async fn git_commit(
        &self,
        request: impl Into<GitCommitRequest>,
    ) -> Result<GitCommitResult, ClientError> {
        let request = bound!(self, request => GitCommitRequest);
        self.client().git_commit(&request).await
    }

    /// Fetches from a remote, and advances the current branch.
    pub async fn git_pull(&self, request: impl Into<GitSyncRequest>) -> Result<GitSyncResult, ClientError> {
        let request = bound!(self, request => GitSyncRequest);
        self.client().git_pull(&request).await
    }

    /// Sends the commits of a branch to a remote.
    pub async fn git_push(&self, request: impl Into<GitSyncRequest>) -> Result<GitSyncResult, ClientError> {
        let request = bound!(self, request => GitSyncRequest);
        self.client().git_push(&request).await
    }
}
