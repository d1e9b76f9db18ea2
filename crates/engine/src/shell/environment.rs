//! Which variables bash looks at when it starts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Bash reads these when it starts, sets them by itself, or gives them a meaning that assigning does not have. Sorted.
const READ_AT_START: [&str; 40] = [
    "COLUMNS",
    "COMP_WORDBREAKS",
    "COPROC",
    "DIRSTACK",
    "ENV",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "FUNCNAME",
    "FUNCNEST",
    "GROUPS",
    "HOSTNAME",
    "HOSTTYPE",
    "IFS",
    "IGNOREEOF",
    "LINENO",
    "LINES",
    "MACHTYPE",
    "MAPFILE",
    "OLDPWD",
    "OPTERR",
    "OPTIND",
    "OSTYPE",
    "PIPESTATUS",
    "POSIXLY_CORRECT",
    "PPID",
    "PS1",
    "PS2",
    "PS4",
    "PWD",
    "RANDOM",
    "SECONDS",
    "SHELL",
    "SHELLOPTS",
    "SHLVL",
    "SRANDOM",
    "TERM",
    "TMOUT",
    "UID",
    "_",
];

/// Bash would run a function of this name in place of the first line that the loaded driver gives it, and the files before
/// it; and the options would be in its way.
pub(super) const LEFT_OUT: &[&str] = &["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_FUNC_enable%%"];

/// Whether a shell that was started with this variable, and is up, is as a `bash -c` that has it.
pub(crate) fn is_taken_at_start(name: &OsStr, value: &OsStr) -> bool {
    let is_left_out = LEFT_OUT.iter().any(|left_out| name == OsStr::new(left_out)) && name != "ENV";
    !is_left_out && name != "PIPESTATUS" && (!is_locale(name) || is_usual_locale(value))
}

fn is_locale(name: &OsStr) -> bool {
    name == "LANG" || name.as_bytes().starts_with(b"LC_")
}

/// Of a locale that the machine does not have `bash -c` says so, in its own words.
fn is_usual_locale(value: &OsStr) -> bool {
    ["", "C", "POSIX", "C.UTF-8"].iter().any(|usual| value == OsStr::new(usual))
}

/// Bash has a value of its own for these where the environment has none.
const HAS_DEFAULT: [&str; 1] = ["PATH"];

/// Whether a shell that is up can take this change of its environment as if it had started with it.
///
/// If it cannot, a new bash has to start with it. Names that are no shell names are kept aside by bash, exported
/// functions are parsed.
pub(crate) fn is_plain(name: &OsStr, value: Option<&OsStr>) -> bool {
    if is_locale(name) && value.is_some_and(|value| !is_usual_locale(value)) {
        return false;
    }
    let bytes = name.as_bytes();
    let is_name = bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
        && bytes.first().is_some_and(|b| !b.is_ascii_digit());
    let Some(name) = name.to_str().filter(|_| is_name) else {
        return false;
    };
    !READ_AT_START.contains(&name)
        && !name.starts_with("BASH")
        && !name.starts_with("HIST")
        && !name.starts_with("hist")
        && (value.is_some() || !HAS_DEFAULT.contains(&name))
}
