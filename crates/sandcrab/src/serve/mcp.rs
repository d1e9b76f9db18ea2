//! The tools for language models at a path of the server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sandcrab_client::{Address, Client, ClientError};
use sandcrab_server::{Listen, Server};

/// The path of the tools.
pub(super) const PATH: &str = "/mcp";

/// Offers the tools, which use the API of the same server over a loopback connection.
pub(super) fn mount(server: &mut Server, token: Option<&str>) -> Result<(), ClientError> {
    // One connection for each call: a call that waits must not keep others waiting.
    let client =
        Client::with_max_connections(own_address(server.address())?, token, sandcrab_mcp::MAX_CALLS)?;
    server.mount(PATH, sandcrab_mcp::router(client, server.stop_token()));
    Ok(())
}

/// The address at which a server reaches itself.
fn own_address(listen: &Listen) -> Result<Address, ClientError> {
    Ok(match listen {
        Listen::Unix(path) => Address::unix(path),
        Listen::Tcp(address) => format!("http://{}", reachable(*address)).parse()?,
    })
}

/// The loopback address, if the server listens on all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_reaches_itself() {
        let own = |text: &str| own_address(&Listen::Tcp(text.parse().unwrap())).unwrap().to_string();
        assert_eq!(own("0.0.0.0:70"), "http://127.0.0.1:70");
        assert_eq!(own("[::]:70"), "http://[::1]:70");
        assert_eq!(own("10.1.2.3:70"), "http://10.1.2.3:70");
        assert_eq!(own_address(&Listen::Unix("/s".into())).unwrap().to_string(), "unix:/s");
    }
}
