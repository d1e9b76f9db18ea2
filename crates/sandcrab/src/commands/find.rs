//! `sandcrab find`.

use clap::{Args, ValueEnum};
use sandcrab_api::file::FileType;
use sandcrab_api::search::FindRequest;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::walk_args::WalkArgs;

/// Find files in the sandbox by name and type.
///
/// Prints one absolute path per line, sorted within each directory. Hidden files and what a .gitignore excludes are left out.
#[derive(Debug, Args)]
pub(crate) struct FindArgs {
    /// Directory below which to find files. A relative path is relative to the workspace, or to the working directory of the
    /// session.
    #[arg(default_value = ".")]
    path: String,
    /// Only find entries of this type.
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<Kind>,
    /// Print at most this many paths. Default: 10000.
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: Option<u32>,
    #[command(flatten)]
    walk: WalkArgs,
}

/// The types of entries.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    File,
    Directory,
    Symlink,
    Other,
}

pub(crate) async fn run(args: FindArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let request = FindRequest {
        path: Some(args.path),
        path_base64: None,
        session_id: args.walk.session.clone(),
        glob: args.walk.globs(),
        file_type: args.kind.map(|kind| match kind {
            Kind::File => FileType::File,
            Kind::Directory => FileType::Directory,
            Kind::Symlink => FileType::Symlink,
            Kind::Other => FileType::Other,
        }),
        hidden: args.walk.hidden.then_some(true),
        ignore_files: args.walk.no_ignore.then_some(false),
        limit: args.limit,
    };
    let answer = global.client()?.find(&request).await?;
    if output.json {
        return output.document(&answer).map(|()| 0);
    }
    let text: String = answer.paths.iter().map(|path| format!("{}\n", output.name(path))).collect();
    output.bytes(text.as_bytes())?;
    if answer.unreadable > 0 {
        output.note(&format!("{} directories could not be read", answer.unreadable));
    }
    if answer.truncated {
        output.note("there are more; raise --limit, or give a smaller directory");
    }
    Ok(0)
}
