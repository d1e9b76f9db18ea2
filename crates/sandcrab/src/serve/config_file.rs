//! The configuration file.

use std::io;
use std::path::{Path, PathBuf};

use sandcrab_engine::trusted::{Secrecy, TrustError, read_trusted};

use crate::commands::serve::ServeArgs;
use crate::default_paths;

/// Maximum size of a configuration file.
const MAX_BYTES: u64 = 1 << 20;

/// Why a configuration file is invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// It cannot be read, or another user can change it.
    #[error("the configuration file cannot be used: {0}")]
    Read(#[from] TrustError),
    /// It is too long.
    #[error("the configuration file {} is longer than {MAX_BYTES} bytes", .0.display())]
    TooLong(PathBuf),
    /// It has an unknown key or an invalid value.
    #[error("invalid configuration file {}: {why}", path.display())]
    Meaning { path: PathBuf, why: String },
}

/// Reads the given file, or the default one, if it exists.
pub(super) fn read(named: Option<&Path>) -> Result<ServeArgs, FileError> {
    if let Some(path) = named {
        return parse(path, &text_of(path)?);
    }
    for path in default_paths::config_files() {
        // The file or its directory does not exist; the owners of parent directories do not matter then.
        if path.symlink_metadata().is_err_and(|error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }) {
            continue;
        }
        return parse(&path, &text_of(&path)?);
    }
    Ok(ServeArgs::default())
}

/// The text of a file. Refused if a user other than root can change it: it controls the server.
fn text_of(path: &Path) -> Result<String, FileError> {
    let bytes = read_trusted(path, Secrecy::Public, MAX_BYTES + 1)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(FileError::TooLong(path.to_owned()));
    }
    String::from_utf8(bytes)
        .map_err(|error| FileError::Meaning { path: path.to_owned(), why: error.to_string() })
}

fn parse(path: &Path, text: &str) -> Result<ServeArgs, FileError> {
    // The message has the line, the key and the list of known keys.
    let why = |error: toml::de::Error| error.to_string().trim_end().to_owned();
    toml::from_str(text).map_err(|error| FileError::Meaning { path: path.to_owned(), why: why(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse(Path::new("/x/config.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn keys_that_mean_nothing_are_refused_by_name() {
        let message = refused("listen = \"127.0.0.1:1\"\nlistn = \"127.0.0.1:1\"\n");
        assert!(message.starts_with("invalid configuration file /x/config.toml"), "{message}");
        assert!(message.contains("unknown field `listn`") && message.contains("line 2"), "{message}");
        assert!(refused("config = \"other.toml\"").contains("unknown field `config`"));
        assert!(refused("stop-grace = \"soon\"").contains("as in 15m"));
        assert!(refused("stop-grace = 15").contains("as in 15m"));
        assert!(refused("no-auth = \"perhaps\"").contains("boolean"));
    }
}
