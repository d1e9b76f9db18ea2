//! Changes to the sandbox's environment, stored in the state directory so that they survive a restart.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use sandcrab_api::execute::Variables;
use sandcrab_engine::MAX_ENV_BYTES;
use sandcrab_engine::trusted::TrustedDir;

/// The file, readable only by this user: values may be secrets.
const FILE: &str = "environment.json";

/// Maximum size of the file.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum length of one byte in JSON.
const LONGEST_ESCAPE: u64 = 6;
/// The file contains at most the whole environment and the initial names, which the kernel bounds.
const _: () = assert!(LONGEST_ESCAPE * MAX_ENV_BYTES as u64 + (8 << 20) <= MAX_BYTES);

fn read(state_dir: &TrustedDir) -> io::Result<Variables> {
    match state_dir.read(FILE, MAX_BYTES)? {
        // The text of the error may contain a value, which may be a secret.
        Some(bytes) => serde_json::from_slice(&bytes).map_err(|e| {
            let (line, column) = (e.line(), e.column());
            io::Error::other(format!(
                "{FILE} cannot be read: line {line}, column {column} is not what was written"
            ))
        }),
        None => Ok(Variables::new()),
    }
}

/// Adds changes to the stored ones, without removals of variables that are not in the initial environment. The file
/// is replaced atomically, and one that cannot be read is not replaced.
pub(crate) fn remember(
    state_dir: &Path,
    given: &[(OsString, OsString)],
    changes: Variables,
) -> io::Result<()> {
    let state_dir = TrustedDir::open(state_dir)?;
    let mut all = read(&state_dir)?;
    all.extend(changes);
    all.retain(|name, value| value.is_some() || given.iter().any(|(given, _)| given == name.as_str()));
    Ok(state_dir.replace(FILE, &serde_json::to_vec(&all)?)?)
}

/// Applies the stored changes to an environment.
pub(crate) fn restore(state_dir: &Path, env: &mut Vec<(OsString, OsString)>) -> io::Result<()> {
    let state_dir = match TrustedDir::open(state_dir) {
        Err(error) if error.is_not_found() => return Ok(()),
        opened => opened?,
    };
    for (name, value) in read(&state_dir)? {
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
        let mut env = vec![("A".into(), "0".into()), ("C".into(), "3".into())];
        remember(dir.path(), &env, change("A", Some("1"))).unwrap();
        remember(dir.path(), &env, change("B", Some("2"))).unwrap();
        remember(dir.path(), &env, change("A", None)).unwrap();
        for round in 0..100 {
            remember(dir.path(), &env, change(&format!("gone{round}"), Some("x"))).unwrap();
            remember(dir.path(), &env, change(&format!("gone{round}"), None)).unwrap();
        }
        let kept = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert_eq!(kept, r#"{"A":null,"B":"2"}"#);
        restore(dir.path(), &mut env).unwrap();
        assert_eq!(env, [("C".into(), "3".into()), ("B".into(), "2".into())]);
        let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn no_value_is_repeated() {
        for broken in [r#""secret""#, r#"{"A": {"secret": 1}}"#, r#"{"A": 4711}"#, r#"{"A": "secret"#] {
            let dir = tempfile::tempdir().unwrap();
            TrustedDir::open(dir.path()).unwrap().replace(FILE, broken.as_bytes()).unwrap();
            let error = restore(dir.path(), &mut Vec::new()).unwrap_err().to_string();
            assert!(error.contains("line 1"), "{error}");
            assert!(!error.contains("secret") && !error.contains("4711"), "{error}");
        }
    }
}
