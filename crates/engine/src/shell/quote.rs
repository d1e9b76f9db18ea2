//! Quoting for shell text.

/// Appends a word in single quotes, in which only the quote itself is special.
pub(crate) fn quote(text: &mut Vec<u8>, word: &[u8]) {
    text.push(b'\'');
    for byte in word {
        match byte {
            b'\'' => text.extend(b"'\\''"),
            byte => text.push(*byte),
        }
    }
    text.push(b'\'');
}

/// Returns words as shell text: each in single quotes, separated by spaces.
pub fn quoted<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> Vec<u8> {
    let mut text = Vec::new();
    for word in words {
        if !text.is_empty() {
            text.push(b' ');
        }
        quote(&mut text, word.as_ref());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_keeps_every_byte() {
        assert_eq!(quoted([b"it's\n$x \xff"]), b"'it'\\''s\n$x \xff'");
        assert_eq!(quoted(["echo", ""]), b"'echo' ''");
    }
}
