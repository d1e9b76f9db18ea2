//! Conversion of a command's request for a shell: variables, working directory.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::protocol::{Bytes, Refusal, Variable};
use crate::shell;
use crate::sys::Credentials;

pub(super) fn is_root() -> bool {
    static ROOT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ROOT.get_or_init(|| rustix::process::geteuid().is_root())
}

/// Changes to an environment, in the format of a shell.
pub(super) fn shell_env(changes: &[Variable]) -> Vec<(OsString, Option<OsString>)> {
    changes.iter().map(|v| (v.name.clone().into(), v.value.clone().map(Into::into))).collect()
}

pub(super) fn path_of(bytes: Bytes) -> PathBuf {
    OsString::from_vec(bytes.0).into()
}

/// Refuses an unusable working directory before the command is given to a shell.
pub(super) fn check_folder(cwd: Option<&Bytes>, user: Option<&Credentials>) -> Result<(), Refusal> {
    let Some(cwd) = cwd else { return Ok(()) };
    can_enter(&path_of(cwd.clone()), user)
        .map_err(|error| Refusal::BadCwd(error.raw_os_error().unwrap_or(libc::EACCES)))
}

/// Whether a user, or this process, can enter a directory.
pub(crate) fn can_enter(path: &Path, user: Option<&Credentials>) -> io::Result<()> {
    let enter = || {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(CWD, path, flags, Mode::empty())?;
        // Looking up an entry of the directory needs the same permission as entering it.
        openat(CWD, path.join(".").as_path(), flags, Mode::empty()).map(drop)
    };
    match user {
        Some(user) => user.look_at_files(enter)??,
        None => enter()?,
    }
    Ok(())
}

/// Whether a running shell can apply these changes as if it had started with them.
pub(super) fn takes_changes(changes: &[Variable]) -> bool {
    changes.iter().all(|change| {
        let value = change.value.as_ref().map(|value| OsStr::from_bytes(&value.0));
        shell::is_plain(OsStr::from_bytes(&change.name.0), value)
    })
}
