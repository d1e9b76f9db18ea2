//! `sandcrab watch`.

use clap::{Args, ValueEnum};
use sandcrab_api::watch::{ChangeKind, WatchEvent, WatchRequest};

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::DurationArg;
use crate::relay::write;

/// Print changes of files in the sandbox as they happen.
///
/// Each line has the time, the change and the path: create, modify, delete, move_from, move_to, attrib. The line
/// `watching` marks the start. A second `watching`, after a lost connection, or `resync` means that changes may be missing.
/// With --json, each event is one line. Ends with Ctrl-C.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Directory to watch. A relative path is relative to the workspace, or to the working directory of the session.
    #[arg(default_value = ".")]
    path: String,
    /// Only report paths that match this glob, or are below a directory that does. Can be repeated.
    #[arg(short, long, value_name = "GLOB", conflicts_with = "exclude")]
    include: Vec<String>,
    /// Do not report paths that match this glob. Can be repeated. Default: .git, node_modules and .DS_Store.
    #[arg(short = 'x', long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Only report changes of this kind. Can be repeated. Default: all but attrib.
    #[arg(short, long = "event", value_name = "KIND")]
    events: Vec<Kind>,
    /// Do not watch directories below the directory.
    #[arg(long)]
    no_recursive: bool,
    /// End after this time.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<DurationArg>,
    /// Relative paths are relative to the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    session: Option<String>,
}

/// The kinds of changes.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Kind {
    Create,
    Modify,
    Delete,
    MoveFrom,
    MoveTo,
    Attrib,
}

pub(crate) async fn run(args: WatchArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let some = |globs: Vec<String>| (!globs.is_empty()).then_some(globs);
    let kinds = args.events.iter().map(|kind| match kind {
        Kind::Create => ChangeKind::Create,
        Kind::Modify => ChangeKind::Modify,
        Kind::Delete => ChangeKind::Delete,
        Kind::MoveFrom => ChangeKind::MoveFrom,
        Kind::MoveTo => ChangeKind::MoveTo,
        Kind::Attrib => ChangeKind::Attrib,
    });
    let request = WatchRequest {
        path: Some(args.path),
        path_base64: None,
        session_id: args.session,
        recursive: args.no_recursive.then_some(false),
        include: some(args.include),
        exclude: some(args.exclude),
        events: Some(kinds.collect::<Vec<_>>()).filter(|kinds| !kinds.is_empty()),
        timeout_ms: args.timeout.map(DurationArg::milliseconds),
    };
    let mut events = global.client()?.watch(&request).await?;
    while let Some(event) = events.next().await? {
        if let WatchEvent::Error(error) = event {
            return Err(Failure::Event(error));
        }
        write(move || if output.json { output.json_line(&event) } else { output.line(line(&event, output)) })
            .await?;
    }
    Ok(0)
}

fn line(event: &WatchEvent, output: Output) -> String {
    match event {
        WatchEvent::Watching(event) => format!("{} watching {}", event.timestamp, output.name(&event.path)),
        WatchEvent::Event(event) => {
            let slash = if event.is_directory { "/" } else { "" };
            format!("{} {} {}{slash}", event.timestamp, event.event_type.as_str(), output.name(&event.path))
        }
        WatchEvent::Resync(event) => format!("{} resync {}", event.timestamp, event.reason.as_str()),
        WatchEvent::Stopped(event) => format!("{} stopped {}", event.timestamp, event.reason),
        WatchEvent::Error(event) => format!("{} error {}", event.timestamp, event.error),
    }
}
