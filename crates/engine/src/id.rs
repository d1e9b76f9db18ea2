//! Names of executions and sessions.
//!
//! Ids are names, never paths: nothing on disk is called after one (see [`crate::journal`]), so the
//! rules here are about people and logs, not about file systems.

use std::fmt;
use std::str::FromStr;

use rustix::rand::{GetRandomFlags, getrandom};

/// The longest id that is accepted, in bytes.
pub const MAX_ID_BYTES: usize = 128;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The text is empty.
    #[error("an id must not be empty; leave it out to have one made")]
    Empty,
    /// The text is longer than [`MAX_ID_BYTES`].
    #[error("an id may have {MAX_ID_BYTES} bytes at most, this one has {0}")]
    TooLong(usize),
    /// The text holds a character that ids do not have.
    #[error("an id holds ASCII letters, digits, '-', '_', '.', ':' and '@', not {0:?}")]
    BadCharacter(char),
    /// The text could be mistaken for a path.
    #[error("an id must not start with '.' or hold '..'")]
    LooksLikePath,
}

fn check(text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > MAX_ID_BYTES {
        return Err(IdError::TooLong(text.len()));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
    if let Some(bad) = text.chars().find(|c| !allowed(*c)) {
        return Err(IdError::BadCharacter(bad));
    }
    if text.starts_with('.') || text.contains("..") {
        return Err(IdError::LooksLikePath);
    }
    Ok(())
}

/// Fills a buffer with random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        // A request of at most 256 bytes neither fails nor comes back short once the pool is up.
        if let Ok(n) = getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            filled += n;
        }
    }
    bytes
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Box<str>);

        impl $name {
            /// Makes a new id that nobody else has.
            pub fn random() -> Self {
                Self(format!(concat!($prefix, "{:020x}"), u128::from_be_bytes(random()) >> 48).into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                check(text)?;
                Ok(Self(text.into()))
            }
        }

        impl TryFrom<&str> for $name {
            type Error = IdError;
            fn try_from(text: &str) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

id!(
    /// The name of an execution; the caller's own, or made by the engine.
    ExecutionId,
    "x-"
);
id!(
    /// The name of a session; the caller's own, or made by the engine.
    SessionId,
    "s-"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_names_and_never_paths() {
        assert_eq!("".parse::<SessionId>(), Err(IdError::Empty));
        assert_eq!("a/b".parse::<SessionId>(), Err(IdError::BadCharacter('/')));
        assert_eq!("a..b".parse::<SessionId>(), Err(IdError::LooksLikePath));
        assert_eq!(".hidden".parse::<SessionId>(), Err(IdError::LooksLikePath));
        assert_eq!("a\0".parse::<SessionId>(), Err(IdError::BadCharacter('\0')));
        assert_eq!("x".repeat(129).parse::<SessionId>(), Err(IdError::TooLong(129)));
        assert!("build:42@main_v1.2-rc".parse::<ExecutionId>().is_ok());
    }

    #[test]
    fn random_ids_are_valid_and_differ() {
        let id = ExecutionId::random();
        assert_eq!(id.as_str().parse::<ExecutionId>(), Ok(id.clone()));
        assert_ne!(id, ExecutionId::random());
    }
}
