//! [`CompatMode`]: `--compat`, and what it implies for the other options.

use clap::ValueEnum;
use sandcrab_server::{Compat, Listen, ServerConfig};
use serde::Deserialize;

use super::log::LogFormat;
use crate::commands::serve::ServeArgs;

/// The server whose behaviour is imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CompatMode {
    /// The container server of the Sandbox SDK, 0.12.
    SandboxSdk,
}

impl CompatMode {
    /// The options that it implies, given those that were set.
    pub(super) fn implied(self, given: &ServeArgs) -> ServeArgs {
        let Self::SandboxSdk = self;
        ServeArgs {
            listen: Some("0.0.0.0:3000".to_owned()),
            // A token file means that a token is required.
            no_auth: given.token_file.is_none().then_some(true),
            trust_network: Some(true),
            log: variable("SANDBOX_LOG_LEVEL").filter(|level| LOG_LEVELS.contains(&level.as_str())),
            log_format: variable("SANDBOX_LOG_FORMAT").map(|format| match format.as_str() {
                "pretty" => LogFormat::Text,
                _ => LogFormat::Json,
            }),
            ..ServeArgs::default()
        }
    }

    /// The mode of the server.
    pub(super) fn server(self) -> Compat {
        let Self::SandboxSdk = self;
        Compat::sandbox_sdk_from(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }
}

/// The levels of `SANDBOX_LOG_LEVEL`; others are ignored, as in the reference.
const LOG_LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// What to say about a mode at the start: it needs no token, as the server that it replaces.
pub(super) fn warning(server: &ServerConfig) -> Option<String> {
    let Listen::Tcp(address) = &server.listen else { return None };
    let is_open = server.access.token.is_none() && !address.ip().to_canonical().is_loopback();
    (server.compat.is_some() && is_open).then(|| {
        format!(
            "--compat requires no token: every machine that can reach {address} can run commands; use --no-auth=false to \
             require one, or --listen to choose another address"
        )
    })
}
