//! [`Embedded`]: a temporary server in this process, for one command.
//!
//! It listens on a socket in a private directory that only this user can enter, so it needs no token. State and socket are
//! removed afterwards, and processes that still run are ended.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use sandcrab_client::{Address, Client};
use sandcrab_engine::{Engine, ShellDriver};
use sandcrab_server::{Listen, ServeError, Server, ServerConfig};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::failure::Failure;

const SIGTERM: i32 = 15;
/// Grace period between SIGTERM and SIGKILL for processes that still run.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// How long the last responses may take.
const DRAIN_WINDOW: Duration = Duration::from_secs(1);

/// A server in this process.
#[derive(Debug)]
pub(crate) struct Embedded {
    client: Client,
    stop: oneshot::Sender<()>,
    engine: Engine,
    served: JoinSet<Result<(), ServeError>>,
    folder: TempDir,
}

impl Embedded {
    /// Starts it; commands run in the current directory.
    pub(crate) async fn start() -> Result<Self, Failure> {
        let private = std::fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("sandcrab-").permissions(private).tempdir();
        let folder = folder.map_err(Failure::embedded)?;
        let socket = folder.path().join("socket");
        let mut config = ServerConfig::new(folder.path().join("state"), "");
        config.listen = Listen::Unix(socket.clone());
        config.access.token = None;
        config.drain_window = DRAIN_WINDOW;
        // One command and no session: the portable driver suffices, and needs no check at start.
        config.engine.ready_shells = 0;
        // If this process is killed, nothing is left.
        config.engine.temporary = Some(folder.path().to_owned());
        config.engine.shell_driver = ShellDriver::Portable;
        let server = Server::start(config).await.map_err(Failure::embedded)?;
        let engine = server.engine().clone();
        let (stop, stopped) = oneshot::channel();
        let mut served = JoinSet::new();
        served.spawn(server.run(async {
            // The sender was used or dropped: both end the server.
            drop(stopped.await);
        }));
        let client = Client::connect_to(Address::unix(socket), None)?;
        Ok(Self { client, stop, engine, served, folder })
    }

    /// A client of it.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Stops it, ends processes that still run, and removes its files.
    pub(crate) async fn stop(self) {
        let Self { client, stop, engine, mut served, folder } = self;
        engine.stop_all(SIGTERM, STOP_GRACE).await;
        // Open connections would delay the end.
        drop(client);
        // It may have stopped by itself.
        let _ = stop.send(());
        while served.join_next().await.is_some() {}
        // A directory that cannot be removed is left to the cleaning of the temporary directory. The engine exits later,
        // so that its zygote does not remove the same directory at the same time.
        drop(folder.close());
        drop(engine);
    }
}
