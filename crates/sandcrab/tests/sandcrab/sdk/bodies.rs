//! Bodies that the server takes slowly, and tokens.

use std::net::SocketAddr;
use std::os::fd::RawFd;

use rustix::net::sockopt::tcp_user_timeout;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use sandcrab_client::{Client, ClientError, Sandbox};
use tokio::net::TcpListener;

use crate::support::TestServer;

/// The time in milliseconds after which the kernel ends each connection of this process to an address, if data waits; 0 if it
/// does not.
fn user_timeouts(peer: SocketAddr) -> Vec<u32> {
    let this = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let fds = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok());
    // Copies of the descriptors.
    let fds = fds.filter_map(|fd| pidfd_getfd(&this, fd, PidfdGetfdFlags::empty()).ok());
    let connected = fds.filter(|fd| {
        let address = rustix::net::getpeername(fd).ok().flatten();
        address.is_some_and(|address| SocketAddr::try_from(address) == Ok(peer))
    });
    connected.map(|fd| tcp_user_timeout(&fd).unwrap()).collect()
}

/// A process that does not read its input for 30 s is not a lost connection: the server answers that it has no space.
#[tokio::test]
async fn input_may_wait_for_a_process() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = Client::connect(&format!("http://{address}"), None).unwrap();
    let ping = client.ping();
    let accepted = async { listener.accept().await.unwrap().0 };
    tokio::pin!(ping);
    let ordinary = tokio::select! { _ = &mut ping => unreachable!(), ordinary = accepted => ordinary };
    let timeouts = user_timeouts(address);
    assert!(timeouts.len() == 1 && timeouts[0] > 0, "{timeouts:?}");
    let writing = client.write_stdin("p", vec![0; 16 << 20], false);
    let accepted = async { listener.accept().await.unwrap().0 };
    tokio::pin!(writing);
    let patient = tokio::select! { _ = &mut writing => unreachable!(), patient = accepted => patient };
    let mut timeouts = user_timeouts(address);
    timeouts.sort_unstable();
    assert!(timeouts.len() == 2 && timeouts[0] == 0 && timeouts[1] > 0, "{timeouts:?}");
    drop((ordinary, patient));
}

#[tokio::test]
async fn white_space_around_a_token_is_left_out() {
    let server = TestServer::new();
    let url = format!("http://{}", server.address());
    let connect = |token: &str| Sandbox::connect(&url, Some(token));
    assert!(connect(&format!(" {}\r\n", server.token())).unwrap().version().await.is_ok());
    for token in ["sec\nret", "sec ret", "secrét"] {
        let refused = connect(token).err();
        assert!(matches!(refused, Some(ClientError::Token)), "{token:?}: {refused:?}");
        assert!(!refused.unwrap().to_string().contains("sec"));
    }
}
