//! `sandcrab mkdir`.

use clap::Args;
use sandcrab_api::file::MkdirRequest;

use crate::batch::BatchResults;
use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;

/// Create directories in the sandbox.
#[derive(Debug, Args)]
pub(crate) struct MkdirArgs {
    /// The directories.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Also create missing parent directories, and accept existing directories.
    #[arg(short, long)]
    parents: bool,
    /// Resolve relative paths against the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

pub(crate) async fn run(args: MkdirArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let mut results = BatchResults::new(output, &args.paths);
    for path in &args.paths {
        let request = MkdirRequest {
            path: Some(path.clone()),
            session_id: args.session.clone(),
            recursive: Some(args.parents),
            ..MkdirRequest::default()
        };
        if let Some(done) = results.check(path, client.make_directory(&request).await)?
            && output.json
        {
            results.document(&done)?;
        }
    }
    Ok(results.exit_code())
}
