//! The benchmark: floors, statistics, and the tables in `SPECIFICATION.md`.
//!
//! Absolute times differ between machines. So every figure is shown beside a *floor* measured in the same
//! run: the cost of the minimal equivalent on this machine.

mod figures;
mod floors;
mod http;
mod large;
mod measure;
mod preview;
mod stats;
mod table;
mod terminal;
mod workspace;

pub use figures::{FigureError, delete_everything, push_figures};
pub use floors::{
    Floors, bash_round_trip, bash_round_trip_of_task, bash_spawn, file_write_rate, init, pipe_rate, rate,
    write_flood,
};
pub use http::push_http;
pub use large::push_large;
pub use measure::{FigureLimit, Measure};
pub use preview::push_previews;
pub use stats::Stats;
pub use table::{Row, Section, Table, TableError, Verdict};
pub use terminal::push_terminals;
pub use workspace::push_workspace;
