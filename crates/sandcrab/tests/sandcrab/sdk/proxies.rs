//! Proxies between the SDK and a server, which fail in chosen ways.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sandcrab_client::Sandbox;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::support::TestServer;

/// What happens to the first connections.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// The request arrives, and the response does not.
    NoResponse,
    /// The request arrives after another connection got a response.
    LateRequest,
    /// The request arrives, and this is the response.
    Answers(String),
}

/// What a proxy has done.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The proxy has a whole request on a connection with a fault.
    pub(super) request: Notify,
    /// Another connection got a response.
    response: Notify,
}

/// A proxy, until it is dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    pub(super) seen: Arc<Seen>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// A sandbox behind the proxy.
    pub(super) fn sandbox(&self, server: &TestServer) -> Sandbox {
        Sandbox::connect(&format!("http://{}", self.address), Some(server.token())).unwrap()
    }

    async fn start<C: Future<Output = ()> + Send + 'static>(
        mut pass: impl FnMut(TcpStream, Arc<Seen>) -> C + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&seen);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass(client, Arc::clone(&shared)));
            }
        });
        Self { address, seen, _tasks: tasks }
    }
}

/// Forwards connections; the first ones have a fault.
pub(super) async fn faulty_proxy(to: SocketAddr, fault: Fault, count: usize) -> Proxy {
    let mut number = 0;
    Proxy::start(move |client, seen| {
        number += 1;
        pass(client, to, (number <= count).then(|| fault.clone()), seen)
    })
    .await
}

/// A gateway that answers the first requests to a path by itself after a time, and passes all others, one on a connection.
pub(super) async fn slow_gateway(
    to: SocketAddr,
    status: &'static str,
    after: Duration,
    path: &'static str,
    count: usize,
) -> Proxy {
    let number = Arc::new(AtomicUsize::new(0));
    Proxy::start(move |mut client, _| {
        let number = Arc::clone(&number);
        async move {
            let request = request(&mut client).await;
            if String::from_utf8_lossy(&request).lines().next().is_some_and(|line| line.contains(path))
                && number.fetch_add(1, Ordering::Relaxed) < count
            {
                tokio::time::sleep(after).await;
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                // The client may have left.
                drop(client.write_all(answer.as_bytes()).await);
                return;
            }
            let mut server = TcpStream::connect(to).await.unwrap();
            server.write_all(&request).await.unwrap();
            let mut response = vec![0; 1 << 16];
            let length = server.read(&mut response).await.unwrap();
            client.write_all(&response[..length]).await.unwrap();
        }
    })
    .await
}

async fn pass(mut client: TcpStream, to: SocketAddr, fault: Option<Fault>, seen: Arc<Seen>) {
    let mut server = TcpStream::connect(to).await.unwrap();
    let Some(fault) = fault else {
        // The first response is passed before it is noted.
        let request = request(&mut client).await;
        server.write_all(&request).await.unwrap();
        let mut response = vec![0; 1 << 16];
        let length = server.read(&mut response).await.unwrap();
        client.write_all(&response[..length]).await.unwrap();
        seen.response.notify_one();
        drop(copy_bidirectional(&mut client, &mut server).await);
        return;
    };
    let request = request(&mut client).await;
    seen.request.notify_one();
    if matches!(fault, Fault::LateRequest) {
        seen.response.notified().await;
    }
    server.write_all(&request).await.unwrap();
    if let Fault::Answers(response) = fault {
        // The server has begun to respond, so the request has arrived.
        server.read_u8().await.unwrap();
        client.write_all(response.as_bytes()).await.unwrap();
        return;
    }
    std::future::pending::<()>().await;
}

/// The bytes of a request.
async fn request(client: &mut TcpStream) -> Vec<u8> {
    let mut request = Vec::new();
    loop {
        if client.read_buf(&mut request).await.unwrap() == 0 {
            return request;
        }
        let text = String::from_utf8_lossy(&request).to_ascii_lowercase();
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
        let body: usize = length.map_or(0, |length| length.trim().parse().unwrap());
        if request.len() >= head.len() + 4 + body {
            return request;
        }
    }
}
