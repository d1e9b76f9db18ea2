//! The content of a screen.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::Timestamp;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// The form of a screen in a response.
    pub enum ScreenFormat = Text {
        /// Only text.
        Text = "text",
        /// Text, and rows of runs with colours and attributes.
        Cells = "cells",
    }
}

wire_enum! {
    /// The form of a recording.
    pub enum RecordingFormat = Asciicast {
        /// asciicast, version 2.
        Asciicast = "asciicast",
    }
}

wire_enum! {
    /// Where a screen comes from.
    pub enum ScreenSource {
        /// It is the exact screen: all output is known.
        Live = "live",
        /// The supervisor of the terminal was killed. The screen is rebuilt from the output that it had recorded.
        Journal = "journal",
        /// The supervisor of the terminal was killed, and a part of the recorded output is missing. The screen is the last saved
        /// one.
        Saved = "saved",
        else Unknown
    }
}

wire_enum! {
    /// The style of an underline.
    pub enum UnderlineStyle {
        /// Two lines.
        Double = "double",
        /// A wave.
        Curly = "curly",
        /// Dots.
        Dotted = "dotted",
        /// Dashes.
        Dashed = "dashed",
        else Unknown
    }
}

/// A colour: an index of the palette, or red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// One of 256 colours of the palette; 0 to 15 are the named ones.
    Index(u8),
    /// Red, green and blue.
    Rgb(u8, u8, u8),
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "{index}"),
            Self::Rgb(red, green, blue) => write!(f, "#{red:02x}{green:02x}{blue:02x}"),
        }
    }
}

impl Serialize for Color {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Index(index) => serializer.serialize_u8(*index),
            Self::Rgb(..) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Color {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Value;

        impl de::Visitor<'_> for Value {
            type Value = Color;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 0 to 255 or a colour like #ff8000")
            }

            fn visit_u64<E: de::Error>(self, index: u64) -> Result<Color, E> {
                u8::try_from(index)
                    .map(Color::Index)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(index), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Color, E> {
                let digits = text.strip_prefix('#').filter(|digits| {
                    digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
                });
                let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let Some([_, red, green, blue]) = number.map(u32::to_be_bytes) else {
                    return Err(E::invalid_value(de::Unexpected::Str(text), &self));
                };
                Ok(Color::Rgb(red, green, blue))
            }
        }

        deserializer.deserialize_any(Value)
    }
}

impl PartialSchema for Color {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::Integer, Type::String]))
            .description(Some(
                "A colour: an index of the palette of 256 colours, or red, green and blue as `#rrggbb`.",
            ))
            .minimum(Some(0))
            .maximum(Some(255))
            .pattern(Some("^#[0-9a-f]{6}$"))
            .into()
    }
}

impl ToSchema for Color {}

/// Whether a flag is at its default, and therefore left out.
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Adjacent cells of a row with the same colours and attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScreenRun {
    /// Text of the cells.
    pub text: String,
    /// The colour of the text; absent for the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fg: Option<Color>,
    /// The colour of the background; absent for the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bg: Option<Color>,
    /// Bold.
    #[serde(skip_serializing_if = "is_false")]
    pub bold: bool,
    /// Dim.
    #[serde(skip_serializing_if = "is_false")]
    pub dim: bool,
    /// Italic.
    #[serde(skip_serializing_if = "is_false")]
    pub italic: bool,
    /// Underlined.
    #[serde(skip_serializing_if = "is_false")]
    pub underline: bool,
    /// The style of the underline; absent for a plain one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub underline_style: Option<UnderlineStyle>,
    /// The colour of the underline; absent for the colour of the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub underline_color: Option<Color>,
    /// Blinking.
    #[serde(skip_serializing_if = "is_false")]
    pub blink: bool,
    /// Foreground and background exchanged.
    #[serde(skip_serializing_if = "is_false")]
    pub inverse: bool,
    /// Invisible.
    #[serde(skip_serializing_if = "is_false")]
    pub hidden: bool,
    /// Struck through.
    #[serde(skip_serializing_if = "is_false")]
    pub strikethrough: bool,
    /// With a line above.
    #[serde(skip_serializing_if = "is_false")]
    pub overline: bool,
    /// The target of a hyperlink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// The cursor on a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScreenCursor {
    /// Its row, from 0.
    pub row: u16,
    /// Its column, from 0.
    pub col: u16,
    /// Whether it is shown.
    pub visible: bool,
}

/// The screen of a terminal.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScreenResponse {
    /// Always true.
    pub success: bool,
    /// The lines of the screen, each without trailing blanks. With `scrollback`, the newest lines of the scrollback come first.
    pub text: String,
    /// With `format=cells`: the same lines as runs of cells with equal attributes. Trailing blank cells without attributes are
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cells: Option<Vec<Vec<ScreenRun>>>,
    /// Number of columns.
    pub cols: u16,
    /// Number of rows.
    pub rows: u16,
    /// The cursor.
    pub cursor: ScreenCursor,
    /// The title that the program has set; empty if none.
    pub title: String,
    /// Whether the alternate screen is shown, as by full-screen programs.
    pub alternate: bool,
    /// Number of lines in the scrollback. `text` and `cells` contain the newest of them, at most `scrollback`.
    pub scrollback_lines: usize,
    /// Where the screen comes from.
    pub source: ScreenSource,
    /// Whether output of the program is missing on the screen, because the disk of the server's state is or was full. Absent
    /// if nothing is missing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub output_dropped: bool,
    /// The cursor of the output after which the screen looks like this.
    pub output_cursor: u64,
    /// Time of the response.
    pub timestamp: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_round_trip() {
        for (color, json) in [(Color::Index(9), "9"), (Color::Rgb(255, 128, 0), "\"#ff8000\"")] {
            assert_eq!(serde_json::to_string(&color).unwrap(), json);
            assert_eq!(serde_json::from_str::<Color>(json).unwrap(), color);
        }
        for json in ["256", "-1", "\"ff8000\"", "\"#ff80\"", "\"#+f8000\"", "\"#ff8000é\"", "null"] {
            assert!(serde_json::from_str::<Color>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_plain_run_is_only_its_text() {
        let run = ScreenRun { text: "x".into(), ..ScreenRun::default() };
        assert_eq!(serde_json::to_string(&run).unwrap(), r#"{"text":"x"}"#);
    }
}
