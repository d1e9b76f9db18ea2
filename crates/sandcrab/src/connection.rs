//! [`Connection`]: finds the server and its token.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sandcrab_client::{Address, Client, MAX_CONNECTIONS};
use sandcrab_engine::trusted::{Secrecy, read_trusted};

use crate::address_file::AddressFile;
use crate::default_paths;
use crate::failure::Failure;

/// The variable that holds a token.
pub(crate) const TOKEN_VARIABLE: &str = "SANDCRAB_TOKEN";
/// Default address of a server.
const DEFAULT_ADDRESS: &str = "http://127.0.0.1:7070";
/// The variable that overrides the default state directory.
const STATE_DIR_VARIABLE: &str = "SANDCRAB_STATE_DIR";
/// The file in the state directory that holds the token.
const TOKEN_FILE: &str = "token";
/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// Timeout of the check whether a server is running.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// How the server is found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connection<'a> {
    /// The address, if one was given.
    pub(crate) url: Option<&'a str>,
    /// The file with the token, if one was given.
    pub(crate) token_file: Option<&'a Path>,
}

impl Connection<'_> {
    /// A client of the given server, or of the default one. Does not connect yet.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        self.client_with(MAX_CONNECTIONS)
    }

    /// The same with another bound of connections.
    pub(crate) fn client_with(&self, max_connections: usize) -> Result<Client, Failure> {
        let connect = |address, token: Option<String>| {
            Ok(Client::with_max_connections(address, token.as_deref(), max_connections)?)
        };
        let state_dir = state_dir();
        let found: Option<Address> = match (self.url, state_dir.as_deref()) {
            (Some(url), _) => Some(url.parse().map_err(|e| Failure::address(&e))?),
            // Only without --url: a given server does not depend on a state directory that cannot be trusted.
            (None, Some(dir)) => AddressFile::read(dir).map_err(Failure::state_dir)?,
            (None, None) => None,
        };
        let Some(address) = found else {
            // It may be a server of another user: it gets no token that was not given for it.
            let address = DEFAULT_ADDRESS.parse().map_err(|e| Failure::address(&e))?;
            return connect(address, self.given_token()?);
        };
        // The token of this machine is not sent to another one.
        let own = state_dir.filter(|_| address.is_local()).and_then(|dir| own_token(&dir));
        connect(address, self.given_token()?.or(own))
    }

    /// A client of the given server, or of the default one if it runs and accepts the token.
    pub(crate) async fn running(&self) -> Result<Option<Client>, Failure> {
        let client = self.client()?;
        if self.url.is_some() {
            client.version().await?;
            return Ok(Some(client));
        }
        let is_there = matches!(tokio::time::timeout(LOOK_TIMEOUT, client.version()).await, Ok(Ok(_)));
        Ok(is_there.then_some(client))
    }

    /// The token from the given file or variable.
    fn given_token(&self) -> Result<Option<String>, Failure> {
        if let Some(path) = self.token_file {
            let text = read(path).map_err(|e| Failure::unreadable(path, &e))?;
            return Ok(Some(text.trim().to_owned()));
        }
        Ok(std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty()))
    }
}

/// The state directory of the default server.
fn state_dir() -> Option<PathBuf> {
    let given = std::env::var_os(STATE_DIR_VARIABLE).filter(|dir| !dir.is_empty());
    given.map(PathBuf::from).or_else(default_paths::state_dir)
}

/// The token in a state directory, if there is one.
fn own_token(state_dir: &Path) -> Option<String> {
    let text = read_trusted(&state_dir.join(TOKEN_FILE), Secrecy::Public, MAX_FILE_BYTES).ok()?;
    Some(str::from_utf8(&text).ok()?.trim().to_owned()).filter(|token| !token.is_empty())
}

fn read(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
