//! Git: cloning a repository, and working with one.

use reqwest::Method;
use reqwest::header::ACCEPT;
use sandcrab_api::git::{
    GitAddRequest, GitAddResult, GitBranches, GitCheckoutRequest, GitCheckoutResult, GitCommitRequest,
    GitCommitResult, GitDiff, GitDiffRequest, GitEvent, GitLog, GitLogRequest, GitRequest, GitStatus,
    GitSyncRequest, GitSyncResult,
};

use crate::{Client, ClientError, Events};

impl Client {
    /// Clones a repository.
    pub async fn git_checkout(&self, request: &GitCheckoutRequest) -> Result<GitCheckoutResult, ClientError> {
        let request = self.request(Method::POST, &["api", "git", "checkout"])?.json(request);
        self.call(request.header(ACCEPT, "application/json")).await
    }

    /// Clones a repository, with events about the progress. The clone continues if the stream is dropped or its connection
    /// is lost.
    pub async fn git_checkout_stream(
        &self,
        request: &GitCheckoutRequest,
    ) -> Result<Events<GitEvent>, ClientError> {
        let post = self.request(Method::POST, &["api", "git", "checkout"])?.json(request);
        Events::open(self.clone(), post.header(ACCEPT, "text/event-stream"), None).await
    }

    /// The branch and the files that differ.
    pub async fn git_status(&self, request: &GitRequest) -> Result<GitStatus, ClientError> {
        self.post_read(&["api", "git", "status"], request).await
    }

    /// The differences between worktree, index and commits.
    pub async fn git_diff(&self, request: &GitDiffRequest) -> Result<GitDiff, ClientError> {
        self.post_read(&["api", "git", "diff"], request).await
    }

    /// Commits, newest first.
    pub async fn git_log(&self, request: &GitLogRequest) -> Result<GitLog, ClientError> {
        self.post_read(&["api", "git", "log"], request).await
    }

    /// The branches.
    pub async fn git_branches(&self, request: &GitRequest) -> Result<GitBranches, ClientError> {
        self.post_read(&["api", "git", "branches"], request).await
    }

    /// Stages files.
    pub async fn git_add(&self, request: &GitAddRequest) -> Result<GitAddResult, ClientError> {
        self.post(&["api", "git", "add"], request).await
    }

    /// Commits what is staged.
    pub async fn git_commit(&self, request: &GitCommitRequest) -> Result<GitCommitResult, ClientError> {
        self.post(&["api", "git", "commit"], request).await
    }

    /// Fetches from a remote, and advances the current branch.
    pub async fn git_pull(&self, request: &GitSyncRequest) -> Result<GitSyncResult, ClientError> {
        self.post(&["api", "git", "pull"], request).await
    }

    /// Sends the commits of a branch to a remote.
    pub async fn git_push(&self, request: &GitSyncRequest) -> Result<GitSyncResult, ClientError> {
        self.post(&["api", "git", "push"], request).await
    }
}
