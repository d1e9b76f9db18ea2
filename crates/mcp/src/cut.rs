//! Cuts text between characters.

/// The longest beginning of at most `limit` bytes that ends between characters.
pub(crate) fn start(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// The longest end of at most `limit` bytes that begins between characters.
pub(crate) fn end(text: &str, limit: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(limit))..]
}

/// The text; a long one without its middle.
pub(crate) fn middle(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let (start, end) = (start(text, limit / 2), end(text, limit / 2));
    let omitted = text.len() - start.len() - end.len();
    format!("{start}\n[… {omitted} bytes omitted …]\n{end}")
}

/// The last line that is not blank, cut at its end.
pub(crate) fn last_line(text: &str, limit: usize) -> Option<&str> {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(start(line, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_stay_whole() {
        assert_eq!(start("aé", 2), "a");
        assert_eq!(end("éa", 2), "a");
        assert_eq!(start("é", 9), "é");
        assert_eq!(end("é", 9), "é");
        let cut = middle(&"é".repeat(100), 21);
        assert_eq!(cut, format!("{}\n[… 180 bytes omitted …]\n{}", "é".repeat(5), "é".repeat(5)));
        assert_eq!(last_line("a\n  bé \n\n", 2), Some("b"));
        assert_eq!(last_line(" \n", 2), None);
    }
}
