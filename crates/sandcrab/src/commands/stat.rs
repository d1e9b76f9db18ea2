//! `sandcrab stat`.

use clap::Args;
use sandcrab_api::file::{FileStat, PathRequest};

use crate::batch::BatchResults;
use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// Show the metadata of files of the sandbox. A symbolic link is not followed.
#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    /// The files.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Resolve relative paths against the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

pub(crate) async fn run(args: StatArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let mut results = BatchResults::new(output, &args.paths);
    let mut found = Vec::new();
    for path in &args.paths {
        let request = PathRequest {
            path: Some(path.clone()),
            session_id: args.session.clone(),
            ..PathRequest::default()
        };
        if let Some(stat) = results.check(path, client.stat_file(&request).await)? {
            if output.json {
                results.document(&stat)?;
            }
            found.push(stat);
        }
    }
    if output.json {
        return Ok(results.exit_code());
    }
    let mut table = table::table(output, &["TYPE", "MODE", "UID", "GID", "SIZE", "MODIFIED", "PATH"]);
    for stat in &found {
        table.add_row(row(stat));
    }
    table::print(output, &mut table)?;
    Ok(results.exit_code())
}

fn row(stat: &FileStat) -> [String; 7] {
    let path = match &stat.target {
        Some(target) => format!("{} -> {target}", stat.path),
        None => stat.path.clone(),
    };
    [
        stat.file_type.as_str().to_owned(),
        format!("{} {}", stat.mode, stat.permissions),
        stat.uid.to_string(),
        stat.gid.to_string(),
        stat.size.to_string(),
        stat.modified_at.to_string(),
        table::plain(&path),
    ]
}
