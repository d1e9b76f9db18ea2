//! The benchmark over HTTP: a server in its own process, used over persistent connections.
//!
//! Figures are measured in turns with their floors: a bare hyper handler, also in its own process, and what
//! the engine's figures are compared with, bash itself and the engine without a server.

mod bare;
mod connection;
mod latency;
mod many;
mod output;
mod pinned;
mod program;
mod turns;

pub(super) use bare::init;
pub(crate) use connection::Connection;
pub(super) use connection::{post, request};
pub(super) use program::{Program, Server};
pub(super) use turns::{Part, take_turns, timed};

use super::{FigureError, Table};

/// Size of a large output in bytes.
const OUTPUT_BYTES: usize = 50_000_000;

/// Starts a server, measures everything, and adds a row for each figure. Ends everything afterwards.
pub fn push_http(table: &mut Table, mut progress: impl FnMut(&str)) -> Result<(), FigureError> {
    let directory = tempfile::tempdir()?;
    let server = Server::start(&directory.path().join("state"))?;
    let mut outputs = Table::default();
    output::push(&server, directory.path(), &mut outputs, &mut progress)?;
    latency::push(&server, directory.path(), table, &mut progress)?;
    many::push(&server, table, &mut progress)?;
    table.append(outputs);
    Ok(())
}

pub(super) fn expect(holds: bool, otherwise: &'static str) -> Result<(), FigureError> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}
