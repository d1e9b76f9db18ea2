//! Shell text that a supervisor writes itself.

use crate::protocol::{Bytes, Variable};
use crate::shell::quote;

/// An argv as shell text.
pub(super) fn quoted(argv: &[Bytes]) -> Vec<u8> {
    let mut text = Vec::new();
    for word in argv {
        if !text.is_empty() {
            text.push(b' ');
        }
        quote(&mut text, &word.0);
    }
    text
}

/// Text that makes changes to an environment and goes to a folder.
pub(super) fn setup_text(env: &[Variable], cwd: Option<&Bytes>) -> Vec<u8> {
    let mut text = Vec::new();
    for Variable { name, value } in env {
        match value {
            Some(value) => {
                text.extend(b"\\builtin export -- ");
                text.extend(&name.0);
                text.push(b'=');
                quote(&mut text, &value.0);
            }
            None => {
                text.extend(b"\\builtin unset -v -- ");
                text.extend(&name.0);
            }
        }
        text.push(b'\n');
    }
    if let Some(cwd) = cwd {
        text.extend(b"\\builtin cd -- ");
        quote(&mut text, &cwd.0);
        text.extend(b" && \\builtin unset -v OLDPWD && \\builtin export OLDPWD\n");
    }
    text
}

/// Whether a text looks as if it may end its shell.
pub(super) fn looks_fatal(text: &[u8]) -> bool {
    const SIGNS: [&[u8]; 10] = [
        b"exit", b"exec", b"kill", b"$$", b"BASHPID", b"set -e", b"set -o", b"suspend", b"ulimit", b"logout",
    ];
    has_any(text, &SIGNS)
}

/// Whether a text looks as if after it any command may end the shell.
pub(super) fn looks_strict(text: &[u8]) -> bool {
    has_any(text, &[b"set -", b"errexit", b"nounset", b"trap", b"ulimit"])
}

fn has_any(text: &[u8], signs: &[&[u8]]) -> bool {
    signs.iter().any(|sign| text.windows(sign.len()).any(|window| window == *sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_keeps_every_byte() {
        assert_eq!(quoted(&[Bytes(b"it's\n$x \xff".to_vec())]), b"'it'\\''s\n$x \xff'");
        assert_eq!(quoted(&[Bytes(b"echo".to_vec()), Bytes(b"".to_vec())]), b"'echo' ''");
    }

    #[test]
    fn fatal_looks() {
        assert!(looks_fatal(b"kill -9 $$") && looks_fatal(b"exit") && looks_fatal(b"set -e"));
        assert!(!looks_fatal(b"true") && !looks_fatal(b""));
        assert!(looks_strict(b"set -eu") && looks_strict(b"trap 'exit 1' ERR") && !looks_strict(b"set a b"));
    }
}
