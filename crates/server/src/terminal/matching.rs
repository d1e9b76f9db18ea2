//! Finds text on a screen.

use regex::{Regex, RegexBuilder};
use sandcrab_screen::{Screen, columns};

use crate::error::ApiError;

/// Maximum length of a text or a regular expression.
pub(crate) const MAX_PATTERN_BYTES: usize = 4 << 10;
/// Maximum memory of a compiled regular expression.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// What to find.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    Text(String),
    Regex(Regex),
}

/// A match on a screen.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) row: u16,
    pub(crate) col: u16,
    pub(crate) text: String,
}

impl Pattern {
    pub(crate) fn text(text: String) -> Result<Self, ApiError> {
        check("text", &text)?;
        Ok(Self::Text(text))
    }

    pub(crate) fn regex(pattern: &str) -> Result<Self, ApiError> {
        check("regex", pattern)?;
        let built = RegexBuilder::new(pattern)
            .multi_line(true)
            .size_limit(MAX_REGEX_BYTES)
            .dfa_size_limit(MAX_REGEX_BYTES)
            .build();
        built.map(Self::Regex).map_err(|e| ApiError::invalid("regex", e))
    }

    /// Where it is in a text: the bytes of the first match.
    fn find(&self, text: &str) -> Option<std::ops::Range<usize>> {
        match self {
            Self::Text(wanted) => text.find(wanted.as_str()).map(|at| at..at + wanted.len()),
            Self::Regex(regex) => regex.find(text).map(|found| found.range()),
        }
    }
}

fn check(field: &str, pattern: &str) -> Result<(), ApiError> {
    if pattern.is_empty() {
        return Err(ApiError::invalid(field, "it must not be empty"));
    }
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(ApiError::invalid(field, format!("it may have at most {MAX_PATTERN_BYTES} bytes")));
    }
    Ok(())
}

/// The text of a screen as one string, with the positions of its parts.
#[derive(Debug, Default)]
pub(crate) struct ScreenText {
    /// Lines, separated by line feeds. A row that continues the previous one is not separated from it.
    text: String,
    /// The byte at which each run begins, with its row and its column.
    runs: Vec<(usize, u16, u16)>,
}

impl ScreenText {
    pub(crate) fn of(screen: &Screen) -> Self {
        let mut this = Self::default();
        for (row, view) in screen.rows(0).enumerate() {
            let row = u16::try_from(row).unwrap_or(u16::MAX);
            if row > 0 && !view.wrapped {
                // Blanks at the end of a line are not part of it.
                this.text.truncate(this.text.trim_end_matches(' ').len());
                this.text.push('\n');
            }
            for run in view.runs {
                this.runs.push((this.text.len(), row, run.col));
                this.text.push_str(&run.text);
            }
        }
        this.text.truncate(this.text.trim_end_matches(' ').len());
        this
    }

    /// The size in bytes, which decides where matching runs.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// The first match.
    pub(crate) fn find(&self, pattern: &Pattern) -> Option<Match> {
        let range = pattern.find(&self.text)?;
        let at = self.runs.partition_point(|(start, ..)| *start <= range.start);
        let (start, row, col) = at.checked_sub(1).map_or((0, 0, 0), |at| self.runs[at]);
        let before = self.text.get(start..range.start).unwrap_or_default();
        // A match may begin at the end of a line, after its last run.
        let (row, col) = match before.rfind('\n') {
            Some(_) => (row + u16::try_from(before.matches('\n').count()).unwrap_or(0), 0),
            None => (row, col + u16::try_from(columns(before)).unwrap_or(0)),
        };
        Some(Match { row, col, text: self.text.get(range)?.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use sandcrab_screen::Size;

    use super::*;

    fn find(output: &str, pattern: &Pattern) -> Option<Match> {
        let mut screen = Screen::new(Size::new(10, 4), 0);
        screen.feed(output.as_bytes());
        ScreenText::of(&screen).find(pattern)
    }

    fn found(row: u16, col: u16, text: &str) -> Option<Match> {
        Some(Match { row, col, text: text.into() })
    }

    #[test]
    fn text_is_found_where_it_is() {
        let text = |text: &str| Pattern::text(text.into()).unwrap();
        assert_eq!(find("one\r\n two\x1b[1mthree", &text("three")), found(1, 4, "three"));
        assert_eq!(find("one\r\n two\x1b[1mthree", &text("othr")), found(1, 3, "othr"));
        assert_eq!(find("漢字 x", &text("x")), found(0, 5, "x"));
        // The widths are those of the screen.
        assert_eq!(find("😀👩\u{200d}👩e\u{301} x", &text("x")), found(0, 5, "x"));
        assert_eq!(find("one", &text("two")), None);
        // A wrapped line is one line.
        assert_eq!(find("12345678901234", &text("9012")), found(0, 8, "9012"));
        assert_eq!(find("123456789\r\n012", &text("9012")), None);
    }

    #[test]
    fn expressions_match_lines() {
        let regex = |regex: &str| Pattern::regex(regex).unwrap();
        assert_eq!(find("a 1\r\nb 22", &regex(r"\d\d$")), found(1, 2, "22"));
        assert_eq!(find("a 1\r\nb 22", &regex(r"^b")), found(1, 0, "b"));
        assert_eq!(find("x  \r\ny", &regex(r"x$")), found(0, 0, "x"));
        assert!(Pattern::regex("(").is_err());
        assert!(Pattern::regex(r"\w{1000}{1000}").is_err());
        assert!(Pattern::regex(&"x".repeat(MAX_PATTERN_BYTES + 1)).is_err());
        assert!(Pattern::text(String::new()).is_err());
    }
}
