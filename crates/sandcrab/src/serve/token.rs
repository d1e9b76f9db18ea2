//! The token: made on the first start, kept in a file that only this user can read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How many random bytes a token is made of.
const TOKEN_BYTES: usize = 32;
/// The shortest token that is taken, in characters.
const MIN_TOKEN: usize = 16;
/// The longest.
const MAX_TOKEN: usize = 1024;
/// What others may not have of a file or folder.
const OTHERS: u32 = 0o077;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub(super) enum TokenError {
    /// The file cannot be read or made.
    #[error("failed to {doing} {}: {source}", path.display())]
    File { doing: &'static str, path: PathBuf, source: io::Error },
    /// Others can read it.
    #[error("others can read the token in {path}; run `chmod 600 {path}`, and replace it if it may have been seen", path = .0.display())]
    NotPrivate(PathBuf),
    /// Others can look into the state directory.
    #[error("others can look into the state directory {path}; run `chmod 700 {path}`, or choose another", path = .0.display())]
    StateNotPrivate(PathBuf),
    /// It is none.
    #[error(
        "the token in {} is no token: it must be a line of {MIN_TOKEN} to {MAX_TOKEN} letters, digits and signs; remove \
         the file to have a new one made", .0.display()
    )]
    Unfit(PathBuf),
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TokenError {
    move |source| TokenError::File { doing, path: path.to_owned(), source }
}

fn is_private(mode: u32) -> bool {
    mode & OTHERS == 0
}

/// Makes the state directory, if it is not there, for this user alone. One that others can look into is refused, but for
/// an empty one, as container runtimes mount them.
pub(super) fn make_state_dir(path: &Path) -> Result<(), TokenError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(failed("make the state directory", path))?;
    let metadata = fs::metadata(path).map_err(failed("look at", path))?;
    if is_private(metadata.permissions().mode()) {
        return Ok(());
    }
    let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    if is_empty && fs::set_permissions(path, fs::Permissions::from_mode(0o700)).is_ok() {
        return Ok(());
    }
    Err(TokenError::StateNotPrivate(path.to_owned()))
}

/// Reads the token, and makes it first if there is none.
pub(super) fn read_or_make(path: &Path) -> Result<String, TokenError> {
    match read(path) {
        Err(TokenError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            make(path)?;
            read(path)
        }
        result => result,
    }
}

fn read(path: &Path) -> Result<String, TokenError> {
    let fail = || failed("read the token in", path);
    // Never waits for a fifo.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(fail())?;
    let mode = file.metadata().map_err(fail())?.permissions().mode();
    if !is_private(mode) {
        return Err(TokenError::NotPrivate(path.to_owned()));
    }
    let mut text = Vec::new();
    // The newline at its end comes on top, and one more byte shows that it is too long.
    file.take(MAX_TOKEN as u64 + 2).read_to_end(&mut text).map_err(fail())?;
    let text = text.trim_ascii_end();
    let is_fit = (MIN_TOKEN..=MAX_TOKEN).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic);
    match std::str::from_utf8(text) {
        Ok(token) if is_fit => Ok(token.to_owned()),
        _ => Err(TokenError::Unfit(path.to_owned())),
    }
}

/// Makes a token. It is under its name whole or not at all, and one that somebody else makes at the same time stays.
fn make(path: &Path) -> Result<(), TokenError> {
    let fail = || failed("make the token file", path);
    let unnamed = path.with_extension(format!("new-{}", std::process::id()));
    // What a process with this number left when it was killed.
    drop(fs::remove_file(&unnamed));
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unnamed).map_err(fail())?;
    let made = write_random(&mut file).and_then(|()| fs::hard_link(&unnamed, path));
    drop(fs::remove_file(&unnamed));
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(fail()(error)),
        _ => Ok(()),
    }
}

fn write_random(file: &mut File) -> io::Result<()> {
    let mut bytes = [0; TOKEN_BYTES];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if filled != TOKEN_BYTES {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    for byte in bytes {
        write!(file, "{byte:02x}")?;
    }
    writeln!(file)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
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
    fn all_who_make_it_at_once_have_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(dir.path().join("first"), "0123456789abcdef0123456789abcdef").unwrap();
        fs::set_permissions(dir.path().join("first"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(dir.path().join("first"), &path).unwrap();
        // Somebody was faster.
        make(&path).unwrap();
        assert_eq!(read(&path).unwrap(), "0123456789abcdef0123456789abcdef");
    }

    #[test]
    fn what_others_can_read_is_refused_with_what_to_do() {
        for mode in [0o640, 0o604, 0o660] {
            let (_dir, path) = with_text("0123456789abcdef\n", mode);
            let refused = read_or_make(&path).unwrap_err().to_string();
            assert!(refused.contains("chmod 600"), "{refused}");
        }
        let (_dir, path) = with_text("0123456789abcdef\n", 0o400);
        assert_eq!(read_or_make(&path).unwrap(), "0123456789abcdef");
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["", "\n", "short", "with a space 0123456789", "two\nlines0123456789", &"x".repeat(1025)]
        {
            let (_dir, path) = with_text(text, 0o600);
            assert!(matches!(read_or_make(&path), Err(TokenError::Unfit(_))), "{text:?}");
        }
    }

    #[test]
    fn a_state_directory_is_made_private_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let state = dir.path().join("a/b");
        make_state_dir(&state).unwrap();
        assert_eq!(mode(&state), 0o700);
        fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).unwrap();
        make_state_dir(&state).unwrap();
        assert_eq!(mode(&state), 0o700);
        fs::write(state.join("file"), "").unwrap();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).unwrap();
        let refused = make_state_dir(&state).unwrap_err().to_string();
        assert!(refused.contains("chmod 700"), "{refused}");
        assert_eq!(mode(&state), 0o755);
    }
}
