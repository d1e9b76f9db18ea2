//! [`AddressFile`]: the file `address` in a state directory, with the address of its server while it runs.
//!
//! The command line finds the default server with it. It sends the token of the state directory to no other address: the
//! process that listens on the default port may belong to another user.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use sandcrab_client::Address;
use sandcrab_engine::trusted::{Secrecy, TrustError, TrustedDir, read_trusted};
use sandcrab_server::Listen;

const NAME: &str = "address";
/// The most bytes of it.
const MAX_BYTES: u64 = 64 << 10;

/// The file; removed on drop.
#[derive(Debug)]
pub(crate) struct AddressFile(TrustedDir);

impl AddressFile {
    /// Writes it atomically.
    pub(crate) fn write(state_dir: &Path, listen: &Listen) -> io::Result<Self> {
        let address = match listen {
            Listen::Tcp(address) => Listen::Tcp(reachable(*address)),
            Listen::Unix(path) => Listen::Unix(std::path::absolute(path)?),
        };
        let dir = TrustedDir::open(state_dir)?;
        dir.replace(NAME, format!("{address}\n").as_bytes())?;
        Ok(Self(dir))
    }

    /// The address of the server of a state directory, if it runs. A file that another user can change is refused: the token
    /// would be sent to a server of that user's choice.
    pub(crate) fn read(state_dir: &Path) -> Result<Option<Address>, TrustError> {
        let path = state_dir.join(NAME);
        // A directory that this user cannot enter has no server of this user.
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        let text = match read_trusted(&path, Secrecy::Public, MAX_BYTES) {
            Err(error) if error.is_not_found() => return Ok(None),
            text => text?,
        };
        Ok(str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok()))
    }
}

impl Drop for AddressFile {
    fn drop(&mut self) {
        // It was removed with its directory.
        drop(self.0.remove(NAME));
    }
}

/// The address to connect to, for an address to listen on.
pub(crate) fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_read_until_the_file_is_removed() {
        let state = tempfile::tempdir().unwrap();
        let read = || AddressFile::read(state.path()).unwrap().map(|address| address.to_string());
        assert_eq!(read(), None);
        let file = AddressFile::write(state.path(), &Listen::Tcp("0.0.0.0:7070".parse().unwrap())).unwrap();
        assert_eq!(read().as_deref(), Some("http://127.0.0.1:7070"));
        drop(file);
        assert_eq!(read(), None);
        let _file = AddressFile::write(state.path(), &Listen::Unix("/run/s".into())).unwrap();
        assert_eq!(read().as_deref(), Some("unix:/run/s"));
    }
}
