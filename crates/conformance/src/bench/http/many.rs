//! Many concurrent sessions, each on its own connection, compared with the engine alone.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sandcrab_engine::Engine;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::connection::Head;
use super::post;
use super::program::Server;
use crate::bench::figures::{COMMANDS_EACH, MANY_SESSIONS, Sessions};
use crate::bench::{FigureError, FigureLimit, Measure, Row, Table};

/// Number of rounds in which all sessions run their commands. The best counts.
const ROUNDS: usize = 8;
/// Maximum size of a response.
const MAX_ANSWER_BYTES: usize = 8 << 10;

/// Measures engine and server in turns, and adds a row for each.
#[expect(clippy::cast_precision_loss, reason = "figures are shown with three digits")]
pub(super) fn push(
    server: &Server,
    table: &mut Table,
    progress: &mut dyn FnMut(&str),
) -> Result<(), FigureError> {
    progress("many sessions over HTTP, and through the engine alone");
    let directory = tempfile::tempdir()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let engine = runtime.block_on(Engine::open(sandcrab_engine::EngineConfig::new(directory.path())))?;
    // The client has one thread, so that the server gets the other cores.
    let client = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut clients = Vec::with_capacity(MANY_SESSIONS);
    for _ in 0..MANY_SESSIONS {
        let body = format!(r#"{{"command":"true","sessionId":"{}"}}"#, server.new_session()?);
        let request: Vec<u8> = post("/api/execute", &body);
        clients.push((client.block_on(connect(server.address()))?, request));
    }
    let measured = runtime.block_on(async {
        let sessions = Sessions::create(&engine).await?;
        let mut best = [Duration::MAX; 2];
        for _ in 0..ROUNDS {
            let through_engine = sessions.clone();
            best[0] = best[0].min(tokio::spawn(async move { through_engine.run_all().await }).await??);
            (best[1], clients) = tokio::task::block_in_place(|| {
                let start = Instant::now();
                let clients = client.block_on(run_all(clients))?;
                Ok::<_, FigureError>((best[1].min(start.elapsed()), clients))
            })?;
        }
        Ok::<_, FigureError>(best)
    });
    runtime.block_on(crate::bench::delete_everything(&engine));
    let rate =
        |time: Duration| Measure::PerSecond((MANY_SESSIONS * COMMANDS_EACH) as f64 / time.as_secs_f64());
    let [through_engine, over_http] = measured?.map(rate);
    table.push(Row::new("floor: 100 sessions × 20 commands through the engine alone", through_engine));
    table.push(
        Row::new("100 sessions × 20 commands, to the engine alone", over_http)
            .floor(through_engine)
            .limit(FigureLimit::AtLeastTimesFloor(0.6)),
    );
    table.push(
        Row::new("100 sessions × 20 commands over HTTP", over_http)
            .limit(FigureLimit::AtLeast(Measure::PerSecond(10_000.0))),
    );
    Ok(())
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A connection and its request.
type Client = (TcpStream, Vec<u8>);

async fn run_all(clients: Vec<Client>) -> Result<Vec<Client>, FigureError> {
    let mut tasks = JoinSet::new();
    for (mut stream, request) in clients {
        tasks.spawn(async move {
            for _ in 0..COMMANDS_EACH {
                ask(&mut stream, &request).await?;
            }
            Ok::<_, io::Error>((stream, request))
        });
    }
    let mut clients = Vec::with_capacity(MANY_SESSIONS);
    while let Some(client) = tasks.join_next().await {
        clients.push(client??);
    }
    Ok(clients)
}

async fn ask(stream: &mut TcpStream, request: &[u8]) -> io::Result<()> {
    stream.write_all(request).await?;
    let mut answer = [0; MAX_ANSWER_BYTES];
    let mut end = 0;
    while Head::whole(&answer[..end])?.is_none() {
        match stream.read(&mut answer[end..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => end += count,
        }
    }
    Ok(())
}
