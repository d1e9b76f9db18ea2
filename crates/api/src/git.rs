//! Git: cloning a repository, and working with one.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::event::ErrorEvent;
use crate::wire_enum::wire_enum;

/// Credentials of one call. They are used for the host of the repository only, and are stored nowhere.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitCredentials {
    /// The user name. Hosts that take a token accept any name.
    pub username: String,
    /// The password or token.
    pub password: String,
}

impl std::fmt::Debug for GitCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GitCredentials")
    }
}

/// A request to clone a repository.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GitCheckoutRequest {
    /// URL of the repository (`https`, `http`, `ssh`, `git`, `file`, or `user@host:path`), or a path. A user and password
    /// in the URL are used like `credentials`, and removed from the URL.
    pub repo_url: String,
    /// Branch or tag to check out. Default: the branch of the remote's `HEAD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Directory of the clone. It must not exist, or be empty. Default: the name of the repository, in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_dir: Option<String>,
    /// Number of commits to fetch. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub depth: Option<u32>,
    /// Timeout in milliseconds. Default: 600,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub timeout_ms: Option<u64>,
    /// Credentials for `https` and `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<GitCredentials>,
    /// Id of the session to whose working directory relative paths refer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// A cloned repository.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitCheckoutResult {
    /// Always true.
    pub success: bool,
    /// URL of the repository, without credentials.
    pub repo_url: String,
    /// The branch or tag that is checked out.
    pub branch: String,
    /// Directory of the clone.
    pub target_dir: String,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// Progress of a clone.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GitProgressEvent {
    /// What git does, for example `Receiving objects`.
    pub phase: String,
    /// Progress of the phase in percent.
    #[schema(maximum = 100)]
    pub percent: u8,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// The clone is complete.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitCompleteEvent {
    /// URL of the repository, without credentials.
    pub repo_url: String,
    /// The branch or tag that is checked out.
    pub branch: String,
    /// Directory of the clone.
    pub target_dir: String,
    /// Time of the event.
    pub timestamp: Timestamp,
}

/// An event of a clone: `progress`, then `complete` or `error`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GitEvent {
    /// Progress of the clone.
    Progress(GitProgressEvent),
    /// The clone is complete. Last event of the stream.
    Complete(GitCompleteEvent),
    /// The clone failed. Last event of the stream.
    Error(ErrorEvent),
}

/// A request about a repository.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GitRequest {
    /// A directory of the repository. Default: the working directory of the session, or the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Id of the session to whose working directory relative paths refer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

wire_enum! {
    /// The kind of a difference.
    pub enum GitChange {
        /// It does not differ.
        Unmodified = "unmodified",
        /// Its content or mode differs.
        Modified = "modified",
        /// It is new.
        Added = "added",
        /// It was deleted.
        Deleted = "deleted",
        /// It was renamed.
        Renamed = "renamed",
        /// It was copied.
        Copied = "copied",
        /// Its type differs, for example a file became a symbolic link.
        TypeChanged = "type_changed",
        /// Both sides of a merge changed it.
        Unmerged = "unmerged",
        /// It is not tracked.
        Untracked = "untracked",
        else Unknown
    }
}

/// A file that differs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitFileStatus {
    /// Path of the file, relative to the top of the repository.
    pub path: String,
    /// The index, compared with the last commit.
    pub index: GitChange,
    /// The worktree, compared with the index.
    pub worktree: GitChange,
    /// The path before a rename or copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_path: Option<String>,
}

/// The state of a repository.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GitStatus {
    /// Always true.
    pub success: bool,
    /// The current branch. Absent if a commit is checked out directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Hash of the current commit. Absent before the first commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The branch that the current one follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Number of commits that the upstream branch does not have.
    pub ahead: u64,
    /// Number of commits that only the upstream branch has.
    pub behind: u64,
    /// The files that differ.
    pub files: Vec<GitFileStatus>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A request for commits.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GitLogRequest {
    /// A directory of the repository. Default: the working directory of the session, or the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Branch, tag or commit to begin with. Default: `HEAD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Only commits that changed these paths, relative to `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Maximum number of commits. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10000)]
    pub limit: Option<u32>,
    /// Id of the session to whose working directory relative paths refer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// A commit.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitCommit {
    /// Hash.
    pub hash: String,
    /// Hashes of the parents.
    pub parents: Vec<String>,
    /// Name of the author.
    pub author: String,
    /// Email address of the author.
    pub email: String,
    /// Time at which the author wrote it, as ISO 8601 with the zone of the author.
    pub date: String,
    /// First line of the message.
    pub subject: String,
}

/// Commits.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GitLog {
    /// Always true.
    pub success: bool,
    /// The commits, newest first.
    pub commits: Vec<GitCommit>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A branch.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GitBranch {
    /// Its name: `main`, or `origin/main` for a branch of a remote.
    pub name: String,
    /// Hash of its last commit.
    pub hash: String,
    /// True for the current branch.
    pub current: bool,
    /// True for a branch of a remote.
    pub remote: bool,
    /// The branch that it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
}

/// Branches.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GitBranches {
    /// Always true.
    pub success: bool,
    /// The branches, local ones first.
    pub branches: Vec<GitBranch>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A request to stage files.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GitAddRequest {
    /// A directory of the repository. Default: the working directory of the session, or the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The files and directories to stage, relative to `path`; deleted ones too. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Id of the session to whose working directory relative paths refer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Files were staged.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GitAddResult {
    /// Always true.
    pub success: bool,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// The author of a commit.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitAuthor {
    /// Name.
    pub name: String,
    /// Email address.
    pub email: String,
}

/// A request to commit what is staged.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GitCommitRequest {
    /// A directory of the repository. Default: the working directory of the session, or the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The message.
    pub message: String,
    /// Author and committer. Default: as git is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<GitAuthor>,
    /// Also stage all changes to tracked files. Default: `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    /// Id of the session to whose working directory relative paths refer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// A new commit.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GitCommitResult {
    /// Always true.
    pub success: bool,
    /// Hash of the commit.
    pub hash: String,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A request to exchange commits with a remote.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GitSyncRequest {
    /// A directory of the repository. Default: the working directory of the session, or the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Name of the remote. Default: `origin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// The branch. Default: the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Timeout in milliseconds. Default: 600,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub timeout_ms: Option<u64>,
    /// Credentials for `https` and `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<GitCredentials>,
    /// Id of the session to whose working directory relative paths refer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// A reference that a pull or push changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRefUpdate {
    /// Full name, such as `refs/heads/main`.
    #[serde(rename = "ref")]
    pub name: String,
    /// Hash before. Absent if it is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Hash after. Absent if it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The references that a pull or push changed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GitSyncResult {
    /// Always true.
    pub success: bool,
    /// The local references that changed, by name. A push changes those of the remote, such as `refs/remotes/origin/main`.
    pub refs: Vec<GitRefUpdate>,
    /// Time of the response.
    pub timestamp: Timestamp,
}

/// A request for differences.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GitDiffRequest {
    /// A directory of the repository. Default: the working directory of the session, or the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Only these paths, relative to `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Compare the index with the last commit, instead of the worktree with the index. Default: `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<bool>,
    /// Branch, tag or commit to compare with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Id of the session to whose working directory relative paths refer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// A changed part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GitHunk {
    /// `@@ -FROM,COUNT +TO,COUNT @@`, with the line of the enclosing function.
    pub header: String,
    /// The lines, each beginning with a space, `+`, `-` or `\`.
    pub lines: String,
}

/// The differences of a file.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitFileDiff {
    /// Path of the file, relative to the top of the repository.
    pub path: String,
    /// The path before a rename or copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_path: Option<String>,
    /// Number of added lines.
    pub added: u64,
    /// Number of removed lines.
    pub removed: u64,
    /// True if git compares the file as bytes: it has no lines.
    pub binary: bool,
    /// The changed parts.
    pub hunks: Vec<GitHunk>,
}

/// Differences.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GitDiff {
    /// Always true.
    pub success: bool,
    /// The files that differ.
    pub files: Vec<GitFileDiff>,
    /// Time of the response.
    pub timestamp: Timestamp,
}
