//! The benchmark over HTTP: a server in a process of its own, asked over kept connections.
//!
//! Figures are measured in turns with their floors. The server's are a bare hyper handler, also in a process of its own,
//! and what the engine's figures stand on: bash itself, and the engine without a server.

mod bare;
mod connection;
mod latency;
mod many;
mod output;
mod placed;
mod program;
mod turns;

pub(super) use bare::init;
use connection::Connection;
pub(super) use connection::{post, request};
pub(super) use program::{Program, Server};
pub(super) use turns::{Part, take_turns, timed};

use super::{FigureError, Table};

/// How much text a large output has.
const OUTPUT_BYTES: usize = 50_000_000;

/// Starts a server, measures everything, and adds a row for each figure. Nothing is left running.
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
