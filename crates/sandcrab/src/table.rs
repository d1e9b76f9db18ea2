//! Tables for people: aligned columns, wrapped to a terminal, whole lines elsewhere.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};
use sandcrab_api::process::ProcessStatus;

use crate::failure::Failure;
use crate::output::Output;

/// Starts a table.
pub(crate) fn table(output: Output, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if output.is_terminal {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table.force_no_tty().set_content_arrangement(ContentArrangement::Disabled);
    }
    if output.colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    if !header.is_empty() {
        table.set_header(header.iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    }
    table
}

/// Prints a table.
pub(crate) fn print(output: Output, table: &mut Table) -> Result<(), Failure> {
    for column in table.column_iter_mut() {
        // Nothing before the first column, two spaces between the others.
        column.set_padding((0, 2));
    }
    output.line(table.trim_fmt())
}

/// Text of others, which may hold anything: on one line, and nothing that a terminal obeys.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Where a process stands, in its colour.
pub(crate) fn status(status: ProcessStatus) -> Cell {
    let (word, colour) = match status {
        ProcessStatus::Starting => ("starting", Color::Cyan),
        ProcessStatus::Running => ("running", Color::Green),
        ProcessStatus::Completed => ("completed", Color::Reset),
        ProcessStatus::Failed => ("failed", Color::Red),
        ProcessStatus::Killed => ("killed", Color::Yellow),
        ProcessStatus::Error => ("error", Color::Red),
    };
    Cell::new(word).fg(colour)
}
