//! Proxies between the SDK and a server, which fail in chosen ways.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

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

/// Forwards connections; the first ones have a fault.
pub(super) async fn faulty_proxy(to: SocketAddr, fault: Fault, count: usize) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        let answered = Arc::new(Notify::new());
        let mut number = 0;
        while let Ok((client, _)) = listener.accept().await {
            number += 1;
            let fault = (number <= count).then(|| fault.clone());
            connections.spawn(pass(client, to, fault, Arc::clone(&answered)));
        }
    });
    (address, tasks)
}

async fn pass(mut client: TcpStream, to: SocketAddr, fault: Option<Fault>, answered: Arc<Notify>) {
    let mut server = TcpStream::connect(to).await.unwrap();
    let Some(fault) = fault else {
        // The first response is passed before it is noted.
        let request = request(&mut client).await;
        server.write_all(&request).await.unwrap();
        let mut response = vec![0; 1 << 16];
        let length = server.read(&mut response).await.unwrap();
        client.write_all(&response[..length]).await.unwrap();
        answered.notify_one();
        drop(copy_bidirectional(&mut client, &mut server).await);
        return;
    };
    let request = request(&mut client).await;
    if matches!(fault, Fault::LateRequest) {
        answered.notified().await;
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
