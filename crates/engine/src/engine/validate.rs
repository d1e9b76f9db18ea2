//! Validation of commands, sessions and settings before anything is started.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::config::EngineConfig;
use super::error::{OpenError, StartError};
use super::session::SessionSpec;
use crate::command::{
    CommandSpec, MAX_COMMAND_BYTES, MAX_ENV_BYTES, MAX_NOTE_BYTES, MAX_STDIN_BYTES, Program, Stdin,
};
use crate::supervisor::shell_input::can_enter;
use crate::user::User;

fn invalid<T>(why: impl Into<String>) -> Result<T, StartError> {
    Err(StartError::InvalidCommand(why.into()))
}

pub(super) fn command(spec: &CommandSpec) -> Result<(), StartError> {
    let (bytes, holds_nul) = match &spec.program {
        Program::Shell(text) => (text.len(), text.contains(&0)),
        Program::Argv(argv) => {
            if argv.first().is_none_or(|program| program.is_empty()) {
                return invalid("argv is empty; its first element must be the program");
            }
            let total = argv.iter().map(|word| word.len() + 1).sum();
            (total, argv.iter().any(|word| word.as_bytes().contains(&0)))
        }
    };
    if holds_nul {
        return invalid("the command contains a NUL byte; pass binary data by standard input or a file");
    }
    if bytes > MAX_COMMAND_BYTES {
        return invalid(format!(
            "the command has {bytes} bytes, at most {MAX_COMMAND_BYTES} are allowed; write it to a file and run that"
        ));
    }
    if let Stdin::Bytes(bytes) | Stdin::OpenWith(bytes) = &spec.stdin
        && bytes.len() > MAX_STDIN_BYTES
    {
        return invalid(format!(
            "standard input has {} bytes, at most {MAX_STDIN_BYTES} are allowed; use Stdin::Open and write it in pieces",
            bytes.len()
        ));
    }
    if spec.digest.as_ref().is_some_and(|digest| digest.len() > 256) {
        return invalid("the digest has more than 256 bytes");
    }
    note(spec.note.as_ref())?;
    env(&spec.env)?;
    folder(spec.cwd.as_deref())
}

/// Refuses a configuration whose `run_as` user cannot run commands.
pub(super) fn run_as(config: &EngineConfig) -> Result<(), OpenError> {
    let Some(user) = &config.run_as else { return Ok(()) };
    let own = rustix::process::geteuid();
    if user.uid == 0 || (own.is_root() && user.is_own()) {
        let why = "run-as must not be root or the server's own user; give another user";
        return Err(OpenError::RunAs(why.into()));
    }
    if !own.is_root() && (!user.is_own() || user.is_own_in_refused_groups()) {
        let (own, name) = (own.as_raw(), &user.name);
        let why = format!(
            "only root can run commands as another user; start the server as root, or as {name} without run-as (it runs as user {own})"
        );
        return Err(OpenError::RunAs(why));
    }
    can_enter(&config.cwd, user.credentials().as_ref()).map_err(|error| {
        let (cwd, name) = (config.cwd.display(), &user.name);
        OpenError::RunAs(format!(
            "user {name} cannot enter the workspace {cwd}: {error}; choose another workspace, or permit this user to enter it and its parent directories"
        ))
    })
}

/// Refuses a user that a request may not name. `default` is the user of [`EngineConfig::run_as`].
pub(super) fn user(user: &User, default: Option<&User>) -> Result<(), StartError> {
    let refused = |why: String| Err(StartError::UserNotAllowed(why));
    if Some(user) == default {
        return Ok(());
    }
    let name = &user.name;
    if default.is_some() && (user.is_own() || user.uid == 0) {
        return refused(format!(
            "commands must not run as {name}: with run-as, root and the user of the server are not allowed"
        ));
    }
    if user.is_own_in_refused_groups() {
        let gid = user.gid;
        return refused(format!(
            "commands must not run as {name} with group {gid}: commands of the server's own user have the server's groups; omit the user"
        ));
    }
    if !user.is_own() && !rustix::process::geteuid().is_root() {
        return refused(format!(
            "commands cannot run as {name}: only a server that runs as root can change the user"
        ));
    }
    Ok(())
}

pub(super) fn session(spec: &SessionSpec) -> Result<(), StartError> {
    if spec.name.as_ref().is_some_and(|name| name.len() > 256) {
        return invalid("the name of the session has more than 256 bytes");
    }
    note(spec.note.as_ref())?;
    shell_variables(&spec.env)?;
    folder(spec.cwd.as_deref())
}

fn note(note: Option<&Vec<u8>>) -> Result<(), StartError> {
    match note.map_or(0, Vec::len) {
        bytes if bytes > MAX_NOTE_BYTES => invalid(format!(
            "the note has {bytes} bytes, at most {MAX_NOTE_BYTES} are allowed; store it elsewhere"
        )),
        _ => Ok(()),
    }
}

/// Validates changes to the variables of a shell, which allows fewer names than an environment.
pub(super) fn shell_variables(changes: &[(OsString, Option<OsString>)]) -> Result<(), StartError> {
    for (name, _) in changes {
        let bytes = name.as_bytes();
        let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        if !bytes.iter().all(word) || bytes.first().is_some_and(u8::is_ascii_digit) {
            return invalid(format!(
                "invalid shell variable name {name:?}: expected letters, digits and '_', without a digit at the start"
            ));
        }
    }
    env(changes)
}

pub(super) fn env(env: &[(OsString, Option<OsString>)]) -> Result<(), StartError> {
    let mut total = 0;
    for (name, value) in env {
        let value = value.as_ref().map_or(&b""[..], |value| value.as_bytes());
        total += name.len() + value.len() + 2;
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            return invalid(format!("invalid variable name {name:?}: it must not be empty or contain '='"));
        }
        if name.as_bytes().contains(&0) || value.contains(&0) {
            return invalid(format!(
                "the variable {name:?} contains a NUL byte, which is not allowed in an environment"
            ));
        }
    }
    if total > MAX_ENV_BYTES {
        return invalid(format!(
            "the environment has {total} bytes, at most {MAX_ENV_BYTES} are allowed; pass large data by standard input or a file"
        ));
    }
    Ok(())
}

/// Validates the total size of an environment after a change.
pub(super) fn whole_env(env: &[(OsString, OsString)]) -> Result<(), StartError> {
    let total: usize = env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if total > MAX_ENV_BYTES {
        return invalid(format!(
            "the environment would have {total} bytes, at most {MAX_ENV_BYTES} are allowed; remove variables first by setting them to null"
        ));
    }
    Ok(())
}

fn folder(cwd: Option<&Path>) -> Result<(), StartError> {
    match cwd {
        Some(path) if path.as_os_str().as_bytes().contains(&0) => {
            invalid("the working directory contains a NUL byte, which is not allowed in a path")
        }
        Some(path) if !path.is_absolute() => {
            invalid(format!("the working directory {path:?} is not absolute; give an absolute path"))
        }
        _ => Ok(()),
    }
}
