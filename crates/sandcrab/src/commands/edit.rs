//! `sandcrab edit`.

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use sandcrab_api::ErrorCode;
use sandcrab_api::file::Written;
use sandcrab_client::{Client, PutOptions};
use serde_json::json;
use tempfile::{NamedTempFile, TempPath};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::GlobalOptions;
use crate::end_signals::EndSignals;
use crate::failure::Failure;
use crate::output::Output;
use crate::transfer;

/// The editor if neither VISUAL nor EDITOR is set.
const DEFAULT_EDITOR: &str = "vi";

/// Maximum length of the part of the file's name that is in the name of its copy.
const MAX_SUFFIX_BYTES: usize = 100;

/// Edit a file of the sandbox with a local editor.
///
/// Opens a temporary copy in the editor that VISUAL or EDITOR names, else in vi, and writes it back when the editor has ended. A
/// file that does not exist is created. If the file has changed in the sandbox meanwhile, it stays as it is, and the local copy is
/// kept.
#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    /// The file.
    path: String,
    /// Resolve relative paths against the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

pub(crate) async fn run(args: EditArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let before = Original::fetch(&client, &args).await?;
    // Ctrl-C is a key of the editor. Without a handler, it would end this program, and nothing would be written.
    let (mut interrupt, mut quit) = (signal(SignalKind::interrupt())?, signal(SignalKind::quit())?);
    let copy = before.copy.to_path_buf();
    let mut editor = tokio::task::spawn_blocking(move || edit(&copy));
    loop {
        tokio::select! {
            edited = &mut editor => break edited.map_err(|_| Failure::no_thread())??,
            _ = interrupt.recv() => {}
            _ = quit.recv() => {}
        }
    }
    let failed = |error: std::io::Error| Failure::local_file("read", &before.copy, &error);
    let edited = std::fs::read(&before.copy).map_err(failed)?;
    if edited == std::fs::read(&before.unchanged).map_err(failed)? {
        if output.json {
            return output
                .document(&json!({"success": true, "path": args.path, "changed": false}))
                .map(|()| 0);
        }
        output.note("the file was not changed");
        return Ok(0);
    }
    let mut signals = EndSignals::listen_from_now_on().await?;
    let written = tokio::select! {
        written = before.write(&client, &args) => written,
        signal = signals.next() => {
            Err(Failure::interrupted(signal, "the file may have been written").with_hint(format!("your version is in {}", before.copy.display())))
        }
    };
    let written = match written {
        Ok(written) => written,
        Err(failure) => {
            // What was typed must not be lost.
            drop(before.copy.keep());
            return Err(failure);
        }
    };
    if output.json {
        let Written { path, bytes_written, atomic, etag, timestamp, .. } = written;
        output.document(
            &json!({"success": true, "path": path, "changed": true, "bytesWritten": bytes_written,
            "atomic": atomic, "etag": etag, "timestamp": timestamp}),
        )?;
    }
    Ok(0)
}

/// A file of the sandbox before it is edited.
struct Original {
    /// The copy for the editor.
    copy: TempPath,
    /// Another copy, to compare.
    unchanged: TempPath,
    /// `None` if the file does not exist.
    etag: Option<String>,
}

impl Original {
    async fn fetch(client: &Client, args: &EditArgs) -> Result<Self, Failure> {
        let (mut copy, mut unchanged) = (temporary(&args.path)?, temporary(&args.path)?);
        let etag = match client.get_file(&args.path, args.session.as_deref()).await {
            Ok(mut file) => {
                while let Some(bytes) = file.chunk().await? {
                    for to in [&mut copy, &mut unchanged] {
                        to.write_all(&bytes).map_err(|e| Failure::local_file("write", to.path(), &e))?;
                    }
                }
                file.etag()
            }
            Err(error) if error.code() == Some(ErrorCode::FileNotFound) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { copy: copy.into_temp_path(), unchanged: unchanged.into_temp_path(), etag })
    }

    /// Writes the copy back.
    async fn write(&self, client: &Client, args: &EditArgs) -> Result<Written, Failure> {
        let file = File::open(&self.copy).map_err(|e| Failure::local_file("read", &self.copy, &e))?;
        let content = transfer::content(file);
        let (session_id, if_match) = (args.session.clone(), self.etag.clone());
        let options = PutOptions { session_id, mode: None, if_match };
        let written = match self.etag {
            Some(_) => client.put_file(&args.path, &options, content).await,
            None => client.create_file(&args.path, &options, content).await,
        };
        written.map_err(|error| {
            let is_conflict = error.code() == Some(ErrorCode::PreconditionFailed);
            let (local, path) = (self.copy.display(), &args.path);
            let hint = match is_conflict {
                true => format!(
                    "the file has changed in the sandbox meanwhile; your version is in {local}; merge it, or overwrite \
                     the file: `sandcrab cp {local} :{path}`"
                ),
                false => format!("your version is in {local}"),
            };
            Failure::from(error).with_hint(hint)
        })
    }
}

/// A local file that only the user can read, with the name of the file at its end, from which editors find the type.
fn temporary(path: &str) -> Result<NamedTempFile, Failure> {
    let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    let name: String = name.unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
    // The whole name could be too long with a prefix. Its end tells the type.
    let end = &name[name.ceil_char_boundary(name.len().saturating_sub(MAX_SUFFIX_BYTES))..];
    let created = tempfile::Builder::new()
        .prefix("sandcrab-")
        .suffix(&format!("-{end}"))
        .permissions(Permissions::from_mode(0o600))
        .tempfile();
    created.map_err(|error| Failure::local_file("write", &std::env::temp_dir(), &error))
}

/// Runs the editor.
fn edit(copy: &Path) -> Result<(), Failure> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| DEFAULT_EDITOR.into());
    // The variables hold a command, which may have options.
    let mut script = editor.clone();
    script.push(" \"$@\"");
    let mut command = std::process::Command::new("/bin/sh");
    let status = command.arg("-c").arg(script).arg(&editor).arg(copy).status();
    let failed = |why: String| {
        let editor = PathBuf::from(&editor);
        Failure::usage(
            format!("the editor {} failed: {why}; the file was not changed", editor.display()),
            "set VISUAL or EDITOR to an editor",
        )
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(status.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}
