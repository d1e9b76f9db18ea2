//! [`Secrets`]: the credentials of a call, which are hidden in texts of git.

use base64::Engine as _;
use sandcrab_api::git::GitCredentials;

/// What is shown in place of a secret.
const MASK: &str = "***";

/// The credentials of a call, in the forms in which a remote may send them back.
#[derive(Default)]
pub(crate) struct Secrets(Vec<String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    pub(crate) fn new(credentials: Option<&GitCredentials>) -> Self {
        let Some(GitCredentials { username, password }) = credentials else { return Self::default() };
        // A token may be given as the user name.
        let secret = if password.is_empty() { username } else { password };
        if secret.is_empty() {
            return Self::default();
        }
        let header = base64::engine::general_purpose::STANDARD.encode(format!("{username}:{password}"));
        let encoded = |upper: bool| -> String {
            let byte = |byte: u8| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    char::from(byte).to_string()
                }
                other if upper => format!("%{other:02X}"),
                other => format!("%{other:02x}"),
            };
            secret.bytes().map(byte).collect()
        };
        let mut all = vec![secret.clone(), header, encoded(true), encoded(false)];
        // A form that contains another one first.
        all.sort_by_key(|form| std::cmp::Reverse(form.len()));
        all.dedup();
        Self(all)
    }

    /// Hides the credentials in a text. If its beginning was cut off, it may begin with a part of them, which is removed.
    pub(crate) fn masked(&self, text: &str, is_cut: bool) -> String {
        let mut text = text;
        if let Some(longest) = self.0.first().filter(|_| is_cut) {
            let at = (longest.len().min(text.len())..=text.len()).find(|at| text.is_char_boundary(*at));
            text = &text[at.unwrap_or(text.len())..];
        }
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, MASK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_hidden_in_every_form() {
        let given = GitCredentials { username: "me".into(), password: "p:ss/é".into() };
        let secrets = Secrets::new(Some(&given));
        let text = "remote: p:ss/é p%3Ass%2F%C3%A9 p%3ass%2f%c3%a9 Basic bWU6cDpzcy/DqQ== me";
        assert_eq!(secrets.masked(text, false), "remote: *** *** *** Basic *** me");
        assert!(!format!("{secrets:?}").contains("ss"));
        let token = GitCredentials { username: "token".into(), password: String::new() };
        assert_eq!(
            Secrets::new(Some(&token)).masked("for 'https://token@host'", false),
            "for 'https://***@host'"
        );
        for none in [None, Some(&GitCredentials { username: String::new(), password: String::new() })] {
            assert_eq!(Secrets::new(none).masked("text", true), "text");
        }
    }

    #[test]
    fn part_of_a_secret_at_a_cut_is_removed() {
        let given = GitCredentials { username: "me".into(), password: "0123456789".into() };
        let secrets = Secrets::new(Some(&given));
        let masked = secrets.masked("56789 and more of the message é", true);
        assert!(!masked.contains("56789") && masked.ends_with("message é"), "{masked}");
        assert_eq!(secrets.masked("é", true), "");
    }
}
