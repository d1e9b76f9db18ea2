//! [`Address`]: the address of a server.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use reqwest::Url;

/// The address of a server: an `http://` URL, or a unix socket.
///
/// ```
/// use sandcrab_client::Address;
///
/// let tcp: Address = "http://127.0.0.1:7070".parse()?;
/// let short: Address = "127.0.0.1:7070".parse()?;
/// assert_eq!(tcp, short);
///
/// let socket: Address = "unix:/run/sandcrab.sock".parse()?;
/// assert_eq!(socket.to_string(), "unix:/run/sandcrab.sock");
/// # Ok::<(), sandcrab_client::AddressError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(Location);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Location {
    Http(Url),
    Unix(PathBuf),
}

/// An invalid address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It is neither a URL nor a path.
    #[error("invalid address {text:?} ({why}); use http://HOST:PORT or unix:PATH")]
    NoAddress {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// It asks for https, which this program was built without.
    #[error("{0:?} requires https, which this program was built without; build it with the feature https")]
    NoHttps(String),
}

impl Address {
    /// A unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self(Location::Unix(path.into()))
    }

    /// The socket, if it is one.
    pub fn socket(&self) -> Option<&std::path::Path> {
        match &self.0 {
            Location::Http(_) => None,
            Location::Unix(path) => Some(path),
        }
    }

    /// Whether it is on this machine: a socket, or a loopback address.
    pub fn is_local(&self) -> bool {
        let Location::Http(url) = &self.0 else { return true };
        let host = url.host_str().unwrap_or_default();
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    /// The base URL of requests.
    pub(crate) fn base(&self) -> Url {
        match &self.0 {
            Location::Http(url) => url.clone(),
            // A request needs a host name, also over a unix socket.
            Location::Unix(_) => Url::parse("http://localhost/").expect("never fails: it is a constant"),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = |why: String| AddressError::NoAddress { text: without_password(text), why };
        let has_password =
            || wrong("it contains a user name or a password; give the token separately".into());
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() {
                Err(wrong("the path is missing".into()))
            } else {
                Ok(Self::unix(path))
            };
        }
        if text.starts_with(['/', '.']) {
            return Ok(Self::unix(text));
        }
        // Such as `http:/user:password@host`, where a slash is missing.
        if !text.contains("://") && text.contains('@') {
            return Err(has_password());
        }
        let url = if text.contains("://") { Url::parse(text) } else { Url::parse(&format!("http://{text}")) };
        let mut url = url.map_err(|e| wrong(e.to_string()))?;
        match url.scheme() {
            "http" => (),
            "https" if cfg!(feature = "https") => (),
            "https" => return Err(AddressError::NoHttps(without_password(text))),
            other => return Err(wrong(format!("the scheme {other} is not supported"))),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(has_password());
        }
        url.set_query(None);
        url.set_fragment(None);
        Ok(Self(Location::Http(url)))
    }
}

/// An address for a message: without what may be a password.
fn without_password(text: &str) -> String {
    text.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, host)| format!("…@{host}"))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Location::Http(url) => f.write_str(url.as_str().trim_end_matches('/')),
            Location::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses() {
        let is_local = |text: &str| text.parse::<Address>().unwrap().is_local();
        assert!(
            ["unix:/s", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"].into_iter().all(is_local)
        );
        assert!(!["10.0.0.1:1", "example.org", "localhost.example.org", "[::2]:1"].into_iter().any(is_local));
    }

    #[test]
    fn addresses_are_urls_or_sockets() {
        let shown = |text: &str| text.parse::<Address>().map(|address| address.to_string());
        assert_eq!(shown("http://h:1/").unwrap(), "http://h:1");
        assert_eq!(shown("http://h:1/box/7").unwrap(), "http://h:1/box/7");
        assert_eq!(shown("localhost:7070").unwrap(), "http://localhost:7070");
        assert_eq!(shown("[::1]:7070").unwrap(), "http://[::1]:7070");
        assert_eq!(shown("unix:a/b").unwrap(), "unix:a/b");
        assert_eq!(shown("unix:///run/s").unwrap(), "unix:/run/s");
        assert_eq!(shown("/run/s").unwrap(), "unix:/run/s");
        let with_password =
            ["http://user:secret@h", "http:/user:secret@h", "user:secret@h", "ftp://user:secret@h"];
        for wrong in ["", "unix:", "ftp://h", "http://"].into_iter().chain(with_password) {
            let error = shown(wrong).unwrap_err();
            assert!(matches!(error, AddressError::NoAddress { .. }), "{wrong}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert_eq!(shown("https://h").is_ok(), cfg!(feature = "https"));
    }
}
