//! [`Table`]: the figures as Markdown in `SPECIFICATION.md`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::{FigureLimit, Measure};

/// The position of a table in a file: between two marker lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// The figures of the engine.
    Engine,
    /// The figures over HTTP.
    Http,
    /// The figures of terminals.
    Terminals,
    /// The figures of previews.
    Previews,
    /// The figures of files.
    Workspace,
}

impl Section {
    /// Returns the lines before and after the table.
    fn markers(self) -> (&'static str, &'static str) {
        match self {
            Self::Engine => ("<!-- bench:begin -->", "<!-- bench:end -->"),
            Self::Http => ("<!-- bench-http:begin -->", "<!-- bench-http:end -->"),
            Self::Terminals => ("<!-- bench-terminals:begin -->", "<!-- bench-terminals:end -->"),
            Self::Previews => ("<!-- bench-previews:begin -->", "<!-- bench-previews:end -->"),
            Self::Workspace => ("<!-- bench-workspace:begin -->", "<!-- bench-workspace:end -->"),
        }
    }
}

/// Whether a figure meets its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The figure meets its limit.
    Met,
    /// The figure misses its limit.
    Missed,
    /// The figure has no limit.
    Open,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Met => "met",
            Self::Missed => "**missed**",
            Self::Open => "–",
        })
    }
}

/// A figure with its floor and its limit.
#[derive(Debug, Clone)]
pub struct Row {
    figure: String,
    value: Measure,
    floor: Option<Measure>,
    limit: Option<FigureLimit>,
}

impl Row {
    /// Creates a figure without floor and limit.
    pub fn new(figure: impl Into<String>, value: Measure) -> Self {
        Self { figure: figure.into(), value, floor: None, limit: None }
    }

    /// Sets the floor, in the same unit.
    pub fn floor(mut self, floor: Measure) -> Self {
        self.floor = Some(floor);
        self
    }

    /// Sets the limit.
    pub fn limit(mut self, limit: FigureLimit) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Returns the ratio of the figure to its floor.
    pub fn ratio(&self) -> Option<f64> {
        self.floor.map(|floor| self.value.amount() / floor.amount())
    }

    /// Returns whether the figure meets its limit.
    pub fn verdict(&self) -> Verdict {
        match self.limit {
            None => Verdict::Open,
            Some(limit) if limit.holds(self.value, self.ratio()) => Verdict::Met,
            Some(_) => Verdict::Missed,
        }
    }
}

/// Formats a value, or a dash for none.
fn or_dash(cell: Option<impl fmt::Display>) -> String {
    cell.map_or_else(|| "–".to_owned(), |cell| cell.to_string())
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let floor = or_dash(self.floor);
        let ratio = or_dash(self.ratio().map(|ratio| format!("{ratio:.2} ×")));
        let (limit, verdict) = (or_dash(self.limit), self.verdict());
        write!(f, "| {} | {} | {floor} | {ratio} | {limit} | {verdict} |", self.figure, self.value)
    }
}

/// The figures of one run, and a description of the machine.
#[derive(Debug, Clone, Default)]
pub struct Table {
    machine: String,
    rows: Vec<Row>,
}

impl Table {
    /// Creates an empty table. `machine` describes the machine.
    pub fn new(machine: impl Into<String>) -> Self {
        Self { machine: machine.into(), rows: Vec::new() }
    }

    /// Adds a figure.
    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Adds the figures of another table.
    pub fn append(&mut self, other: Self) {
        self.rows.extend(other.rows);
    }

    /// Returns the number of figures that miss their bars.
    pub fn missed(&self) -> usize {
        self.rows.iter().filter(|row| row.verdict() == Verdict::Missed).count()
    }

    /// Replaces the text between the markers in a file by this table.
    pub fn write_into(&self, path: &Path, section: Section) -> Result<(), TableError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| TableError::Read { path: path.to_owned(), source })?;
        let text = self.replace_in(&text, section).ok_or_else(|| {
            let (begin, end) = section.markers();
            TableError::Markers { path: path.to_owned(), begin, end }
        })?;
        std::fs::write(path, text).map_err(|source| TableError::Write { path: path.to_owned(), source })
    }

    /// Returns the text with this table between the markers, or `None` if they are missing or in the wrong
    /// order.
    fn replace_in(&self, text: &str, section: Section) -> Option<String> {
        let (begin, end) = section.markers();
        let (before, rest) = text.split_once(begin)?;
        let (_, after) = rest.split_once(end)?;
        Some(format!("{before}{begin}\n{self}\n{end}{after}"))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.machine)?;
        writeln!(f, "| figure | value | floor | ratio | limit | verdict |")?;
        writeln!(f, "|---|---:|---:|---:|---|---|")?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

/// Why a table could not be written to a file.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file could not be read.
    #[error("could not read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file could not be written.
    #[error("could not write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file does not contain the markers.
    #[error("{} has no place for the table between {begin} and {end}", path.display())]
    Markers {
        /// The file.
        path: PathBuf,
        /// The line before the table.
        begin: &'static str,
        /// The line after the table.
        end: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn table() -> Table {
        let microseconds = |count| Measure::Time(Duration::from_micros(count));
        let mut table = Table::new("Measured here.");
        table.push(Row::new("spawn", microseconds(1_400)));
        table.push(
            Row::new("round trip", microseconds(150))
                .floor(microseconds(100))
                .limit(FigureLimit::AtMostTimesFloor(1.2)),
        );
        table
    }

    #[test]
    fn rows_show_ratio_bar_and_verdict() {
        let shown = table().to_string();
        assert!(shown.contains("| spawn | 1.40 ms | – | – | – | – |"), "{shown}");
        let row = "| round trip | 150 µs | 100 µs | 1.50 × | ≤ 1.2 × floor | **missed** |";
        assert!(shown.contains(row), "{shown}");
        assert_eq!(table().missed(), 1);
    }

    #[test]
    fn only_the_text_between_the_markers_changes() {
        let (begin, end) = Section::Http.markers();
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!("before\n{begin}\nold\n{end}\nafter\n");
        std::fs::write(file.path(), text).unwrap();
        table().write_into(file.path(), Section::Http).unwrap();
        let once = std::fs::read_to_string(file.path()).unwrap();
        table().write_into(file.path(), Section::Http).unwrap();
        let twice = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(once, twice);
        assert!(once.starts_with(&format!("before\n{begin}\nMeasured here.\n\n| figure")));
        assert!(once.ends_with(&format!("|\n\n{end}\nafter\n")), "{once}");
        assert!(!once.contains("old"));
    }

    #[test]
    fn a_file_without_markers_is_refused_and_left_alone() {
        let (begin, end) = Section::Http.markers();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{end} {begin}")).unwrap();
        let error = table().write_into(file.path(), Section::Http).unwrap_err();
        assert!(error.to_string().contains("has no place for the table"), "{error}");
        assert!(std::fs::read_to_string(file.path()).unwrap().starts_with(end));
    }
}
