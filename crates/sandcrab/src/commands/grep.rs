//! `sandcrab grep`.

use clap::Args;
use sandcrab_api::search::{SearchMatch, SearchRequest};

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::walk_args::{PatternArgs, WalkArgs};

/// Exit code if nothing matches, as of grep.
const NO_MATCH: u8 = 1;

/// Search files in the sandbox for a text.
///
/// Prints each matching line as PATH:LINE:TEXT, sorted by path. Binary files, hidden files and files that a .gitignore excludes
/// are left out. Exits with 1 if nothing matches.
#[derive(Debug, Args)]
pub(crate) struct GrepArgs {
    /// The text to search for.
    pattern: String,
    /// Directory or file to search. A relative path is relative to the workspace, or to the working directory of the session.
    #[arg(default_value = ".")]
    path: String,
    #[command(flatten)]
    compare: PatternArgs,
    /// Also print this many lines before and after each match.
    #[arg(short = 'C', long, value_name = "LINES", value_parser = clap::value_parser!(u32).range(0..=50))]
    context: Option<u32>,
    /// Stop after this many matching lines. Default: 1000.
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max: Option<u32>,
    #[command(flatten)]
    walk: WalkArgs,
}

pub(crate) async fn run(args: GrepArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let yes = |flag: bool| flag.then_some(true);
    let request = SearchRequest {
        path: Some(args.path),
        path_base64: None,
        session_id: args.walk.session.clone(),
        pattern: args.pattern,
        regex: yes(args.compare.regex),
        case_sensitive: args.compare.ignore_case.then_some(false),
        word: yes(args.compare.word),
        glob: args.walk.globs(),
        hidden: yes(args.walk.hidden),
        ignore_files: args.walk.no_ignore.then_some(false),
        context_lines: args.context,
        max_matches: args.max,
    };
    let answer = global.client()?.search(&request).await?;
    let code = if answer.matches.is_empty() { NO_MATCH } else { 0 };
    if output.json {
        return output.document(&answer).map(|()| code);
    }
    let has_context = args.context.is_some_and(|lines| lines > 0);
    let mut text = String::new();
    for (index, found) in answer.matches.iter().enumerate() {
        if has_context && index > 0 {
            text.push_str("--\n");
        }
        print_match(found, output, &mut text);
    }
    output.bytes(text.as_bytes())?;
    if answer.unreadable > 0 {
        output.note(&format!("{} files or directories could not be read", answer.unreadable));
    }
    if answer.truncated {
        output.note("there are more matches; raise --max, or search a smaller directory");
    }
    Ok(code)
}

fn print_match(found: &SearchMatch, output: Output, text: &mut String) {
    let path = output.name(&found.path);
    let mut line = |number: u64, mark: char, line: &str| {
        text.extend([path.as_ref(), &format!("{mark}{number}{mark}"), output.name(line).as_ref(), "\n"]);
    };
    let before = found.before.as_deref().unwrap_or_default();
    for (number, shown) in (found.line.saturating_sub(before.len() as u64)..).zip(before) {
        line(number, '-', shown);
    }
    line(found.line, ':', &found.text);
    for (number, shown) in (found.line + 1..).zip(found.after.as_deref().unwrap_or_default()) {
        line(number, '-', shown);
    }
}
