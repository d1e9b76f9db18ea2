//! Variables that bash reads when it starts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Variables that bash reads when it starts, sets by itself, or interprets in another way than an assignment. Sorted.
const READ_AT_START: [&str; 43] = [
    "CHILD_MAX",
    "COLUMNS",
    "COMP_WORDBREAKS",
    "COPROC",
    "DIRSTACK",
    "ENV",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "EXECIGNORE",
    "FUNCNAME",
    "FUNCNEST",
    "GLOBIGNORE",
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

/// Variables that are not passed to bash on start: bash would run a function of this name in place of the first line
/// of the loaded driver, or files before it; and the options would interfere.
pub(super) const LEFT_OUT: &[&str] = &["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_FUNC_enable%%"];

/// Whether a running shell that was started with this variable behaves like a `bash -c` with it.
pub(crate) fn is_taken_at_start(name: &OsStr, value: &OsStr) -> bool {
    let is_left_out = LEFT_OUT.iter().any(|left_out| name == OsStr::new(left_out)) && name != "ENV";
    !is_left_out && name != "PIPESTATUS" && (!is_locale(name) || is_usual_locale(value))
}

fn is_locale(name: &OsStr) -> bool {
    name == "LANG" || name.as_bytes().starts_with(b"LC_")
}

/// For a locale that the machine does not have, `bash -c` prints a warning.
fn is_usual_locale(value: &OsStr) -> bool {
    ["", "C", "POSIX", "C.UTF-8"].iter().any(|usual| value == OsStr::new(usual))
}

/// Whether the dynamic linker or the C library reads this variable when a program starts, bash included.
fn is_of_the_linker(name: &str) -> bool {
    name.starts_with("LD_") || name.starts_with("MALLOC_") || name == "GLIBC_TUNABLES"
}

/// Whether a shell variable can have this name.
pub(crate) fn is_name(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
        && bytes.first().is_some_and(|b| !b.is_ascii_digit())
}

/// Variables for which bash has a default if the environment has none.
const HAS_DEFAULT: [&str; 1] = ["PATH"];

/// Whether a running shell can apply this change of its environment as if it had started with it.
///
/// If not, a new bash must be started. Bash keeps names that are not shell names separately, and parses exported
/// functions.
pub(crate) fn is_plain(name: &OsStr, value: Option<&OsStr>) -> bool {
    if is_locale(name) && value.is_some_and(|value| !is_usual_locale(value)) {
        return false;
    }
    let Some(name) = name.to_str().filter(|_| is_name(name)) else {
        return false;
    };
    !READ_AT_START.contains(&name)
        && !name.starts_with("BASH")
        && !name.starts_with("HIST")
        && !name.starts_with("hist")
        && !is_of_the_linker(name)
        && (value.is_some() || !HAS_DEFAULT.contains(&name))
}
