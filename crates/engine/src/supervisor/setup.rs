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
            // The options are set by their names; the variable itself is bash's own.
            Some(value) if name.0 == b"SHELLOPTS" => push_options(&mut text, b"set -o", &name.0, &value.0),
            Some(value) if name.0 == b"BASHOPTS" => push_options(&mut text, b"shopt -s", &name.0, &value.0),
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

fn push_options(text: &mut Vec<u8>, command: &[u8], name: &[u8], value: &[u8]) {
    for option in value.split(|b| *b == b':').filter(|option| !option.is_empty()) {
        text.extend(b"\\builtin ");
        text.extend(command);
        text.push(b' ');
        quote(text, option);
        text.push(b'\n');
    }
    text.extend(b"\\builtin export ");
    text.extend(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_keeps_every_byte() {
        assert_eq!(quoted(&[Bytes(b"it's\n$x \xff".to_vec())]), b"'it'\\''s\n$x \xff'");
        assert_eq!(quoted(&[Bytes(b"echo".to_vec()), Bytes(b"".to_vec())]), b"'echo' ''");
    }
}
