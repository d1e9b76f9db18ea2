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
