//! The log: lines on standard error.

use std::io;

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;

/// The format of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Lines of text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The library of MCP. It logs requests and errors whole: commands, paths and the content of files.
const MCP_LIBRARY: &str = "rmcp";

/// The filter of a log level. What clients of `/mcp` send is in no log, unless the level names the library.
pub(super) fn filter(level: &str) -> Result<EnvFilter, String> {
    let filter = EnvFilter::try_new(level).map_err(|error| {
        format!("invalid log level {level:?} ({error}); use error, warn, info, debug, trace or a list of module=level")
    })?;
    Ok(if level.contains(MCP_LIBRARY) {
        filter
    } else {
        filter.add_directive(
            format!("{MCP_LIBRARY}=off").parse().expect("never fails: it is a name and a level"),
        )
    })
}

/// Starts the log of this process.
pub(super) fn start(filter: EnvFilter, format: LogFormat) {
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // Called once.
    drop(match format {
        LogFormat::Text => {
            builder.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).with_target(false).try_init()
        }
        LogFormat::Json => builder.json().flatten_event(true).with_target(false).try_init(),
    });
}
