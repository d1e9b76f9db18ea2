//! The text of error messages.

/// Removes the numbers that the standard library appends to the text of system errors, as in
/// `No such file or directory (os error 2)`. The text says the same, and the numbers differ between systems.
#[must_use]
pub fn without_error_number(mut message: String) -> String {
    const START: &str = " (os error ";
    let mut from = 0;
    while let Some(at) = message[from..].find(START).map(|at| at + from) {
        let digits = at + START.len();
        let end = message[digits..].find(|c: char| !c.is_ascii_digit()).map(|end| end + digits);
        match end {
            Some(end) if end > digits && message[end..].starts_with(')') => {
                message.replace_range(at..=end, "");
                from = at;
            }
            _ => from = digits,
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_system_errors_are_removed() {
        let plain = |text: &str| without_error_number(text.to_owned());
        let error = std::io::Error::from_raw_os_error(2);
        assert_eq!(
            plain(&format!("a: {error}; b: {error}")),
            "a: No such file or directory; b: No such file or directory"
        );
        for text in ["", "(os error 2)", "a (os error )", "a (os error 2", "a (os error x) (os error"] {
            assert_eq!(plain(text), text);
        }
    }
}
