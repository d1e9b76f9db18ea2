//! Listening TCP sockets, from `/proc/net` and the open files of processes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str;

use rustix::process::Pid;

use super::read_all;

/// A TCP socket on which a program listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListeningSocket {
    pub(crate) address: SocketAddr,
    pub(crate) inode: u64,
}

/// The state `TCP_LISTEN` in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// The listening TCP sockets of this network namespace.
pub(crate) fn listening_sockets() -> Vec<ListeningSocket> {
    let files = ["/proc/net/tcp", "/proc/net/tcp6"];
    let texts = files.iter().filter_map(|file| String::from_utf8(read_all(file).ok()?).ok());
    texts.flat_map(|text| text.lines().skip(1).filter_map(parse).collect::<Vec<_>>()).collect()
}

/// Parses a line: `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …`.
fn parse(line: &str) -> Option<ListeningSocket> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (address, port) = fields.next()?.split_once(':')?;
    let is_listening = fields.nth(1)? == LISTEN;
    let inode = fields.nth(5)?.parse().ok()?;
    let port = u16::from_str_radix(port, 16).ok()?;
    is_listening.then_some(ListeningSocket { address: SocketAddr::new(ip(address)?, port), inode })
}

/// An address as the kernel prints it: words of 32 bits in the byte order of the machine.
fn ip(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    match hex.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?);
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

/// The inodes of the sockets that a process has open. Empty if it has ended, or may not be seen.
pub(crate) fn sockets_of(pid: Pid) -> Vec<u64> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    let inode = |entry: std::io::Result<std::fs::DirEntry>| {
        let target = std::fs::read_link(entry.ok()?.path()).ok()?;
        str::from_utf8(target.as_os_str().as_encoded_bytes())
            .ok()?
            .strip_prefix("socket:[")?
            .strip_suffix(']')?
            .parse()
            .ok()
    };
    entries.filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn own_listeners_are_found() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let address = listener.local_addr().unwrap();
            let found = listening_sockets().into_iter().find(|socket| socket.address == address).unwrap();
            assert!(sockets_of(rustix::process::getpid()).contains(&found.inode));
            drop(listener);
            assert!(listening_sockets().iter().all(|socket| socket.inode != found.inode));
        }
    }

    #[test]
    fn lines_that_are_not_listeners_are_skipped() {
        let line =
            "  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1";
        let address = "127.0.0.1:8080".parse().unwrap();
        let expected = cfg!(target_endian = "little").then_some(ListeningSocket { address, inode: 77 });
        assert!(expected.is_none() || parse(line) == expected);
        assert_eq!(parse(&line.replace(" 0A ", " 01 ")), None);
        for cut in 0..line.len() {
            let _ = parse(&line[..cut]);
        }
    }
}
