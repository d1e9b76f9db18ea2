//! `sandcrab backup`: backups of folders.

use std::time::SystemTime;

use clap::{Args, Subcommand};
use sandcrab_api::backup::{CreateBackupRequest, RestoreBackupRequest};

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::DurationArg;
use crate::table;

/// Create, list and restore backups of folders in the sandbox.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    command: BackupCommand,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    Create(CreateArgs),
    /// List the backups that the server keeps, the newest first.
    List,
    Restore(RestoreArgs),
    Delete(DeleteArgs),
}

/// Create a backup of a folder and print its id.
///
/// The server keeps it until it expires or is deleted. With --archive, it is a file in the sandbox instead, and its path is printed.
#[derive(Debug, Args)]
struct CreateArgs {
    /// The folder in the sandbox.
    dir: String,
    /// Display name.
    #[arg(long)]
    name: Option<String>,
    /// Time until the backup expires, such as 12h or 30d [default: 3d].
    #[arg(long, value_name = "DURATION")]
    ttl: Option<DurationArg>,
    /// Leave out what .gitignore files exclude.
    #[arg(long)]
    gitignore: bool,
    /// Leave out what matches a rule, as in a .gitignore file. Repeatable.
    #[arg(short = 'x', long = "exclude", value_name = "RULE")]
    excludes: Vec<String>,
    /// Write the archive to this file in the sandbox.
    #[arg(long, value_name = "FILE")]
    archive: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

/// Replace a folder by a backup of it.
///
/// The folder is replaced at once. Nothing of the old content stays. After an error it is as before.
#[derive(Debug, Args)]
struct RestoreArgs {
    /// Id of the backup.
    #[arg(required_unless_present_any = ["archive", "from_url"], conflicts_with_all = ["archive", "from_url"])]
    id: Option<String>,
    /// The folder in the sandbox [default: that of the backup].
    #[arg(long, value_name = "DIR", required_unless_present = "id")]
    to: Option<String>,
    /// Restore from this archive in the sandbox.
    #[arg(long, value_name = "FILE", conflicts_with = "from_url")]
    archive: Option<String>,
    /// Restore from the archive at this URL, such as a presigned one of S3.
    #[arg(long, value_name = "URL")]
    from_url: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

/// Delete backups.
#[derive(Debug, Args)]
struct DeleteArgs {
    /// Ids of the backups.
    #[arg(required = true)]
    ids: Vec<String>,
}

pub(crate) async fn run(args: BackupArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    match args.command {
        BackupCommand::Create(args) => create(args, global, output).await,
        BackupCommand::List => list(global, output).await,
        BackupCommand::Restore(args) => restore(args, global, output).await,
        BackupCommand::Delete(args) => delete(args, global, output).await,
    }
}

async fn create(args: CreateArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let is_file = args.archive.is_some();
    let request = CreateBackupRequest {
        dir: args.dir,
        name: args.name,
        ttl: args.ttl.map(|ttl| ttl.milliseconds().div_ceil(1000)),
        gitignore: Some(args.gitignore),
        excludes: Some(args.excludes),
        archive_path: args.archive,
        session_id: args.session,
        ..CreateBackupRequest::default()
    };
    let made = global.client()?.create_backup(&request).await?;
    if output.json {
        output.document(&made)?;
        return Ok(0);
    }
    if made.changed_files > 0 {
        output.note(&format!("{} files changed while they were read", made.changed_files));
    }
    output.line(if is_file { table::plain(&made.archive_path) } else { made.id })?;
    Ok(0)
}

async fn list(global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let list = global.client()?.list_backups().await?;
    if output.json {
        output.document(&list)?;
        return Ok(0);
    }
    let mut rows = table::table(output, &["ID", "CREATED", "EXPIRES", "SIZE", "DIR", "NAME"]);
    let now = SystemTime::now();
    for backup in list.backups {
        let age = now.duration_since(backup.created_at.to_system_time()).unwrap_or_default();
        let left = backup.expires_at.to_system_time().duration_since(now).unwrap_or_default();
        rows.add_row([
            backup.id,
            format!("{} ago", table::duration(age)),
            format!("in {}", table::duration(left)),
            table::size(backup.size_bytes),
            table::plain(&backup.dir),
            table::plain(&backup.name.unwrap_or_default()),
        ]);
    }
    table::print(output, &mut rows)?;
    Ok(0)
}

async fn restore(args: RestoreArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let dir = match (args.to, &args.id) {
        (Some(dir), _) => dir,
        (None, Some(id)) => {
            let list = client.list_backups().await?;
            let backup = list.backups.into_iter().find(|backup| backup.id == *id);
            // The server says what is wrong with the id.
            backup.map_or_else(|| ".".to_owned(), |backup| backup.dir)
        }
        (None, None) => return Err(Failure::usage("the folder is missing", "give it with --to")),
    };
    let request = RestoreBackupRequest {
        dir,
        id: args.id,
        archive_path: args.archive,
        url: args.from_url,
        session_id: args.session,
    };
    let restored = client.restore_backup(&request).await?;
    if output.json {
        output.document(&restored)?;
    } else if let Some(leftover) = &restored.leftover {
        output.note(&format!("the old content could not be removed: {}", table::plain(leftover)));
    }
    Ok(0)
}

async fn delete(args: DeleteArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    for id in args.ids {
        let deleted = client.delete_backup(&id).await?;
        if output.json {
            output.json_line(&deleted)?;
        }
    }
    Ok(0)
}
