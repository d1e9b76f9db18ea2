//! [`Embedded`]: a server in this process, for one command.
//!
//! It listens on a socket in a folder of its own that only this user can enter, so that it needs no token; state and
//! socket are removed afterwards, and whatever still runs ends with them.

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
/// How long what still runs has after SIGTERM.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// How long the last answers may take.
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
    /// Starts it; commands run in the current folder.
    pub(crate) async fn start() -> Result<Self, Failure> {
        let private = std::fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("sandcrab-").permissions(private).tempdir();
        let folder = folder.map_err(Failure::embedded)?;
        let socket = folder.path().join("socket");
        let mut config = ServerConfig::new(folder.path().join("state"), "");
        config.listen = Listen::Unix(socket.clone());
        config.access.token = None;
        config.drain_window = DRAIN_WINDOW;
        // There will be one command and no session: a plain shell is as good, and need not be tried out first.
        config.engine.ready_shells = 0;
        config.engine.shell_driver = ShellDriver::Portable;
        let server = Server::start(config).await.map_err(Failure::embedded)?;
        let engine = server.engine().clone();
        let (stop, stopped) = oneshot::channel();
        let mut served = JoinSet::new();
        served.spawn(server.run(async {
            // Told, or forgotten: both mean that it is over.
            drop(stopped.await);
        }));
        let client = Client::connect_to(Address::unix(socket), None)?;
        Ok(Self { client, stop, engine, served, folder })
    }

    /// A client of it.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Stops it, ends what still runs, and removes what it kept.
    pub(crate) async fn stop(self) {
        let Self { client, stop, engine, mut served, folder } = self;
        engine.stop_all(SIGTERM, STOP_GRACE).await;
        drop(engine);
        // Its connections would be waited for.
        drop(client);
        // It may have stopped by itself.
        let _ = stop.send(());
        while served.join_next().await.is_some() {}
        // A folder that cannot be removed is one of many in a folder that is emptied from time to time.
        drop(folder.close());
    }
}
