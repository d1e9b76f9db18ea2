//! Serves the API without the parent process that would restart it, so that a test can kill and restart it.
//!
//! `serves STATE_DIR LISTEN [SETTING=NUMBER]... [run-as=USER] [compat=sandbox-sdk]`. The token is in the
//! environment variable `SANDCRAB_TOKEN`. It prints its base URL. On SIGTERM it ends everything it runs and
//! exits.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use sandcrab_engine::User;
use sandcrab_server::{Compat, Listen, Server, ServerConfig};
use tokio::signal::unix::{SignalKind, signal};

/// Grace period of executions when the server stops.
const STOP_GRACE: Duration = Duration::ZERO;

fn main() -> Result<(), Box<dyn Error>> {
    // First, because the engine starts this program again as its zygote.
    sandcrab_engine::init();
    let config = config(std::env::args().skip(1))?;
    tokio::runtime::Runtime::new()?.block_on(async {
        // Before it says that it listens: a test may end it at once.
        let mut stop = signal(SignalKind::terminate())?;
        let server = Server::start(config).await?;
        let mut stdout = std::io::stdout();
        writeln!(stdout, "{}", server.address())?;
        stdout.flush()?;
        server.run(async move { stop.recv().await.unwrap_or_default() }).await?;
        Ok(())
    })
}

fn config(mut words: impl Iterator<Item = String>) -> Result<ServerConfig, Box<dyn Error>> {
    let (Some(state_dir), Some(listen)) = (words.next(), words.next()) else {
        return Err("give a state directory and an address".into());
    };
    let mut config = ServerConfig::new(state_dir, std::env::var("SANDCRAB_TOKEN")?);
    config.listen = Listen::Tcp(listen.parse()?);
    config.stop_executions = Some(STOP_GRACE);
    for word in words {
        let (name, value) = word.split_once('=').ok_or("a setting is name=number")?;
        if name == "run-as" {
            // A directory that every user can enter.
            config.engine.cwd = "/".into();
            config.engine.run_as(User::find(value)?);
            continue;
        }
        if name == "compat" {
            config.compat = Some(Compat::sandbox_sdk_from(|name| std::env::var_os(name)));
            continue;
        }
        let number: usize = value.parse()?;
        match name {
            "body-bytes" => config.limits.body_bytes = number,
            "held-body-bytes" => config.limits.held_body_bytes = number,
            "body-timeout-ms" => config.limits.body_timeout = Duration::from_millis(number as u64),
            "max-executions" => config.engine.max_executions = number,
            "max-sessions" => config.engine.max_sessions = number,
            "journal-bytes" => config.engine.journal_bytes = number as u64,
            "retention-bytes" => config.engine.retention.max_total_bytes = number as u64,
            "connections" => config.limits.connections = number,
            "requests-per-socket" => config.limits.requests_per_socket = number,
            "socket-ping-ms" => config.limits.socket_ping_after = Duration::from_millis(number as u64),
            "drain-ms" => config.drain_window = Duration::from_millis(number as u64),
            "descriptors" => {
                // Both limits: the engine raises the soft limit to the hard one.
                let limit = Some(number as u64);
                setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit })?;
            }
            "keep-executions" => config.stop_executions = None,
            other => return Err(format!("there is no setting {other}").into()),
        }
    }
    Ok(config)
}
