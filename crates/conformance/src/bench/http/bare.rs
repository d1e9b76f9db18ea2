//! The floor of every request: a bare hyper handler with a constant response, in its own process.

use std::convert::Infallible;
use std::io::{self, Write};
use std::process::Command;
use std::sync::OnceLock;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::OUTPUT_BYTES;

/// Environment variable that makes [`init`] run the handler with this response.
const ANSWER_VARIABLE: &str = "SANDCRAB_BENCH_ANSWER";
/// Path whose response has [`OUTPUT_BYTES`] bytes.
pub(crate) const LARGE_PATH: &str = "/large";

/// Returns the command that runs this program as a handler with this response.
pub(crate) fn command(answer: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.env(ANSWER_VARIABLE, answer);
    command
}

/// Runs the handler if this process was started for it.
pub(crate) fn init() {
    if let Ok(answer) = std::env::var(ANSWER_VARIABLE) {
        let served = tokio::runtime::Runtime::new().and_then(|runtime| runtime.block_on(serve(answer)));
        crate::fixture::end(i32::from(served.is_err()));
    }
}

async fn serve(answer: String) -> io::Result<()> {
    let answer = Bytes::from(answer);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = answer.clone();
        let service = service_fn(move |request| std::future::ready(respond(&request, &answer)));
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        while connections.try_join_next().is_some() {}
    }
}

fn respond(request: &Request<Incoming>, answer: &Bytes) -> Result<Response<Full<Bytes>>, Infallible> {
    static LARGE: OnceLock<Bytes> = OnceLock::new();
    let body = match request.uri().path() {
        LARGE_PATH => LARGE.get_or_init(|| vec![b'x'; OUTPUT_BYTES].into()),
        _ => answer,
    };
    let mut response = Response::new(Full::new(body.clone()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
