//! Changes to the sandbox's environment, kept in the state directory so that a restart does not undo them.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sandcrab_api::execute::Variables;

/// The file, for this user alone: values may be secrets.
const FILE: &str = "environment.json";

fn read(state_dir: &Path) -> io::Result<Variables> {
    match std::fs::read(state_dir.join(FILE)) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Variables::new()),
        Err(e) => Err(e),
    }
}

/// Adds changes to those that are kept. The file is whole at every moment.
pub(crate) fn remember(state_dir: &Path, changes: Variables) -> io::Result<()> {
    let mut all = read(state_dir).unwrap_or_default();
    all.extend(changes);
    let draft = state_dir.join(format!("{FILE}.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(&serde_json::to_vec(&all)?)?;
    file.sync_all()?;
    std::fs::rename(&draft, state_dir.join(FILE))?;
    File::open(state_dir)?.sync_all()
}

/// Applies what was kept to an environment.
pub(crate) fn restore(state_dir: &Path, env: &mut Vec<(OsString, OsString)>) -> io::Result<()> {
    for (name, value) in read(state_dir)? {
        let name = OsString::from(name);
        env.retain(|(other, _)| *other != name);
        if let Some(value) = value {
            env.push((name, value.into()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_add_up_and_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let change =
            |name: &str, value: Option<&str>| Variables::from([(name.into(), value.map(Into::into))]);
        remember(dir.path(), change("A", Some("1"))).unwrap();
        remember(dir.path(), change("B", Some("2"))).unwrap();
        remember(dir.path(), change("A", None)).unwrap();
        let mut env = vec![("A".into(), "0".into()), ("C".into(), "3".into())];
        restore(dir.path(), &mut env).unwrap();
        assert_eq!(env, [("C".into(), "3".into()), ("B".into(), "2".into())]);
        let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
