//! `sandcrab mv`.

use clap::Args;
use sandcrab_api::file::TransferRequest;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;

/// Move or rename a file or directory of the sandbox.
#[derive(Debug, Args)]
pub(crate) struct MvArgs {
    /// The present path.
    source: String,
    /// The full new path, also if it is an existing directory.
    destination: String,
    /// Refuse if the new path exists.
    #[arg(short, long)]
    no_clobber: bool,
    /// Resolve relative paths against the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

pub(crate) async fn run(args: MvArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let request = TransferRequest {
        source_path: Some(args.source),
        destination_path: Some(args.destination),
        session_id: args.session,
        overwrite: Some(!args.no_clobber),
        ..TransferRequest::default()
    };
    let moved = global.client()?.move_file(&request).await?;
    if output.json {
        output.document(&moved)?;
    }
    Ok(0)
}
