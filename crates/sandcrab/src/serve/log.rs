//! The log: lines on standard error.

use std::io;

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;

/// How the log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Lines of text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// What is logged.
pub(super) fn filter(level: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(level).map_err(|error| {
        format!("{level:?} is no log level ({error}); write error, warn, info, debug, trace or a list of module=level")
    })
}

/// Starts the log of this process.
pub(super) fn start(filter: EnvFilter, format: LogFormat) {
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // It is started once.
    drop(match format {
        LogFormat::Text => {
            builder.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).with_target(false).try_init()
        }
        LogFormat::Json => builder.json().flatten_event(true).with_target(false).try_init(),
    });
}
