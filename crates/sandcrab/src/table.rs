//! Tables: aligned columns. On a terminal that is wide enough, the last column is wrapped; ids stay whole.

use std::time::Duration;

use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, presets};
use sandcrab_api::process::ProcessStatus;

use crate::failure::Failure;
use crate::output::Output;

/// Space between two columns.
const GAP: u16 = 2;
/// Width that the last column has at least, if it is wrapped.
const MIN_WRAPPED: u16 = 20;

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
    let widths = table.column_max_content_widths();
    let (last, others) = widths.split_last().unwrap_or((&0, &[]));
    let before: u16 = others.iter().map(|width| width.saturating_add(GAP)).fold(0, u16::saturating_add);
    let needed = before.saturating_add(GAP + (*last).min(MIN_WRAPPED));
    if table.width().is_some_and(|width| width < needed) {
        // The terminal wraps the lines.
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    for (column, is_other) in table.column_iter_mut().zip((0..others.len()).map(|_| true).chain([false])) {
        // Nothing before the first column.
        column.set_padding((0, GAP));
        if is_other {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    output.line(table.trim_fmt())
}

/// Untrusted text without control characters: on one line, and without escape sequences.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The status of a process, in its colour.
pub(crate) fn status(status: ProcessStatus) -> Cell {
    let colour = match status {
        ProcessStatus::Starting => Color::Cyan,
        ProcessStatus::Running => Color::Green,
        ProcessStatus::Completed | ProcessStatus::Unknown => Color::Reset,
        ProcessStatus::Failed | ProcessStatus::Error => Color::Red,
        ProcessStatus::Killed => Color::Yellow,
    };
    Cell::new(status.as_str()).fg(colour)
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

/// A number of bytes: `512 MiB`, `100 bytes`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        1.. if bytes.trailing_zeros() >= 20 => format!("{} MiB", bytes >> 20),
        1.. if bytes.trailing_zeros() >= 10 => format!("{} KiB", bytes >> 10),
        1 => "1 byte".to_owned(),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        let show = |ms| duration(Duration::from_millis(ms));
        assert_eq!([show(0), show(999), show(1_500), show(60_000)], ["0ms", "999ms", "1.5s", "60s"]);
        assert_eq!([size(512 << 20), size(3 << 10), size(0)], ["512 MiB", "3 KiB", "0 bytes"]);
        assert_eq!([show(300_000), show(7_200_000), show(864_000_000)], ["5m", "2h", "10d"]);
    }
}
