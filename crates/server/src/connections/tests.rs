//! Connections over real sockets, with routes that wait for a signal of the test.

use std::net::SocketAddr;

use axum::routing::get;
use axum::{Extension, Router};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use super::*;
use crate::config::Listen;

/// How long something may take that happens at once on an idle machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(600);

/// A server whose `/slow` answers when `go` says so, and `/quick` at once.
struct Scene {
    address: SocketAddr,
    go: Arc<Notify>,
    open: Arc<AtomicUsize>,
    stopping: Stopping,
    stop: Option<oneshot::Sender<()>>,
    stop_now: Option<oneshot::Sender<()>>,
    at_once: Arc<AtomicBool>,
    server: JoinHandle<()>,
}

impl Scene {
    async fn new(most: usize, window: Duration) -> Self {
        let listening = Listening::bind(&Listen::Tcp(([127, 0, 0, 1], 0).into())).await.unwrap();
        let Listen::Tcp(address) = listening.address().clone() else { unreachable!() };
        let (go, open) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let stopping = Stopping::default();
        let waits = Arc::clone(&go);
        let slow = move |Extension(admission): Extension<Arc<Admission>>| async move {
            assert!(admission.admit());
            waits.notified().await;
            "slow"
        };
        let knows = stopping.clone();
        let quick = move |Extension(admission): Extension<Arc<Admission>>| async move {
            assert!(admission.admit());
            if knows.is_stopping() { "stopping" } else { "quick" }
        };
        let router = Router::new().route("/slow", get(slow)).route("/quick", get(quick));
        let clients = Connections::new(
            Dispatch::new(router),
            most,
            Arc::clone(&open),
            Arc::default(),
            stopping.clone(),
        );
        let ((stop, stopped), (stop_now, stops_now)) = (oneshot::channel(), oneshot::channel());
        let at_once = Arc::new(AtomicBool::new(false));
        let was_at_once = Arc::clone(&at_once);
        let drain = Drain {
            first: async {},
            window,
            at_once: async move { was_at_once.store(true, Ordering::Relaxed) },
        };
        let stop_wish = async move { drop::<Result<(), _>>(stopped.await) };
        let hurry_wish = async move {
            if stops_now.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let server = tokio::spawn(async move { clients.run(listening, stop_wish, drain, hurry_wish).await });
        let (stop, stop_now) = (Some(stop), Some(stop_now));
        Self { address, go, open, stopping, stop, stop_now, at_once, server }
    }

    async fn ask(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        stream
    }

    async fn stop(&mut self) {
        drop(self.stop.take());
        self.stopping.begun().await;
    }

    async fn is_open(&self, count: usize) {
        let counted = async {
            while self.open.load(Ordering::Relaxed) != count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(TEST_TIMEOUT, counted).await.unwrap();
    }

    async fn ended(self) {
        timeout(TEST_TIMEOUT, self.server).await.unwrap().unwrap();
        assert_eq!(self.open.load(Ordering::Relaxed), 0);
    }
}

/// Everything until the server closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // A connection that is cut off may be reset.
    drop(timeout(TEST_TIMEOUT, stream.read_to_end(&mut text)).await.unwrap());
    String::from_utf8_lossy(&text).into_owned()
}

/// One answer with a short body, which ends with `word`.
async fn answer(stream: &mut TcpStream, word: &str) {
    let mut text = Vec::new();
    while !text.ends_with(word.as_bytes()) {
        let n = timeout(TEST_TIMEOUT, stream.read_buf(&mut text)).await.unwrap().unwrap();
        assert!(n > 0, "closed after {:?}", String::from_utf8_lossy(&text));
    }
    assert!(text.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn running_requests_finish_and_idle_connections_close() {
    let mut scene = Scene::new(100, LONG).await;
    let mut idle = scene.ask("/quick").await;
    answer(&mut idle, "quick").await;
    let silent = TcpStream::connect(scene.address).await.unwrap();
    let mut busy = scene.ask("/slow").await;
    scene.is_open(3).await;
    scene.stop().await;
    assert_eq!(rest(&mut idle).await, "");
    drop(silent);
    scene.is_open(1).await;
    scene.go.notify_one();
    assert!(rest(&mut busy).await.ends_with("slow"));
    scene.ended().await;
}

#[tokio::test]
async fn new_connections_get_one_response_during_drain() {
    let mut scene = Scene::new(100, LONG).await;
    let mut busy = scene.ask("/slow").await;
    scene.is_open(1).await;
    scene.stop().await;
    let mut late = scene.ask("/quick").await;
    let text = rest(&mut late).await;
    assert!(text.contains("connection: close") && text.ends_with("stopping"), "{text}");
    scene.go.notify_one();
    assert!(rest(&mut busy).await.ends_with("slow"));
    let address = scene.address;
    scene.ended().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn requests_are_cut_off_after_the_drain_window() {
    let mut scene = Scene::new(100, Duration::from_millis(50)).await;
    let mut busy = scene.ask("/slow").await;
    scene.is_open(1).await;
    scene.stop().await;
    assert_eq!(rest(&mut busy).await, "");
    assert!(!scene.at_once.load(Ordering::Relaxed));
    scene.ended().await;
}

#[tokio::test]
async fn second_signal_does_not_wait() {
    let mut scene = Scene::new(100, LONG).await;
    let mut busy = scene.ask("/slow").await;
    scene.is_open(1).await;
    scene.stop().await;
    scene.stop_now.take().unwrap().send(()).unwrap();
    assert_eq!(rest(&mut busy).await, "");
    let at_once = Arc::clone(&scene.at_once);
    scene.ended().await;
    assert!(at_once.load(Ordering::Relaxed));
}

#[tokio::test]
async fn clients_wait_for_a_slot() {
    let scene = Scene::new(2, LONG).await;
    let mut first = scene.ask("/quick").await;
    answer(&mut first, "quick").await;
    let mut second = scene.ask("/quick").await;
    answer(&mut second, "quick").await;
    let mut third = scene.ask("/quick").await;
    let early = timeout(Duration::from_millis(100), third.read_u8()).await;
    assert!(early.is_err(), "two places are taken");
    drop(first);
    answer(&mut third, "quick").await;
    scene.is_open(2).await;
    scene.server.abort();
}

#[tokio::test]
async fn http2_with_prior_knowledge() {
    let mut scene = Scene::new(2, LONG).await;
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    // The preface and an empty SETTINGS frame; the server's own first frame is SETTINGS, too.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut head = [0; 9];
    timeout(TEST_TIMEOUT, stream.read_exact(&mut head)).await.unwrap().unwrap();
    assert_eq!(head[3], 4);
    scene.stop().await;
    // It has never asked for anything.
    rest(&mut stream).await;
    scene.ended().await;
}

#[tokio::test(start_paused = true)]
async fn connections_without_a_request_are_closed() {
    let scene = Scene::new(2, LONG).await;
    // Half of what may become either version.
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    stream.write_all(b"P").await.unwrap();
    while scene.open.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(FIRST_REQUEST_TIME).await;
    let mut text = Vec::new();
    drop(stream.read_to_end(&mut text).await);
    assert!(text.is_empty());
    scene.server.abort();
}
