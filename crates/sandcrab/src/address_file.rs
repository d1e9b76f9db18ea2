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
/// Its name while no server runs. The file stays, so that the next server can write its address on a full disk.
const SPARE: &str = "address.spare";
/// The most bytes of it.
const MAX_BYTES: u64 = 64 << 10;

/// The file; clients do not find it any more after drop.
#[derive(Debug)]
pub(crate) struct AddressFile(TrustedDir);

impl AddressFile {
    /// Writes it atomically; on a full disk in place of an earlier one.
    pub(crate) fn write(state_dir: &Path, listen: &Listen) -> io::Result<Self> {
        let address = match listen {
            Listen::Tcp(address) => Listen::Tcp(reachable(*address)),
            Listen::Unix(path) => Listen::Unix(std::path::absolute(path)?),
        };
        let dir = TrustedDir::open(state_dir)?;
        let text = format!("{address}\n");
        if let Err(error) = dir.replace(NAME, text.as_bytes()) {
            Self::overwrite(&dir, text.as_bytes()).map_err(|_| error)?;
        }
        Ok(Self(dir))
    }

    /// Overwrites the file of a server that was killed, or that of one that has stopped.
    fn overwrite(dir: &TrustedDir, text: &[u8]) -> Result<(), TrustError> {
        match dir.overwrite(NAME, text) {
            Err(error) if error.is_not_found() => {
                dir.overwrite(SPARE, text)?;
                dir.rename(SPARE, NAME)
            }
            overwritten => overwritten,
        }
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
        if self.0.rename(NAME, SPARE).is_err() {
            // It was removed with its directory.
            drop(self.0.remove(NAME));
        }
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
    use std::fs;
    use std::io::Write;
    use std::process::Command;

    use super::*;

    /// A full file system of its own, for one test.
    struct FullDisk(tempfile::TempDir);

    impl FullDisk {
        /// Needs root.
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", "size=256k,mode=700", "sandcrab-test"]).arg(dir.path());
            assert!(
                mount.status().unwrap().success(),
                "mounting needs root, as on the machines that run the tests"
            );
            Self(dir)
        }

        fn fill(&self) {
            let mut ballast = fs::File::create(self.0.path().join("ballast")).unwrap();
            while ballast.write_all(&[1; 4096]).is_ok() {}
        }
    }

    impl Drop for FullDisk {
        fn drop(&mut self) {
            // Before its directory is removed; it must not be kept by a descriptor that a failed test left open.
            drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
        }
    }

    #[test]
    fn root_address_is_written_on_a_full_disk() {
        let disk = FullDisk::new();
        let state = disk.0.path();
        let read = || AddressFile::read(state).unwrap().map(|address| address.to_string());
        let unix = |path: &str| Listen::Unix(path.into());
        drop(AddressFile::write(state, &unix("/run/first")).unwrap());
        disk.fill();
        assert_eq!(read(), None);
        let file = AddressFile::write(state, &unix("/run/second")).unwrap();
        assert_eq!(read().as_deref(), Some("unix:/run/second"));
        // The next server after one that was killed.
        std::mem::forget(file);
        let file = AddressFile::write(state, &unix("/run/3")).unwrap();
        assert_eq!(read().as_deref(), Some("unix:/run/3"));
        drop(file);
        assert_eq!(read(), None);
    }

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
