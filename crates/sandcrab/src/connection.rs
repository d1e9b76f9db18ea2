//! [`Connection`]: how the server is found, and what is shown to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sandcrab_client::{Address, Client};

use crate::failure::Failure;
use crate::state_dir::default_state_dir;

/// The variable that holds a token.
const TOKEN_VARIABLE: &str = "SANDCRAB_TOKEN";
/// Where a server listens that was not told otherwise.
const DEFAULT_ADDRESS: &str = "http://127.0.0.1:7070";
/// The file in the state directory that says where its server listens.
const ADDRESS_FILE: &str = "address";
/// The file in the state directory that holds the token.
const TOKEN_FILE: &str = "token";
/// The largest of those files that is read.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// How long a server that may be there has to say so.
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
    /// A client of the server that was named, or of the default one. Whether it is there shows later.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let address = self.address()?;
        let token = self.token(&address)?;
        Ok(Client::connect_to(address, token.as_deref())?)
    }

    /// A client of the server that was named; or of the default one, if it runs and lets us in.
    pub(crate) async fn running(&self) -> Result<Option<Client>, Failure> {
        let client = self.client()?;
        if self.url.is_some() {
            return Ok(Some(client));
        }
        let is_there = matches!(tokio::time::timeout(LOOK_TIMEOUT, client.version()).await, Ok(Ok(_)));
        Ok(is_there.then_some(client))
    }

    fn address(&self) -> Result<Address, Failure> {
        if let Some(url) = self.url {
            return url.parse().map_err(Failure::address);
        }
        let noted = default_state_dir().and_then(|dir| read(&dir.join(ADDRESS_FILE)).ok());
        let noted = noted.and_then(|text| text.trim().parse().ok());
        match noted {
            Some(address) => Ok(address),
            None => DEFAULT_ADDRESS.parse().map_err(Failure::address),
        }
    }

    fn token(&self, address: &Address) -> Result<Option<String>, Failure> {
        if let Some(path) = self.token_file {
            let text = read(path).map_err(|e| Failure::unreadable(path, &e))?;
            return Ok(Some(text.trim().to_owned()));
        }
        if let Ok(token) = std::env::var(TOKEN_VARIABLE)
            && !token.is_empty()
        {
            return Ok(Some(token));
        }
        // This machine's token is none of another machine's business.
        let dir: Option<PathBuf> = if address.is_local() { default_state_dir() } else { None };
        // A server without access control has none.
        let text = dir.and_then(|dir| read(&dir.join(TOKEN_FILE)).ok());
        Ok(text.map(|text| text.trim().to_owned()).filter(|token| !token.is_empty()))
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
