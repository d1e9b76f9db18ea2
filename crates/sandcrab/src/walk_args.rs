//! Arguments of commands that visit the files of a directory, and look for a pattern.

use clap::Args;

/// Which files of a directory a command visits.
#[derive(Debug, Args)]
pub(crate) struct WalkArgs {
    /// Only visit files that match this glob; with a leading !, files that do not. Can be repeated.
    #[arg(short, long, value_name = "GLOB")]
    glob: Vec<String>,
    /// Also visit files and directories whose name begins with a dot.
    #[arg(long)]
    pub(crate) hidden: bool,
    /// Also visit what .gitignore and .ignore files exclude.
    #[arg(long)]
    pub(crate) no_ignore: bool,
    /// Relative paths are relative to the working directory of this session.
    #[arg(short, long, value_name = "ID")]
    pub(crate) session: Option<String>,
}

/// How a pattern is compared.
#[derive(Debug, Args)]
pub(crate) struct PatternArgs {
    /// The pattern is a regular expression.
    #[arg(short = 'E', long)]
    pub(crate) regex: bool,
    /// Match case-insensitively.
    #[arg(short, long)]
    pub(crate) ignore_case: bool,
    /// Only match whole words.
    #[arg(short, long)]
    pub(crate) word: bool,
}

impl WalkArgs {
    /// The globs, if there are some.
    pub(crate) fn globs(&self) -> Option<Vec<String>> {
        (!self.glob.is_empty()).then(|| self.glob.clone())
    }
}
