//! `sandcrab record`.

use std::io::{IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use sandcrab_api::ErrorCode;
use sandcrab_client::{Client, ClientError, Recording};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::cli::GlobalOptions;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::Outcome;
use crate::terminal_args::{DetachKeysArg, NewTerminalArgs, ProgramWords};
use crate::tty::{Tty, delete};

/// Record a shell or a program in a terminal, or save the recording of an existing one.
///
/// Runs a shell or COMMAND as `sandcrab shell` does, and writes the recording when the program ends. If COMMAND is the id of a
/// terminal or a process, its output so far is written instead, and options of a new terminal are refused. The file is an asciicast (version 2) with the original times;
/// `sandcrab play` and other players read it. It contains the output that the server still has: by default at most 64 MiB.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// File to write; - for standard output [default: ID.cast]. An existing file is replaced; devices and links are not.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    terminal: NewTerminalArgs,
    #[command(flatten)]
    detach: DetachKeysArg,
    #[command(flatten)]
    words: ProgramWords,
}

pub(crate) async fn run(args: RecordArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    if let Some(id) = args.words.possible_id()
        && let Some(recording) = existing(&client, id).await?
    {
        if args.terminal != NewTerminalArgs::default() {
            let message = format!("{id} exists already, so options of a new terminal have no effect");
            return Err(Failure::usage(message, "omit them, or give another command"));
        }
        let target = Target::new(args.output, id, output.json)?;
        let saved = target.write(recording, output).await?;
        if output.json {
            output.document(&json!({ "id": id, "file": saved.file, "bytes": saved.bytes }))?;
        }
        return Ok(0);
    }
    // Before the program runs: afterwards it is too late to choose another file.
    if let Some(file) = &args.output {
        Target::new(Some(file.clone()), "", output.json)?;
    }
    let is_stdout = args.output.as_deref() == Some(Path::new("-"));
    let tty = Tty {
        client: &client,
        request: args.terminal.request(args.words, &client)?,
        detach_keys: args.detach.detach_keys,
        is_interactive: true,
        is_stdout_taken: is_stdout,
        output,
    };
    let finished = tty.show("`sandcrab record`").await?;
    if matches!(finished.outcome, Outcome::Detached) {
        let code = finished.report(output)?;
        output.note(&format!("`sandcrab record {}` writes the recording", finished.id));
        return Ok(code);
    }
    let saved = save(&client, args.output, &finished.id, output).await.map_err(|failure| {
        // The terminal is not deleted, so nothing is lost.
        let hint =
            format!("the server still has it: `sandcrab record --output FILE {}` writes it", finished.id);
        failure.with_hint(hint)
    })?;
    if finished.is_own {
        delete(&client, &finished.id).await;
    }
    if let (true, Outcome::Exited(exit)) = (output.json, &finished.outcome) {
        output.document(&json!({
            "id": finished.id,
            "file": saved.file,
            "bytes": saved.bytes,
            "exitCode": exit.exit_code,
            "end": exit.end,
        }))?;
        return Ok(exit_code::of_command(exit.exit_code));
    }
    finished.report(output)
}

/// Writes the recording of a terminal.
async fn save(client: &Client, file: Option<PathBuf>, id: &str, output: Output) -> Result<Saved, Failure> {
    let target = Target::new(file, id, output.json)?;
    target.write(client.terminal_recording(id).await?, output).await
}

/// The recording of a terminal or a process with this id; `None` if there is none.
async fn existing(client: &Client, id: &str) -> Result<Option<Recording>, Failure> {
    let absent = |error: &ClientError| {
        let code = error.code();
        matches!(error, ClientError::Id(_))
            || matches!(
                code,
                Some(ErrorCode::TerminalNotFound | ErrorCode::ProcessNotFound | ErrorCode::ValidationFailed)
            )
    };
    match client.terminal_recording(id).await {
        Ok(recording) => return Ok(Some(recording)),
        Err(error) if absent(&error) => (),
        Err(error) => return Err(error.into()),
    }
    match client.process_recording(id).await {
        Ok(recording) => Ok(Some(recording)),
        Err(error) if absent(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Where a recording goes.
#[derive(Debug)]
enum Target {
    Stdout,
    File(PathBuf),
}

/// A recording that was written.
#[derive(Debug)]
struct Saved {
    /// `None` for standard output.
    file: Option<PathBuf>,
    bytes: u64,
}

impl Target {
    /// Checks that the file may be written.
    fn new(file: Option<PathBuf>, id: &str, json: bool) -> Result<Self, Failure> {
        let path = match file {
            Some(path) if path == Path::new("-") => {
                if json {
                    return Err(Failure::usage(
                        "the document of --json and the recording cannot both go to standard output",
                        "give a file with --output",
                    ));
                }
                if std::io::stdout().is_terminal() {
                    return Err(Failure::usage(
                        "a recording is not written to a terminal",
                        "redirect standard output, or give a file with --output",
                    ));
                }
                return Ok(Self::Stdout);
            }
            Some(path) => path,
            None => PathBuf::from(format!("{id}.cast")),
        };
        match std::fs::symlink_metadata(&path) {
            Ok(found) if !found.is_file() => {
                let why = if found.is_symlink() {
                    "it is a symbolic link"
                } else {
                    "it exists and is not a regular file"
                };
                Err(Failure::output_file(&path, why))
            }
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Failure::output_file(&path, e)),
            _ => {
                // A missing directory is reported now.
                drop(temporary(&path)?);
                Ok(Self::File(path))
            }
        }
    }

    /// Writes the recording. A file appears complete or not at all.
    async fn write(self, mut recording: Recording, output: Output) -> Result<Saved, Failure> {
        let mut bytes = 0_u64;
        let path = match self {
            Self::Stdout => {
                while let Some(chunk) = recording.chunk().await? {
                    output.bytes(&chunk)?;
                    bytes += chunk.len() as u64;
                }
                return Ok(Saved { file: None, bytes });
            }
            Self::File(path) => path,
        };
        let failed = |e: std::io::Error| Failure::output_file(&path, e);
        let mut file = temporary(&path)?;
        while let Some(chunk) = recording.chunk().await? {
            file.write_all(&chunk).map_err(failed)?;
            bytes += chunk.len() as u64;
        }
        file.persist(&path).map_err(|e| failed(e.error))?;
        if !output.json {
            output.note(&format!("the recording is in {}; `sandcrab play` shows it", path.display()));
        }
        Ok(Saved { file: Some(path), bytes })
    }
}

/// A file beside the one to write. It is removed if it does not replace it.
fn temporary(path: &Path) -> Result<NamedTempFile, Failure> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The umask applies, as for every new file.
    let permissions = std::fs::Permissions::from_mode(0o666);
    let file = tempfile::Builder::new().prefix(".sandcrab-").permissions(permissions).tempfile_in(dir);
    file.map_err(|e| Failure::output_file(path, e))
}
