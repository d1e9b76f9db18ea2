//! [`TerminalSize`]: columns and rows on the command line.

use std::str::FromStr;

use sandcrab_api::terminal::MAX_TERMINAL_SIZE;

/// Columns and rows, written as `80x24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TerminalSize {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

impl FromStr for TerminalSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let side = |text: &str| text.parse().ok().filter(|side| (1..=MAX_TERMINAL_SIZE).contains(side));
        let sides = text.split_once(['x', 'X']).and_then(|(cols, rows)| Some((side(cols)?, side(rows)?)));
        let (cols, rows) = sides.ok_or_else(|| {
            format!("expected COLUMNSxROWS, such as 80x24, with 1 to {MAX_TERMINAL_SIZE} each")
        })?;
        Ok(Self { cols, rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_columns_and_rows() {
        assert_eq!("120x40".parse(), Ok(TerminalSize { cols: 120, rows: 40 }));
        for text in ["", "80", "80x", "0x24", "80x1001", "-1x2", "80x24x1", "80 x 24"] {
            assert!(text.parse::<TerminalSize>().is_err(), "{text}");
        }
    }
}
