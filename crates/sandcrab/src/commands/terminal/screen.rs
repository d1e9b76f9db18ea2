//! `sandcrab terminal screen`.

use std::fmt::Write;

use clap::{Args, ValueEnum};
use sandcrab_api::terminal::{Color, ScreenFormat, ScreenRun, UnderlineStyle};
use sandcrab_client::{Client, ScreenOptions};

use crate::failure::Failure;
use crate::output::Output;

/// Print the screen of a terminal, even after its program has ended.
///
/// With --json, the document has the size, the cursor and the title too.
#[derive(Debug, Args)]
pub(super) struct ScreenArgs {
    /// Id of the terminal.
    id: String,
    /// Lines of the scrollback to print before the screen.
    #[arg(long, value_name = "LINES")]
    scrollback: Option<u32>,
    /// Format: text, text with colours as escape sequences (ansi), or a JSON document with the colours and attributes of all
    /// cells (cells) [default: ansi if standard output is a terminal with colours, else text].
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Ansi,
    Cells,
}

pub(super) async fn run(args: ScreenArgs, client: &Client, output: Output) -> Result<u8, Failure> {
    let automatic = if output.colour && !output.json { Format::Ansi } else { Format::Text };
    let format = args.format.unwrap_or(automatic);
    let wire = if format == Format::Text { ScreenFormat::Text } else { ScreenFormat::Cells };
    let options = ScreenOptions { format: Some(wire), scrollback: args.scrollback };
    let screen = client.screen(&args.id, &options).await?;
    if output.json || format == Format::Cells {
        output.document(&screen)?;
        return Ok(0);
    }
    let text = match screen.cells {
        Some(rows) => rows.iter().map(|row| coloured(row)).collect::<Vec<_>>().join("\n"),
        None => screen.text,
    };
    // Blank lines at the end are left out.
    output.line(text.trim_end_matches('\n'))?;
    Ok(0)
}

/// A row as text with escape sequences.
fn coloured(row: &[ScreenRun]) -> String {
    let mut line = String::new();
    for run in row {
        let text: String = run.text.chars().filter(|c| !c.is_control()).collect();
        let attributes = attributes(run);
        if attributes.is_empty() {
            line.push_str(&text);
        } else {
            // Writing to a string does not fail.
            let _ = write!(line, "\x1b[{attributes}m{text}\x1b[0m");
        }
    }
    line
}

/// The parameters of SGR for a run.
fn attributes(run: &ScreenRun) -> String {
    let flags = [
        (run.bold, "1"),
        (run.dim, "2"),
        (run.italic, "3"),
        (run.underline, underline(run.underline_style)),
        (run.blink, "5"),
        (run.inverse, "7"),
        (run.hidden, "8"),
        (run.strikethrough, "9"),
        (run.overline, "53"),
    ];
    let mut parameters: Vec<String> =
        flags.iter().filter(|(is_set, _)| *is_set).map(|(_, number)| (*number).to_owned()).collect();
    parameters.extend(run.fg.map(|color| colour(color, 30)));
    parameters.extend(run.bg.map(|color| colour(color, 40)));
    parameters.join(";")
}

fn underline(style: Option<UnderlineStyle>) -> &'static str {
    match style {
        Some(UnderlineStyle::Double) => "4:2",
        Some(UnderlineStyle::Curly) => "4:3",
        Some(UnderlineStyle::Dotted) => "4:4",
        Some(UnderlineStyle::Dashed) => "4:5",
        _ => "4",
    }
}

/// The parameters of a colour. `base` is 30 for the text and 40 for the background.
fn colour(colour: Color, base: u8) -> String {
    match colour {
        Color::Index(index @ 0..8) => (base + index).to_string(),
        Color::Index(index @ 8..16) => (base + 60 + index - 8).to_string(),
        Color::Index(index) => format!("{};5;{index}", base + 8),
        Color::Rgb(red, green, blue) => format!("{};2;{red};{green};{blue}", base + 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_escape_sequences() {
        let plain = ScreenRun { text: "a".into(), ..ScreenRun::default() };
        let styled = ScreenRun {
            text: "b\x1b".into(),
            bold: true,
            underline: true,
            underline_style: Some(UnderlineStyle::Curly),
            fg: Some(Color::Index(9)),
            bg: Some(Color::Rgb(1, 2, 3)),
            ..ScreenRun::default()
        };
        assert_eq!(coloured(&[plain, styled]), "a\x1b[1;4:3;91;48;2;1;2;3mb\x1b[0m");
        assert_eq!(colour(Color::Index(4), 30), "34");
        assert_eq!(colour(Color::Index(200), 40), "48;5;200");
    }
}
