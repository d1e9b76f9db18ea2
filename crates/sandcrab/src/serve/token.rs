//! The token: created on the first start, in a file that only this user can read.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use sandcrab_engine::trusted::{Secrecy, TrustError, create_private, read_trusted};

/// Random bytes of a new token.
const TOKEN_BYTES: usize = 32;
/// Minimum length of a token, in characters.
const MIN_TOKEN: usize = 16;
/// Maximum length of a token, in characters.
const MAX_TOKEN: usize = 1024;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub(super) enum TokenError {
    /// The file cannot be read or made, or another user can read or change it.
    #[error("the token file cannot be used: {0}; replace the token if another user may have seen it")]
    File(#[from] TrustError),
    /// The kernel has no random bytes.
    #[error("failed to create a token: {0}")]
    Random(io::Error),
    /// The file does not contain a valid token.
    #[error(
        "{} does not contain a valid token: expected one line of {MIN_TOKEN} to {MAX_TOKEN} letters, digits and punctuation \
         characters; remove the file to create a new token", .0.display()
    )]
    Unfit(PathBuf),
}

/// Reads the token, and creates it if it does not exist.
pub(super) fn read_or_make(path: &Path) -> Result<String, TokenError> {
    match read(path) {
        Err(TokenError::File(error)) if error.is_not_found() => {
            let token = random()?;
            // A token that another process has created meanwhile is kept.
            create_private(path, format!("{token}\n").as_bytes())?;
            read(path)
        }
        result => result,
    }
}

fn read(path: &Path) -> Result<String, TokenError> {
    // Plus the newline, and one byte that shows that it is too long.
    let text = read_trusted(path, Secrecy::Secret, MAX_TOKEN as u64 + 2)?;
    let text = text.trim_ascii_end();
    let is_fit = (MIN_TOKEN..=MAX_TOKEN).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic);
    match std::str::from_utf8(text) {
        Ok(token) if is_fit => Ok(token.to_owned()),
        _ => Err(TokenError::Unfit(path.to_owned())),
    }
}

fn random() -> Result<String, TokenError> {
    let mut bytes = [0; TOKEN_BYTES];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match filled {
        Ok(TOKEN_BYTES) => {}
        Ok(_) => return Err(TokenError::Random(io::ErrorKind::UnexpectedEof.into())),
        Err(errno) => return Err(TokenError::Random(errno.into())),
    }
    Ok(bytes.iter().fold(String::new(), |mut token, byte| {
        // Never fails: a String takes everything.
        let _ = write!(token, "{byte:02x}");
        token
    }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn with_text(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    #[test]
    fn it_is_made_once_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let token = read_or_make(&path).unwrap();
        assert!(token.len() == 64 && token.bytes().all(|b| b.is_ascii_hexdigit()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_or_make(&path).unwrap(), token);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
        let other = tempfile::tempdir().unwrap();
        assert_ne!(read_or_make(&other.path().join("token")).unwrap(), token);
    }

    #[test]
    fn token_readable_by_others_is_refused_with_a_remedy() {
        for mode in [0o640, 0o604, 0o660] {
            let (_dir, path) = with_text("0123456789abcdef\n", mode);
            let refused = read_or_make(&path).unwrap_err().to_string();
            assert!(refused.contains("chmod 600"), "{refused}");
        }
        let (_dir, path) = with_text("0123456789abcdef\n", 0o400);
        assert_eq!(read_or_make(&path).unwrap(), "0123456789abcdef");
    }

    #[test]
    fn invalid_token_is_refused() {
        for text in ["", "\n", "short", "with a space 0123456789", "two\nlines0123456789", &"x".repeat(1025)]
        {
            let (_dir, path) = with_text(text, 0o600);
            assert!(matches!(read_or_make(&path), Err(TokenError::Unfit(_))), "{text:?}");
        }
    }
}
