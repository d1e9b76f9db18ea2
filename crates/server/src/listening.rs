//! [`Listening`]: the socket on which a server hears.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::TcpKeepalive;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixSocket, UnixStream};

use crate::config::Listen;
use crate::server::ServeError;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;
/// The most bytes that wait in the kernel before they are sent.
const MAX_UNSENT_BYTES: u32 = 128 << 10;
/// How long a connection may be silent before the kernel asks the client's whether it is there; how often, and how many
/// times without an answer.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// A socket that clients can connect to.
#[derive(Debug)]
pub struct Listening {
    socket: Socket,
    address: Listen,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// What came in.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listening {
    /// Listens. The socket file of a server that is gone is replaced; that of one that lives is not.
    pub async fn bind(listen: &Listen) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen { listen: listen.to_string(), source };
        match listen {
            Listen::Tcp(address) => {
                let socket = TcpListener::bind(address).await.map_err(failed)?;
                let address = Listen::Tcp(socket.local_addr().map_err(failed)?);
                Ok(Self { socket: Socket::Tcp(socket), address })
            }
            Listen::Unix(path) => {
                check_free(path).await?;
                let socket = bind_private(path).map_err(failed)?;
                Ok(Self { socket: Socket::Unix(socket), address: listen.clone() })
            }
        }
    }

    /// Goes on with a socket that an earlier process has shared. It must be called within a runtime.
    pub fn inherited(descriptor: OwnedFd, listen: &Listen) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen { listen: listen.to_string(), source };
        match listen {
            Listen::Tcp(_) => {
                let socket = std::net::TcpListener::from(descriptor);
                let address = Listen::Tcp(socket.local_addr().map_err(failed)?);
                let socket = TcpListener::from_std(socket).map_err(failed)?;
                Ok(Self { socket: Socket::Tcp(socket), address })
            }
            Listen::Unix(_) => {
                let socket = std::os::unix::net::UnixListener::from(descriptor);
                let socket = UnixListener::from_std(socket).map_err(failed)?;
                Ok(Self { socket: Socket::Unix(socket), address: listen.clone() })
            }
        }
    }

    /// Another descriptor of the same socket: for as long as somebody holds it, who connects waits instead of being
    /// refused.
    pub fn share(&self) -> io::Result<OwnedFd> {
        match &self.socket {
            Socket::Tcp(socket) => socket.as_fd().try_clone_to_owned(),
            Socket::Unix(socket) => socket.as_fd().try_clone_to_owned(),
        }
    }

    /// Where it listens, with the port it got.
    pub fn address(&self) -> &Listen {
        &self.address
    }

    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        match &self.socket {
            Socket::Tcp(socket) => {
                let (stream, _) = socket.accept().await?;
                set_options(&stream);
                Ok(Accepted::Tcp(stream))
            }
            Socket::Unix(socket) => Ok(Accepted::Unix(socket.accept().await?.0)),
        }
    }

    /// Hears no more, and takes its file away.
    pub(crate) fn close(self) {
        if let Listen::Unix(path) = &self.address {
            // If it stays, the next server replaces it.
            drop(std::fs::remove_file(path));
        }
    }
}

/// Sets what a connection needs. What cannot be set only makes it slower, or its end later.
fn set_options(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    // Answers are small, and a client waits for them.
    drop(socket.set_tcp_nodelay(true));
    // The kernel keeps what is under way to the client, and no more: a client that does not read gets no more than this
    // beyond its own buffer.
    drop(socket.set_tcp_notsent_lowat(MAX_UNSENT_BYTES));
    // A client that has vanished without a word is noticed. One that is there but does not read is not cut off.
    let probes = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_INTERVAL);
    drop(socket.set_tcp_keepalive(&probes.with_retries(KEEPALIVE_PROBES)));
}

/// Makes sure that nothing is at the path but what a dead server left.
async fn check_free(path: &Path) -> Result<(), ServeError> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(ServeError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        // Somebody answers, or would if he had the time.
        _ => {
            let source = io::ErrorKind::AddrInUse.into();
            Err(ServeError::Listen { listen: Listen::Unix(path.to_owned()).to_string(), source })
        }
    }
}

/// Binds a socket that is this user's alone from the first moment: Linux takes the file's mode from the unbound
/// socket. It appears under its name by a rename, which replaces what is there.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    File::from(socket.as_fd().try_clone_to_owned()?).set_permissions(Permissions::from_mode(0o600))?;
    let unnamed = beside(path);
    socket.bind(&unnamed)?;
    let listener = socket.listen(BACKLOG).and_then(|listener| {
        std::fs::rename(&unnamed, path)?;
        Ok(listener)
    });
    if listener.is_err() {
        drop(std::fs::remove_file(&unnamed));
    }
    listener
}

/// A name beside the path that nobody else uses, and that is short: an address holds 108 bytes.
fn beside(path: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new(""));
    folder.join(format!(".{:x}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn a_socket_is_private_and_goes_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listening = Listening::bind(&Listen::Unix(path.clone())).await.unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        listening.close();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_dead_servers_socket_is_replaced_and_a_living_ones_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let listen = Listen::Unix(dir.path().join("s"));
        let living = Listening::bind(&listen).await.unwrap();
        let refused = Listening::bind(&listen).await.unwrap_err().to_string();
        assert!(refused.contains("stop the process that uses it"), "{refused}");
        drop(living);
        let next = Listening::bind(&listen).await.unwrap();
        let (accepted, connected) = tokio::join!(next.accept(), UnixStream::connect(dir.path().join("s")));
        assert!(matches!(accepted.unwrap(), Accepted::Unix(_)));
        connected.unwrap();
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "kept").unwrap();
        let refused = Listening::bind(&Listen::Unix(path.clone())).await;
        assert!(matches!(refused, Err(ServeError::NotASocket(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    }

    #[tokio::test]
    async fn who_connects_while_it_changes_hands_waits() {
        let first = Listening::bind(&Listen::Tcp(([127, 0, 0, 1], 0).into())).await.unwrap();
        let Listen::Tcp(address) = first.address().clone() else { unreachable!() };
        let kept = first.share().unwrap();
        drop(first);
        let client = TcpStream::connect(address).await.unwrap();
        let second = Listening::inherited(kept, &Listen::Tcp(address)).unwrap();
        assert_eq!(second.address(), &Listen::Tcp(address));
        let Accepted::Tcp(accepted) = second.accept().await.unwrap() else { unreachable!() };
        assert_eq!(accepted.peer_addr().unwrap(), client.local_addr().unwrap());
    }
}
