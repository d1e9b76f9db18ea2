//! `sandcrab chmod`.

use clap::Args;
use sandcrab_api::file::ChmodRequest;

use crate::batch::BatchResults;
use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;

/// Change the permission bits of files of the sandbox.
#[derive(Debug, Args)]
pub(crate) struct ChmodArgs {
    /// Permission bits in octal, such as 0755.
    mode: String,
    /// The files.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Resolve relative paths against the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

pub(crate) async fn run(args: ChmodArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let mut results = BatchResults::new(output, &args.paths);
    for path in &args.paths {
        let request = ChmodRequest {
            path: Some(path.clone()),
            session_id: args.session.clone(),
            mode: Some(args.mode.clone()),
            ..ChmodRequest::default()
        };
        if let Some(done) = results.check(path, client.change_mode(&request).await)?
            && output.json
        {
            results.document(&done)?;
        }
    }
    Ok(results.exit_code())
}
