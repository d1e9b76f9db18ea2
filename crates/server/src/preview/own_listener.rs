//! [`OwnListener`]: the addresses at which this server itself is reached.

use std::net::{IpAddr, SocketAddr};

use crate::config::Listen;

/// The listening socket of this server. A preview never connects to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnListener(Option<SocketAddr>);

impl OwnListener {
    /// `listen` is the address of the open socket, not the configured one.
    pub(crate) fn new(listen: &Listen) -> Self {
        match listen {
            Listen::Tcp(address) => Self(Some(*address)),
            Listen::Unix(_) => Self(None),
        }
    }

    /// Whether a connection to this address reaches the server.
    pub(crate) fn accepts(self, target: SocketAddr) -> bool {
        self.0.is_some_and(|own| {
            let (ours, theirs) = (own.ip().to_canonical(), target.ip().to_canonical());
            let is_covered = match ours {
                // All IPv4 addresses.
                IpAddr::V4(ours) if ours.is_unspecified() => theirs.is_ipv4(),
                // All addresses, unless the socket is restricted to IPv6.
                IpAddr::V6(ours) if ours.is_unspecified() => true,
                ours => ours == theirs,
            };
            own.port() == target.port() && is_covered
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_the_listener_is_its_own() {
        let accepts = |own: &str, target: &str| {
            OwnListener::new(&Listen::Tcp(own.parse().unwrap())).accepts(target.parse().unwrap())
        };
        for (own, target) in [
            ("127.0.0.1:7070", "127.0.0.1:7070"),
            ("127.0.0.1:7070", "[::ffff:127.0.0.1]:7070"),
            ("0.0.0.0:7070", "127.0.0.1:7070"),
            ("[::]:7070", "127.0.0.1:7070"),
            ("[::]:7070", "[::1]:7070"),
            ("[::1]:7070", "[::1]:7070"),
        ] {
            assert!(accepts(own, target), "{own} {target}");
        }
        for (own, target) in [
            ("127.0.0.1:7070", "127.0.0.1:7071"),
            ("127.0.0.1:7070", "[::1]:7070"),
            ("0.0.0.0:7070", "[::1]:7070"),
            ("127.0.0.2:7070", "127.0.0.1:7070"),
        ] {
            assert!(!accepts(own, target), "{own} {target}");
        }
        assert!(!OwnListener::new(&Listen::Unix("/s".into())).accepts(([127, 0, 0, 1], 1).into()));
    }
}
