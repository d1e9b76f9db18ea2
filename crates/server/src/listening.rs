//! [`Listening`]: the listening socket of a server.

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

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// Maximum number of unsent bytes in the kernel.
const MAX_UNSENT_BYTES: u32 = 128 << 10;
/// Time without data before the kernel probes the client, the interval of probes, and their maximum number without an
/// answer.
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

/// An accepted connection.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listening {
    /// Listens. The socket file of a dead server is replaced; that of a live one is not.
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

    /// Continues with a socket of an earlier process. It must be called within a runtime.
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

    /// Another descriptor of the same socket: while it is open, new connections wait instead of being refused.
    pub fn share(&self) -> io::Result<OwnedFd> {
        match &self.socket {
            Socket::Tcp(socket) => socket.as_fd().try_clone_to_owned(),
            Socket::Unix(socket) => socket.as_fd().try_clone_to_owned(),
        }
    }

    /// The address, with the actual port.
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

    /// Stops listening, and removes its file.
    pub(crate) fn close(self) {
        if let Listen::Unix(path) = &self.address {
            // If it remains, the next server replaces it.
            drop(std::fs::remove_file(path));
        }
    }
}

/// Sets the options of a connection. A failure only makes it slower, or its end later.
fn set_options(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    // Responses are small, and a client waits for them.
    drop(socket.set_tcp_nodelay(true));
    // The kernel buffers only data in transit: for a client that does not read, not more than this besides its own
    // buffer.
    drop(socket.set_tcp_notsent_lowat(MAX_UNSENT_BYTES));
    // Detects a client that has vanished. A client that is alive but does not read is not disconnected.
    let probes = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_INTERVAL);
    drop(socket.set_tcp_keepalive(&probes.with_retries(KEEPALIVE_PROBES)));
}

/// Checks that the path contains at most the socket of a dead server.
async fn check_free(path: &Path) -> Result<(), ServeError> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(ServeError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        // A server answers, or is too busy to.
        _ => {
            let source = io::ErrorKind::AddrInUse.into();
            Err(ServeError::Listen { listen: Listen::Unix(path.to_owned()).to_string(), source })
        }
    }
}

/// Binds a socket that is private from the first moment: Linux takes the file's mode from the unbound socket. It
/// appears under its name by a rename, which replaces an existing file.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    File::from(socket.as_fd().try_clone_to_owned()?).set_permissions(Permissions::from_mode(0o600))?;
    let unnamed = read_blocking(path);
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

/// A unique name in the same directory, which is short: an address has at most 108 bytes.
fn read_blocking(path: &Path) -> PathBuf {
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
    async fn socket_is_private_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listening = Listening::bind(&Listen::Unix(path.clone())).await.unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        listening.close();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn only_sockets_of_dead_servers_are_replaced() {
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
    async fn other_files_are_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "kept").unwrap();
        let refused = Listening::bind(&Listen::Unix(path.clone())).await;
        assert!(matches!(refused, Err(ServeError::NotASocket(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    }

    #[tokio::test]
    async fn clients_wait_while_the_socket_is_handed_over() {
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
