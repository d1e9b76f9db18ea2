//! `sandcrab git`: the commands of git.

use clap::{Args, Subcommand};
use sandcrab_api::git::{
    GitAddRequest, GitAuthor, GitChange, GitCheckoutRequest, GitCommitRequest, GitCredentials,
    GitDiffRequest, GitLogRequest, GitRequest, GitSyncRequest, GitSyncResult,
};

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::DurationArg;
use crate::table;

/// Environment variable with the password or token of a git host.
const PASSWORD_VARIABLE: &str = "SANDCRAB_GIT_PASSWORD";

/// Clone repositories in the sandbox, and work in them.
///
/// Paths are paths of the sandbox. For everything else run git as a command: `sandcrab exec -- git ...`.
#[derive(Debug, Args)]
pub(crate) struct GitArgs {
    #[command(subcommand)]
    command: GitCommand,
}

#[derive(Debug, Subcommand)]
enum GitCommand {
    Clone(CloneArgs),
    /// Print the branch and the files that differ.
    Status(RepositoryArgs),
    Diff(DiffArgs),
    Log(LogArgs),
    /// List the branches.
    Branches(RepositoryArgs),
    Add(AddArgs),
    Commit(CommitArgs),
    /// Fetch from a remote, and advance the current branch.
    Pull(SyncArgs),
    /// Send the commits of a branch to a remote.
    Push(SyncArgs),
}

#[derive(Debug, Clone, Args)]
struct RepositoryArgs {
    /// Directory of the repository in the sandbox [default: the workspace, or the working directory of the session].
    #[arg(short = 'C', long = "path", value_name = "DIR")]
    path: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

#[derive(Debug, Args)]
struct NetworkArgs {
    /// User name for the git host. The password or token is read from the variable SANDCRAB_GIT_PASSWORD.
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// Timeout, such as 30s or 5m [default: 10m].
    #[arg(long, value_name = "DURATION")]
    timeout: Option<DurationArg>,
}

impl NetworkArgs {
    fn credentials(&self) -> Option<GitCredentials> {
        let username = self.username.clone()?;
        let password = std::env::var(PASSWORD_VARIABLE).unwrap_or_default();
        Some(GitCredentials { username, password })
    }

    fn timeout_ms(&self) -> Option<u64> {
        self.timeout.map(DurationArg::milliseconds)
    }
}

/// Clone a repository and print its directory.
///
/// The clone appears when it is complete. A failed clone leaves nothing behind.
#[derive(Debug, Args)]
struct CloneArgs {
    /// URL or path of the repository.
    // Not `url`: an argument with the id of a global option takes its place.
    #[arg(value_name = "URL")]
    repository: String,
    /// Directory of the clone [default: the name of the repository, in the workspace].
    dir: Option<String>,
    /// Branch or tag to check out.
    #[arg(short, long)]
    branch: Option<String>,
    /// Number of commits to fetch [default: all].
    #[arg(long, value_name = "COUNT")]
    depth: Option<u32>,
    /// Resolve relative paths against the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    network: NetworkArgs,
}

/// Print the differences between the worktree and the index.
#[derive(Debug, Args)]
struct DiffArgs {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Compare the index with the last commit.
    #[arg(long)]
    staged: bool,
    /// Branch, tag or commit to compare with.
    #[arg(long)]
    branch: Option<String>,
    /// Only these files and directories.
    paths: Vec<String>,
}

/// Print commits, newest first.
#[derive(Debug, Args)]
struct LogArgs {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Branch, tag or commit to begin with [default: HEAD].
    #[arg(long)]
    branch: Option<String>,
    /// Maximum number of commits [default: 100].
    #[arg(short = 'n', long, value_name = "COUNT")]
    limit: Option<u32>,
    /// Only commits that changed these files and directories.
    paths: Vec<String>,
}

/// Stage files; all changes by default.
#[derive(Debug, Args)]
struct AddArgs {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// The files and directories to stage.
    paths: Vec<String>,
}

/// Commit what is staged, and print the hash.
#[derive(Debug, Args)]
struct CommitArgs {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// The message.
    #[arg(short, long)]
    message: String,
    /// Name of the author and committer [default: as git is configured].
    #[arg(long, value_name = "NAME", requires = "email")]
    author: Option<String>,
    /// Email address of the author and committer.
    #[arg(long, value_name = "ADDRESS", requires = "author")]
    email: Option<String>,
    /// Also stage all changes to tracked files.
    #[arg(short, long)]
    all: bool,
}

#[derive(Debug, Args)]
struct SyncArgs {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Name of the remote [default: origin].
    remote: Option<String>,
    /// The branch [default: the current one].
    branch: Option<String>,
    #[command(flatten)]
    network: NetworkArgs,
}

impl SyncArgs {
    fn request(self) -> GitSyncRequest {
        let Self { repository, remote, branch, network } = self;
        GitSyncRequest {
            path: repository.path,
            session_id: repository.session,
            remote,
            branch,
            timeout_ms: network.timeout_ms(),
            credentials: network.credentials(),
        }
    }
}

fn some(paths: Vec<String>) -> Option<Vec<String>> {
    (!paths.is_empty()).then_some(paths)
}

pub(crate) async fn run(args: GitArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    match args.command {
        GitCommand::Clone(args) => {
            let request = GitCheckoutRequest {
                credentials: args.network.credentials(),
                timeout_ms: args.network.timeout_ms(),
                repo_url: args.repository,
                branch: args.branch,
                target_dir: args.dir,
                depth: args.depth,
                session_id: args.session,
            };
            let cloned = client.git_checkout(&request).await?;
            print(output, &cloned, || vec![table::plain(&cloned.target_dir)])
        }
        GitCommand::Status(args) => {
            let request = GitRequest { path: args.path, session_id: args.session };
            let status = client.git_status(&request).await?;
            print(output, &status, || {
                let branch = status.branch.as_deref().or(status.head.as_deref()).unwrap_or("no commit");
                let upstream = status.upstream.as_deref().map(|upstream| format!(" ({upstream})"));
                let mut lines =
                    vec![format!("{}{}", table::plain(branch), table::plain(&upstream.unwrap_or_default()))];
                lines.extend(status.files.iter().map(|file| {
                    format!("{}{} {}", letter(file.index), letter(file.worktree), table::plain(&file.path))
                }));
                lines
            })
        }
        GitCommand::Diff(DiffArgs { repository, staged, branch, paths }) => {
            let RepositoryArgs { path, session } = repository;
            let request = GitDiffRequest {
                path,
                session_id: session,
                staged: Some(staged),
                branch,
                paths: some(paths),
            };
            let diff = client.git_diff(&request).await?;
            print(output, &diff, || {
                let mut lines = Vec::new();
                for file in &diff.files {
                    lines.push(format!("{} +{} -{}", table::plain(&file.path), file.added, file.removed));
                    for hunk in &file.hunks {
                        lines.push(table::plain(&hunk.header));
                        lines.extend(hunk.lines.lines().map(table::plain));
                    }
                }
                lines
            })
        }
        GitCommand::Log(LogArgs { repository, branch, limit, paths }) => {
            let RepositoryArgs { path, session } = repository;
            let request = GitLogRequest { path, session_id: session, branch, limit, paths: some(paths) };
            let log = client.git_log(&request).await?;
            print(output, &log, || {
                let line = |commit: &sandcrab_api::git::GitCommit| {
                    let short: String = commit.hash.chars().take(10).collect();
                    format!(
                        "{short} {} {}: {}",
                        commit.date,
                        table::plain(&commit.author),
                        table::plain(&commit.subject)
                    )
                };
                log.commits.iter().map(line).collect()
            })
        }
        GitCommand::Branches(args) => {
            let request = GitRequest { path: args.path, session_id: args.session };
            let branches = client.git_branches(&request).await?;
            print(output, &branches, || {
                let line = |branch: &sandcrab_api::git::GitBranch| {
                    format!("{} {}", if branch.current { '*' } else { ' ' }, table::plain(&branch.name))
                };
                branches.branches.iter().map(line).collect()
            })
        }
        GitCommand::Add(AddArgs { repository, paths }) => {
            let RepositoryArgs { path, session } = repository;
            let added =
                client.git_add(&GitAddRequest { path, session_id: session, paths: some(paths) }).await?;
            print(output, &added, Vec::new)
        }
        GitCommand::Commit(args) => {
            let author = args.author.zip(args.email).map(|(name, email)| GitAuthor { name, email });
            let request = GitCommitRequest {
                path: args.repository.path,
                session_id: args.repository.session,
                message: args.message,
                author,
                all: Some(args.all),
            };
            let commit = client.git_commit(&request).await?;
            print(output, &commit, || vec![commit.hash.clone()])
        }
        GitCommand::Pull(args) => synced(output, &client.git_pull(&args.request()).await?),
        GitCommand::Push(args) => synced(output, &client.git_push(&args.request()).await?),
    }
}

fn synced(output: Output, result: &GitSyncResult) -> Result<u8, Failure> {
    print(output, result, || {
        let hash =
            |hash: &Option<String>| hash.as_deref().unwrap_or("-").chars().take(10).collect::<String>();
        let line = |update: &sandcrab_api::git::GitRefUpdate| {
            format!("{} {}..{}", table::plain(&update.name), hash(&update.before), hash(&update.after))
        };
        result.refs.iter().map(line).collect()
    })
}

/// The letter of `git status --short`.
fn letter(change: GitChange) -> char {
    match change {
        GitChange::Unmodified => ' ',
        GitChange::Modified => 'M',
        GitChange::Added => 'A',
        GitChange::Deleted => 'D',
        GitChange::Renamed => 'R',
        GitChange::Copied => 'C',
        GitChange::TypeChanged => 'T',
        GitChange::Unmerged => 'U',
        GitChange::Untracked | GitChange::Unknown => '?',
    }
}

/// Prints a result as JSON, or as lines.
fn print(
    output: Output,
    result: &impl serde::Serialize,
    lines: impl FnOnce() -> Vec<String>,
) -> Result<u8, Failure> {
    if output.json {
        return output.document(result).map(|()| 0);
    }
    let text: String = lines().iter().map(|line| format!("{line}\n")).collect();
    output.bytes(text.as_bytes()).map(|()| 0)
}
