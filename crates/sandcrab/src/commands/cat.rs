//! `sandcrab cat`.

use clap::Args;
use sandcrab_api::file::ReadRequest;

use crate::batch::BatchResults;
use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;

/// Print files of the sandbox.
///
/// The bytes are printed as they are. With --json, each file is a document with its content and type, at most 32 MiB.
#[derive(Debug, Args)]
pub(crate) struct CatArgs {
    /// The files.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Resolve relative paths against the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

pub(crate) async fn run(args: CatArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let mut results = BatchResults::new(output, &args.paths);
    for path in &args.paths {
        if output.json {
            let request = ReadRequest {
                path: Some(path.clone()),
                session_id: args.session.clone(),
                ..ReadRequest::default()
            };
            if let Some(content) = results.check(path, client.read_file(&request).await)? {
                results.document(&content)?;
            }
            continue;
        }
        let Some(mut file) = results.check(path, client.get_file(path, args.session.as_deref()).await)?
        else {
            continue;
        };
        while let Some(bytes) = file.chunk().await? {
            output.bytes(&bytes)?;
        }
    }
    Ok(results.exit_code())
}
