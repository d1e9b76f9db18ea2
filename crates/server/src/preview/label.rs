//! The first label of the host name of a preview: `{port}-{name}-{token}`.

/// Maximum length of the name of a sandbox.
pub(super) const MAX_NAME_BYTES: usize = 32;
/// Maximum length of a token.
pub(super) const MAX_TOKEN_BYTES: usize = 24;
/// Maximum length of the domain of previews: a host name has at most 253 bytes.
pub(super) const MAX_HOST_BYTES: usize = 253 - MAX_LABEL_BYTES - 1;
/// Maximum length of a label of a host name.
const MAX_LABEL_BYTES: usize = 63;
/// Number of characters of a random token.
const RANDOM_TOKEN_BYTES: usize = 16;

// Every port, name and token fit.
const _: () = assert!("65535--".len() + MAX_NAME_BYTES + MAX_TOKEN_BYTES <= MAX_LABEL_BYTES);

/// The parts of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label<'a> {
    pub(super) port: u16,
    pub(super) name: &'a str,
    pub(super) token: &'a str,
}

impl<'a> Label<'a> {
    /// Splits a label in lower case. A token has no hyphen, so the last one ends the name.
    pub(super) fn parse(label: &'a str) -> Option<Self> {
        let (port, rest) = label.split_once('-')?;
        let (name, token) = rest.rsplit_once('-')?;
        // One spelling for each port: an origin of its own for `08080-…` would be a surprise.
        let is_plain = !port.starts_with('0') && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_plain)?;
        Some(Self { port, name, token })
    }
}

/// The label of a preview.
pub(super) fn label(port: u16, name: &str, token: &str) -> String {
    format!("{port}-{name}-{token}")
}

/// Whether a label looks like one of a preview: digits and a hyphen. Such a host is never the API.
pub(super) fn is_preview(label: &str) -> bool {
    let rest = label.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < label.len() && rest.starts_with('-')
}

/// Whether a client may choose this token.
pub(crate) fn is_valid_token(token: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !token.is_empty() && token.len() <= MAX_TOKEN_BYTES && token.bytes().all(is_allowed)
}

/// A random token: 16 characters of 5 bits.
pub(super) fn random_token() -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bytes = sandcrab_engine::random_bytes::<RANDOM_TOKEN_BYTES>();
    bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn labels_fit_and_have_one_meaning(
            port in 1_u16..,
            name in "[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?",
            token in "[a-z0-9_]{1,24}",
        ) {
            let label = label(port, &name, &token);
            prop_assert!(label.len() <= MAX_LABEL_BYTES && is_preview(&label) && is_valid_token(&token));
            prop_assert_eq!(Label::parse(&label), Some(Label { port, name: &name, token: &token }));
        }

        #[test]
        fn parsed_labels_are_those_that_are_written(text in "[0-9a-z_-]{0,70}") {
            if let Some(Label { port, name, token }) = Label::parse(&text) {
                prop_assert_eq!(label(port, name, token), text.as_str());
                prop_assert!(is_preview(&text));
            }
        }
    }

    #[test]
    fn other_labels_are_not_previews() {
        for other in ["", "-", "8080", "a-8080-b", "-8080-a", "127", "8080a-b"] {
            assert!(!is_preview(other), "{other}");
        }
        for unusable in ["8080-", "8080-a", "08080-a-b", "65536-a-b", "99999999999999999999-a-b"] {
            assert!(is_preview(unusable) && Label::parse(unusable).is_none(), "{unusable}");
        }
        for token in ["", "a-b", "A", "ä", &"a".repeat(25)] {
            assert!(!is_valid_token(token), "{token}");
        }
    }

    #[test]
    fn random_tokens_are_valid_and_differ() {
        let (first, second) = (random_token(), random_token());
        assert!(is_valid_token(&first) && is_valid_token(&second) && first != second);
    }
}
