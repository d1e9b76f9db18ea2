//! `sandcrab rm`.

use clap::Args;
use sandcrab_api::ErrorCode;
use sandcrab_api::file::DeleteRequest;

use crate::batch::BatchResults;
use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;

/// Delete files of the sandbox.
///
/// A symbolic link is deleted itself. The workspace, and the directories that contain it, cannot be deleted.
#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// The files.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Delete directories with their content.
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Ignore paths that do not exist.
    #[arg(short, long)]
    force: bool,
    /// Resolve relative paths against the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

pub(crate) async fn run(args: RmArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let mut results = BatchResults::new(output, &args.paths);
    for path in &args.paths {
        let request = DeleteRequest {
            path: Some(path.clone()),
            session_id: args.session.clone(),
            recursive: Some(args.recursive),
            ..DeleteRequest::default()
        };
        let deleted = client.delete_file(&request).await;
        if args.force && deleted.as_ref().is_err_and(|error| error.code() == Some(ErrorCode::FileNotFound)) {
            continue;
        }
        let is_directory = deleted.as_ref().is_err_and(|error| error.code() == Some(ErrorCode::IsDirectory));
        let hint = is_directory.then_some("-r deletes a directory with its content");
        if let Some(done) = results.check_with_hint(path, deleted, hint)?
            && output.json
        {
            results.document(&done)?;
        }
    }
    Ok(results.exit_code())
}
