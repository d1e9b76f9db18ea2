//! The configuration file.

use std::io;
use std::path::{Path, PathBuf};

use crate::commands::serve::ServeArgs;
use crate::places;

/// Why a configuration file is of no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// It cannot be read.
    #[error("failed to read the configuration file {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// It says something that means nothing here.
    #[error("the configuration file {} cannot be used: {why}", path.display())]
    Meaning { path: PathBuf, why: String },
}

/// Reads the file that was named, or the one in its usual place, if there is one.
pub(super) fn read(named: Option<&Path>) -> Result<ServeArgs, FileError> {
    if let Some(path) = named {
        let text = std::fs::read_to_string(path);
        return parse(path, &text.map_err(|source| FileError::Read { path: path.to_owned(), source })?);
    }
    for path in places::config_files() {
        match std::fs::read_to_string(&path) {
            Ok(text) => return parse(&path, &text),
            // No such file, or no such folder.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(source) => return Err(FileError::Read { path, source }),
        }
    }
    Ok(ServeArgs::default())
}

fn parse(path: &Path, text: &str) -> Result<ServeArgs, FileError> {
    // The message names the line and the key, and lists the keys there are.
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
        assert!(message.starts_with("the configuration file /x/config.toml cannot be used"), "{message}");
        assert!(message.contains("unknown field `listn`") && message.contains("line 2"), "{message}");
        assert!(refused("config = \"other.toml\"").contains("unknown field `config`"));
        assert!(refused("stop-grace = \"soon\"").contains("as in 15m"));
        assert!(refused("stop-grace = 15").contains("as in 15m"));
        assert!(refused("no-auth = \"perhaps\"").contains("boolean"));
    }
}
