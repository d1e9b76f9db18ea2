//! `sandcrab write`.

use clap::Args;
use sandcrab_api::file::{FileEncoding, WriteRequest};
use sandcrab_client::PutOptions;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::relay::Stdin;
use crate::transfer;

/// Write standard input to a file of the sandbox.
///
/// Missing parent directories are created. The file is replaced when standard input has ended; if this fails, it stays as it
/// was. Its mode and owner stay.
#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    /// The file.
    path: String,
    /// Write to the end of the file, piece by piece.
    #[arg(short, long)]
    append: bool,
    /// Permission bits in octal, such as 0644.
    #[arg(short, long)]
    mode: Option<String>,
    /// Resolve relative paths against the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

pub(crate) async fn run(args: WriteArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    if !args.append {
        let options = PutOptions { session_id: args.session, mode: args.mode, if_match: None };
        let written = client.put_file(&args.path, &options, transfer::standard_input()).await?;
        return if output.json { output.document(&written).map(|()| 0) } else { Ok(0) };
    }
    let stdin = Stdin::open();
    loop {
        let bytes = stdin.read().await?;
        let is_end = bytes.is_empty();
        let request = WriteRequest {
            path: Some(args.path.clone()),
            session_id: args.session.clone(),
            content: Some(transfer::base64(&bytes)),
            encoding: Some(FileEncoding::Base64),
            mode: args.mode.clone(),
            append: Some(true),
            ..WriteRequest::default()
        };
        // Also without bytes: the file is created.
        let written = client.write_file(&request).await?;
        if is_end {
            return if output.json { output.document(&written).map(|()| 0) } else { Ok(0) };
        }
    }
}
