//! Tables for people: aligned columns, wrapped to a terminal, whole lines elsewhere.

use std::time::Duration;

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

/// A duration in two digits or so: `12ms`, `3.4s`, `5m`, `2h`, `9d`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        let show = |ms| duration(Duration::from_millis(ms));
        assert_eq!([show(0), show(999), show(1_500), show(60_000)], ["0ms", "999ms", "1.5s", "60s"]);
        assert_eq!([show(300_000), show(7_200_000), show(864_000_000)], ["5m", "2h", "10d"]);
    }
}
