//! [`PreviewSettings`]: the name of the sandbox, and the host of preview addresses.

use std::net::IpAddr;

use super::label::{MAX_HOST_BYTES, MAX_NAME_BYTES};

/// The scheme of preview addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PreviewScheme {
    /// `http`.
    #[default]
    Http,
    /// `https`: another program in front of the server terminates TLS.
    Https,
}

impl PreviewScheme {
    /// The scheme as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    pub(super) fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Why settings of previews were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PreviewSettingsError {
    /// The name of the sandbox does not fit into a host name.
    #[error(
        "invalid name {0:?}: expected 1 to {MAX_NAME_BYTES} lowercase letters, digits and hyphens, with a letter or digit at both ends"
    )]
    Name(String),
    /// The host is not a domain name.
    #[error(
        "invalid preview host {0:?}: expected a domain name, with :PORT if needed, such as preview.example.com"
    )]
    Host(String),
}

/// Settings of previews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewSettings {
    name: String,
    /// Domain and port; `None` for `localhost` with the port of the server.
    host: Option<String>,
    scheme: PreviewScheme,
}

impl Default for PreviewSettings {
    fn default() -> Self {
        Self { name: "local".into(), host: None, scheme: PreviewScheme::Http }
    }
}

impl PreviewSettings {
    /// Checks settings: the name of the sandbox, and the host (`DOMAIN` or `DOMAIN:PORT`) below which previews have their
    /// names. Without a host it is `localhost` with the port of the server.
    pub fn new(name: &str, host: Option<&str>, scheme: PreviewScheme) -> Result<Self, PreviewSettingsError> {
        let is_name = is_label(name) && name.len() <= MAX_NAME_BYTES && !name.contains('_');
        if !is_name {
            return Err(PreviewSettingsError::Name(name.into()));
        }
        let host = host.map(|host| {
            let lower = host.to_ascii_lowercase();
            if is_host(&lower) { Ok(lower) } else { Err(PreviewSettingsError::Host(host.into())) }
        });
        Ok(Self { name: name.into(), host: host.transpose()?, scheme })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn scheme(&self) -> PreviewScheme {
        self.scheme
    }

    /// The host of preview addresses of a server with this TCP port.
    pub(super) fn host(&self, own_port: Option<u16>) -> String {
        match (&self.host, own_port) {
            (Some(host), _) => host.clone(),
            (None, Some(port)) => format!("localhost:{port}"),
            (None, None) => "localhost".into(),
        }
    }
}

/// Whether a text is a label of a host name.
fn is_label(text: &str) -> bool {
    let is_inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    text.len() <= 63 && text.bytes().all(is_inner) && is_end(bytes.first()) && is_end(bytes.last())
}

fn is_host(host: &str) -> bool {
    let (domain, port) = match host.split_once(':') {
        Some((domain, port)) => (domain, Some(port)),
        None => (host, None),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port != 0);
    domain.len() <= MAX_HOST_BYTES
        && domain.split('.').all(is_label)
        // An address has no names below it.
        && domain.parse::<IpAddr>().is_err()
        && port.is_none_or(is_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_fit_into_host_names() {
        fn check(name: &str, host: Option<&str>) -> bool {
            PreviewSettings::new(name, host, PreviewScheme::Https).is_ok()
        }
        for name in ["local", "a", "my-box-2", "0"] {
            assert!(check(name, None), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a_b", "a.b", "ä", "a b", &"x".repeat(33)] {
            assert!(!check(name, None), "{name}");
        }
        for host in ["localhost", "localhost:8080", "Preview.example.com", "p.example.com:443"] {
            assert!(check("local", Some(host)), "{host}");
        }
        for host in [
            "",
            "127.0.0.1",
            "[::1]",
            "::1",
            "a..b",
            ".a",
            "a.",
            "a:0",
            "a:",
            "a:99999",
            "http://a",
            "a/b",
            "a b",
            &"x".repeat(64),
            &"x.".repeat(100),
        ] {
            assert!(!check("local", Some(host)), "{host}");
        }
    }

    #[test]
    fn default_host_is_localhost_with_the_port_of_the_server() {
        let settings = PreviewSettings::default();
        assert_eq!(settings.host(Some(7070)), "localhost:7070");
        assert_eq!(settings.host(None), "localhost");
    }
}
