//! What a command's request becomes for a shell: variables, folders.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::protocol::{Bytes, Refusal, Variable};
use crate::shell;

pub(super) fn is_root() -> bool {
    static ROOT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ROOT.get_or_init(|| rustix::process::geteuid().is_root())
}

/// Changes to an environment, as a shell takes them.
pub(super) fn shell_env(changes: &[Variable]) -> Vec<(OsString, Option<OsString>)> {
    changes.iter().map(|v| (v.name.clone().into(), v.value.clone().map(Into::into))).collect()
}

pub(super) fn path_of(bytes: Bytes) -> PathBuf {
    OsString::from_vec(bytes.0).into()
}

/// Refuses a folder that a command could not run in, before it is handed to a shell.
pub(super) fn check_folder(cwd: Option<&Bytes>) -> Result<(), Refusal> {
    let Some(cwd) = cwd else { return Ok(()) };
    let path = path_of(cwd.clone());
    let bad = |e: rustix::io::Errno| Refusal::BadCwd(e.raw_os_error());
    openat(CWD, &path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(bad)?;
    rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).map_err(bad)
}

/// Whether a shell that is up can take these changes as if it had started with them.
pub(super) fn takes_changes(changes: &[Variable]) -> bool {
    changes.iter().all(|change| {
        let value = change.value.as_ref().map(|value| OsStr::from_bytes(&value.0));
        shell::is_plain(OsStr::from_bytes(&change.name.0), value)
    })
}
