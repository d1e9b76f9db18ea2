//! `sandcrab replace`.

use clap::Args;
use sandcrab_api::search::ReplaceRequest;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::walk_args::{PatternArgs, WalkArgs};

/// Exit code if nothing matches, as of grep, or if files were skipped.
const NOT_ALL: u8 = 1;

/// Replace a text in files of the sandbox.
///
/// Prints the changes as a unified diff. Each file is replaced at once, with its mode and owner. Binary files, hidden files and
/// files that a .gitignore excludes are left out. Exits with 1 if nothing matches, or if a file could not be changed.
#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    /// The text to replace. It may contain line breaks.
    pattern: String,
    /// The text in its place. With --regex, $1 and ${name} are groups, and $$ is a dollar sign.
    replacement: String,
    /// Directory or file to change. A relative path is relative to the workspace, or to the working directory of the session.
    #[arg(default_value = ".")]
    path: String,
    #[command(flatten)]
    compare: PatternArgs,
    /// Only print what would change.
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    walk: WalkArgs,
}

pub(crate) async fn run(args: ReplaceArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let yes = |flag: bool| flag.then_some(true);
    let request = ReplaceRequest {
        path: Some(args.path),
        path_base64: None,
        session_id: args.walk.session.clone(),
        pattern: args.pattern,
        replacement: args.replacement,
        regex: yes(args.compare.regex),
        case_sensitive: args.compare.ignore_case.then_some(false),
        word: yes(args.compare.word),
        glob: args.walk.globs(),
        hidden: yes(args.walk.hidden),
        ignore_files: args.walk.no_ignore.then_some(false),
        dry_run: yes(args.dry_run),
    };
    let answer = global.client()?.replace(&request).await?;
    let code = if answer.files.is_empty() || !answer.success { NOT_ALL } else { 0 };
    if output.json {
        return output.document(&answer).map(|()| code);
    }
    for file in &answer.files {
        for line in file.diff.lines() {
            output.line(output.name(line))?;
        }
        if file.diff_truncated {
            output.note(&format!("the diff of {} is not complete", output.name(&file.path)));
        }
    }
    for file in &answer.skipped {
        output.note(&format!("not changed: {}", output.name(&file.message)));
    }
    if answer.truncated {
        output.note("there may be more files; repeat the command");
    }
    Ok(code)
}
