//! `sandcrab cp`.

use std::path::{Path, PathBuf};

use clap::Args;
use sandcrab_api::file::{CopyRequest, FileType, PathRequest};
use sandcrab_client::{Client, PutOptions};
use serde_json::json;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::transfer;

/// Copy files to, from and within the sandbox.
///
/// A path of the sandbox begins with a colon: `sandcrab cp notes.txt :docs/` copies to the sandbox, `sandcrab cp :out.log .`
/// from it, and `sandcrab cp :a :b` within it, where a directory is copied with its content. `-` is standard input or output.
/// The destination is replaced when the copy is complete.
#[derive(Debug, Args)]
pub(crate) struct CpArgs {
    /// The file to copy: a local path, :PATH in the sandbox, or - for standard input.
    source: String,
    /// The copy: a local path, :PATH in the sandbox, or - for standard output. The name is kept if it is a directory.
    destination: String,
    /// Permission bits of the copy in the sandbox, in octal. Default: those of the local file.
    #[arg(short, long)]
    mode: Option<String>,
    /// Session whose working directory relative paths of the sandbox are relative to.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

pub(crate) async fn run(args: CpArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let bytes = match (args.source.strip_prefix(':'), args.destination.strip_prefix(':')) {
        (None, None) => {
            let hint = "a path of the sandbox begins with a colon, as in `sandcrab cp notes.txt :docs/`";
            return Err(Failure::usage("neither path is one of the sandbox", hint));
        }
        (None, Some(to)) => upload(&client, &args, to).await?,
        (Some(from), None) => download(&client, &args, from, output).await?,
        (Some(from), Some(to)) => {
            let request = CopyRequest {
                source_path: Some(from.to_owned()),
                destination_path: Some(destination(&client, &args, to, from).await?),
                session_id: args.session.clone(),
                ..CopyRequest::default()
            };
            client.copy_file(&request).await?;
            None
        }
    };
    if output.json && args.destination != "-" {
        output
            .document(&json!({ "source": args.source, "destination": args.destination, "bytes": bytes }))?;
    }
    Ok(0)
}

/// The path in the sandbox: below it, if it is a directory.
async fn destination(client: &Client, args: &CpArgs, to: &str, from: &str) -> Result<String, Failure> {
    let to = if to.is_empty() { "." } else { to };
    let request =
        PathRequest { path: Some(to.to_owned()), session_id: args.session.clone(), ..PathRequest::default() };
    let is_directory = to.ends_with('/')
        || client.stat_file(&request).await.is_ok_and(|stat| stat.file_type == FileType::Directory);
    if !is_directory {
        return Ok(to.to_owned());
    }
    let name = Path::new(from).file_name().map(|name| name.to_string_lossy().into_owned());
    let name =
        name.ok_or_else(|| Failure::usage("the copy has no name", "give the whole path of the destination"))?;
    Ok(format!("{}/{name}", to.trim_end_matches('/')))
}

async fn upload(client: &Client, args: &CpArgs, to: &str) -> Result<Option<u64>, Failure> {
    let mut options =
        PutOptions { session_id: args.session.clone(), mode: args.mode.clone(), if_match: None };
    if args.source == "-" {
        let written = client.put_file(to, &options, transfer::standard_input()).await?;
        return Ok(Some(written.bytes_written));
    }
    let source = PathBuf::from(&args.source);
    let (file, mode) = transfer::open(&source)?;
    let to = destination(client, args, to, &args.source).await?;
    options.mode = options.mode.or(Some(mode));
    Ok(Some(client.put_file(&to, &options, transfer::content(file)).await?.bytes_written))
}

async fn download(
    client: &Client,
    args: &CpArgs,
    from: &str,
    output: Output,
) -> Result<Option<u64>, Failure> {
    let mut file = client.get_file(from, args.session.as_deref()).await?;
    let mut size = 0;
    if args.destination == "-" {
        while let Some(bytes) = file.chunk().await? {
            output.bytes(&bytes)?;
        }
        return Ok(None);
    }
    let mut copy = transfer::LocalCopy::create(Path::new(&args.destination), Path::new(from))?;
    while let Some(bytes) = file.chunk().await? {
        size += bytes.len() as u64;
        copy.write(&bytes)?;
    }
    copy.finish()?;
    Ok(Some(size))
}
