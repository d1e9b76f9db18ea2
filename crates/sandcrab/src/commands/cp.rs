//! `sandcrab cp`.

use std::path::{Path, PathBuf};

use clap::Args;
use sandcrab_api::ErrorCode;
use sandcrab_api::file::{CopyRequest, FileType, FolderFormat, ListOptions, ListRequest, PathRequest};
use sandcrab_client::{Client, ClientError, PutOptions};
use serde_json::json;

use crate::cli::GlobalOptions;
use crate::end_signals::EndSignals;
use crate::failure::Failure;
use crate::folder;
use crate::output::Output;
use crate::progress::Progress;
use crate::transfer;

/// Copy files to, from and within the sandbox.
///
/// A path of the sandbox begins with a colon: `sandcrab cp notes.txt :docs/` copies to the sandbox, `sandcrab cp :out.log .`
/// from it, and `sandcrab cp :a :b` within it. A folder is copied with its content, modes, times and links. `-` is standard input
/// or output. The destination is replaced when the copy is complete; a folder that is not empty only with --replace.
#[derive(Debug, Args)]
pub(crate) struct CpArgs {
    /// The file to copy: a local path, :PATH in the sandbox, or - for standard input.
    source: String,
    /// The copy: a local path, :PATH in the sandbox, or - for standard output. If it is a directory, the copy
    /// is created in it.
    destination: String,
    /// Permission bits of a file that is copied to the sandbox, in octal. Default: those of the local file.
    #[arg(short, long)]
    mode: Option<String>,
    /// Replace a folder that is not empty. Nothing of its old content stays. A destination with the name of the source is
    /// that folder itself: `cp --replace src :data/src` replaces data/src.
    #[arg(long)]
    replace: bool,
    /// Resolve relative paths of the sandbox against the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

pub(crate) async fn run(args: CpArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let bytes = match (args.source.strip_prefix(':'), args.destination.strip_prefix(':')) {
        (None, None) => {
            let hint = "a path of the sandbox begins with a colon, as in `sandcrab cp notes.txt :docs/`";
            return Err(Failure::usage("both paths are local", hint));
        }
        (None, Some(to)) if args.source != "-" && Path::new(&args.source).is_dir() => {
            refuse(args.mode.is_some(), "--mode", "a folder")?;
            upload_folder(&client, &args, to, output).await?
        }
        (None, Some(to)) => {
            refuse(args.replace, "--replace", "a file")?;
            upload(&client, &args, to, output).await?
        }
        (Some(from), None) => {
            refuse(args.mode.is_some(), "--mode", "a copy from the sandbox")?;
            download(&client, &args, from, output).await?
        }
        (Some(from), Some(to)) => {
            refuse(args.mode.is_some(), "--mode", "a copy within the sandbox")?;
            refuse(args.replace, "--replace", "a copy within the sandbox")?;
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

/// Refuses an option that this kind of copy does not use.
fn refuse(is_given: bool, option: &str, kind: &str) -> Result<(), Failure> {
    if is_given {
        return Err(Failure::usage(format!("the option {option} has no effect on {kind}"), "omit it"));
    }
    Ok(())
}

/// The path in the sandbox: below it, if it is a directory.
async fn destination(client: &Client, args: &CpArgs, to: &str, from: &str) -> Result<String, Failure> {
    let to = if to.is_empty() { "." } else { to };
    let request =
        PathRequest { path: Some(to.to_owned()), session_id: args.session.clone(), ..PathRequest::default() };
    let is_directory = to.ends_with('/')
        || client.stat_file(&request).await.is_ok_and(|stat| stat.file_type == FileType::Directory);
    if !is_directory || is_replaced_itself(args, to, from) {
        return Ok(to.to_owned());
    }
    let name = Path::new(from).file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.ok_or_else(|| {
        Failure::usage("the source has no file name", "give the whole path of the destination")
    })?;
    Ok(format!("{}/{name}", to.trim_end_matches('/')))
}

/// Whether the destination, a directory, is what --replace replaces, and not the directory of the copy.
fn is_replaced_itself(args: &CpArgs, to: &str, from: &str) -> bool {
    let (name, other) = (Path::new(to).file_name(), Path::new(from).file_name());
    args.replace && !to.ends_with('/') && name.is_some() && name == other
}

/// Refuses to replace a folder with content unless that is requested.
fn check_replace(args: &CpArgs, is_empty: bool) -> Result<(), Failure> {
    if is_empty || args.replace {
        return Ok(());
    }
    let message = format!("the folder {} is not empty", args.destination);
    Err(Failure::usage(message, "--replace replaces it; nothing of its old content stays"))
}

async fn upload_folder(
    client: &Client,
    args: &CpArgs,
    to: &str,
    output: Output,
) -> Result<Option<u64>, Failure> {
    let source = Path::new(&args.source);
    // `.` and `..` have a name too.
    let source = source.canonicalize().map_err(|error| Failure::local_file("read", source, &error))?;
    let to = destination(client, args, to, &source.to_string_lossy()).await?;
    let request = ListRequest {
        path: Some(to.clone()),
        session_id: args.session.clone(),
        options: Some(ListOptions { include_hidden: Some(true), limit: Some(1), ..ListOptions::default() }),
        ..ListRequest::default()
    };
    let is_empty = client.list_files(&request).await.is_ok_and(|list| list.files.is_empty());
    let path =
        PathRequest { path: Some(to.clone()), session_id: args.session.clone(), ..PathRequest::default() };
    let exists = client.file_exists(&path).await?.exists;
    check_replace(args, is_empty || !exists)?;
    let progress = Progress::new(output, &args.source, None);
    let written =
        client.put_folder(&to, args.session.as_deref(), progress.of(folder::archive(&source)?)).await;
    progress.finish();
    Ok(Some(written?.bytes_written))
}

async fn download_folder(
    client: &Client,
    args: &CpArgs,
    from: &str,
    output: Output,
) -> Result<Option<u64>, Failure> {
    let to = Path::new(&args.destination);
    let name = Path::new(from).file_name();
    let to = match name {
        Some(name) if to.is_dir() && !is_replaced_itself(args, &args.destination, from) => to.join(name),
        _ => to.to_owned(),
    };
    let is_empty = std::fs::read_dir(&to).map_or(true, |mut entries| entries.next().is_none());
    check_replace(args, is_empty)?;
    let archive = client.get_folder(from, FolderFormat::TarZst, args.session.as_deref()).await?;
    let progress = Progress::new(output, &args.source, None);
    let unpacked = folder::unpack(archive, &to, &progress).await;
    progress.finish();
    Ok(Some(unpacked?.content_bytes))
}

async fn upload(client: &Client, args: &CpArgs, to: &str, output: Output) -> Result<Option<u64>, Failure> {
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
    let progress = Progress::new(output, &args.source, file.metadata().ok().map(|found| found.len()));
    let written = client.put_file(&to, &options, progress.of(transfer::content(file))).await;
    progress.finish();
    Ok(Some(written?.bytes_written))
}

async fn download(
    client: &Client,
    args: &CpArgs,
    from: &str,
    output: Output,
) -> Result<Option<u64>, Failure> {
    let request = PathRequest {
        path: Some(from.to_owned()),
        session_id: args.session.clone(),
        ..PathRequest::default()
    };
    let found = client.stat_file(&request).await.ok();
    if args.destination != "-" && found.as_ref().is_some_and(|found| found.file_type == FileType::Directory) {
        return download_folder(client, args, from, output).await;
    }
    refuse(args.replace, "--replace", "a file")?;
    let missing = |error: ClientError| {
        let is_missing = error.code() == Some(ErrorCode::FileNotFound);
        let hint = "the colon means a path of the sandbox; `sandcrab ls` lists its files";
        if is_missing { Failure::from(error).with_hint(hint.to_owned()) } else { error.into() }
    };
    let mut file = client.get_file(from, args.session.as_deref()).await.map_err(missing)?;
    let mut size = 0;
    if args.destination == "-" {
        while let Some(bytes) = file.chunk().await? {
            output.bytes(&bytes)?;
        }
        return Ok(None);
    }
    // From here on there is a temporary file, which a signal must not leave behind.
    // A special file has none, and writing to it may block this thread: there, signals keep their effect.
    let is_special = transfer::is_special(Path::new(&args.destination));
    let mut signals = (!is_special).then(EndSignals::listen).transpose()?;
    let interrupted = async {
        match &mut signals {
            Some(signals) => signals.next().await,
            None => std::future::pending().await,
        }
    };
    let mode = found.as_ref().and_then(|found| u32::from_str_radix(&found.mode, 8).ok());
    let mut copy = transfer::LocalCopy::create(Path::new(&args.destination), Path::new(from), mode)?;
    let progress = Progress::new(output, &args.source, found.map(|found| found.size));
    let received = async {
        while let Some(bytes) = file.chunk().await? {
            size += bytes.len() as u64;
            progress.advance(bytes.len() as u64);
            copy.write(&bytes)?;
        }
        Ok(())
    };
    let received = tokio::select! {
        received = received => received,
        signal = interrupted => Err(Failure::interrupted(signal, "nothing was changed")),
    };
    progress.finish();
    received?;
    copy.finish()?;
    Ok(Some(size))
}
