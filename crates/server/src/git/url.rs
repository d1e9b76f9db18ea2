//! [`RepositoryUrl`]: the URL of a repository, without credentials.

use sandcrab_api::ErrorCode;
use sandcrab_api::git::GitCredentials;

use crate::error::ApiError;

/// Maximum length of a URL.
const MAX_URL_BYTES: usize = 4096;

/// The protocols that git may use. Others, such as `ext`, run commands.
pub(crate) const ALLOWED_PROTOCOLS: &str = "file:git:http:https:ssh";

/// The URL of a repository, or its path, without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepositoryUrl {
    pub(crate) text: String,
    /// `SCHEME://HOST[:PORT]` of an `http` or `https` URL.
    pub(crate) origin: Option<String>,
}

fn invalid(why: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidGitUrl, format!("repoUrl: {why}"))
        .with("field", "repoUrl")
        .suggest("give an https, http, ssh, git or file URL, user@host:path, or a path")
}

impl RepositoryUrl {
    /// Checks a URL, and separates its credentials.
    pub(crate) fn parse(given: &str) -> Result<(Self, Option<GitCredentials>), ApiError> {
        if given.is_empty() || given.len() > MAX_URL_BYTES {
            return Err(invalid("expected 1 to 4,096 bytes"));
        }
        if given.starts_with('-') {
            return Err(invalid("it begins with `-`, like an option"));
        }
        if given.chars().any(char::is_control) {
            return Err(invalid("it contains a control character"));
        }
        // `TRANSPORT::ADDRESS` names a program that git runs.
        let helper = given.split_once("::").map(|(transport, _)| transport);
        if helper.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')) {
            return Err(invalid("remote helpers (`transport::address`) are not supported"));
        }
        let is_http =
            given.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("http")) && given.contains("://");
        // Only http and https have a way to keep a password out of the arguments of git.
        let user =
            given.split_once("://").map_or(given, |(_, rest)| rest).split('/').next().unwrap_or_default();
        if !is_http && given.contains('@') && user.split_once('@').is_some_and(|(user, _)| user.contains(':'))
        {
            return Err(invalid("a password is supported in http and https URLs only"));
        }
        let Some((scheme, rest)) = given.split_once("://") else {
            // For git, `https:/user:password@host` is a path on the host `https`: the password would be in its arguments.
            let host = given.split_once(':').map_or("", |(host, _)| host);
            if ["http", "https"].iter().any(|scheme| scheme.eq_ignore_ascii_case(host)) {
                return Err(invalid("expected `//` after the scheme"));
            }
            return Ok((Self { text: given.to_owned(), origin: None }, None));
        };
        if !ALLOWED_PROTOCOLS.split(':').any(|allowed| allowed.eq_ignore_ascii_case(scheme)) {
            return Err(invalid("its scheme is not supported"));
        }
        if !scheme.to_ascii_lowercase().starts_with("http") {
            return Ok((Self { text: given.to_owned(), origin: None }, None));
        }
        let (authority, path) = rest.find(['/', '?', '#']).map_or((rest, ""), |at| rest.split_at(at));
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        if host.is_empty() {
            return Err(invalid("it has no host"));
        }
        let origin = format!("{}://{host}", scheme.to_ascii_lowercase());
        let credentials = user.map(|user| {
            let (username, password) = user.split_once(':').unwrap_or((user, ""));
            GitCredentials { username: percent_decoded(username), password: percent_decoded(password) }
        });
        Ok((Self { text: format!("{origin}{path}"), origin: Some(origin) }, credentials))
    }

    /// The name of the directory that git would choose: the last part without `.git`.
    pub(crate) fn directory_name(&self) -> Result<String, ApiError> {
        let path = self.text.split(['?', '#']).next().unwrap_or_default();
        let path = path.trim_end_matches('/').strip_suffix("/.git").unwrap_or(path.trim_end_matches('/'));
        let last = path.rsplit(['/', ':']).next().unwrap_or_default();
        let name = last.strip_suffix(".git").unwrap_or(last);
        if matches!(name, "" | "." | "..") {
            return Err(invalid("it has no name for a directory; give targetDir"));
        }
        Ok(name.to_owned())
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match hex.filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_separated() {
        let (url, credentials) = RepositoryUrl::parse("https://me:p%40ss%3a@host:8443/a/b.git?x=1").unwrap();
        assert_eq!(url.text, "https://host:8443/a/b.git?x=1");
        assert_eq!(url.origin.as_deref(), Some("https://host:8443"));
        let credentials = credentials.unwrap();
        assert_eq!((credentials.username.as_str(), credentials.password.as_str()), ("me", "p@ss:"));
        assert!(!format!("{url:?}{credentials:?}").contains("p@ss"));
        let (url, credentials) = RepositoryUrl::parse("git@github.com:a/b").unwrap();
        assert_eq!(
            (url.text.as_str(), url.origin, credentials.is_none()),
            ("git@github.com:a/b", None, true)
        );
    }

    #[test]
    fn names_of_directories() {
        for (url, expected) in [
            ("https://host/a/repo.git", "repo"),
            ("https://host/a/repo/", "repo"),
            ("https://host/a/repo.git?x#y", "repo"),
            ("git@host:a/repo.git", "repo"),
            ("host:repo", "repo"),
            ("/srv/repo/.git", "repo"),
            ("../repo", "repo"),
        ] {
            assert_eq!(RepositoryUrl::parse(url).unwrap().0.directory_name().unwrap(), expected, "{url}");
        }
        for url in ["https://host/", "..", "/", "https://host/.git"] {
            let name = RepositoryUrl::parse(url).unwrap().0.directory_name();
            assert!(name.as_ref().is_ok_and(|name| name == "host") || name.is_err(), "{url} {name:?}");
        }
    }

    #[test]
    fn dangerous_urls_are_refused() {
        for url in [
            "",
            "-u",
            "--upload-pack=x",
            "ext::sh -c x",
            "fd::17",
            "a\nb",
            "https://",
            "ftp://x/y",
            "x://y",
            "ssh://u:p@h/x",
            "u:p@h:/x",
            "git://u:p@h/x",
            "https:/u:p@h/x",
            "HTTP:u:p@h/x",
        ] {
            let code = RepositoryUrl::parse(url).unwrap_err().code();
            assert_eq!(code, ErrorCode::InvalidGitUrl, "{url}");
        }
    }
}
