//! How cells look: colours and attributes.

/// A colour of text, background or underline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Color {
    /// The terminal's default colour.
    #[default]
    Default,
    /// An entry of the palette: 0–7 the standard colours, 8–15 the bright ones, then the cube and the greys.
    Indexed(u8),
    /// A colour by its red, green and blue parts.
    Rgb(u8, u8, u8),
}

/// The style of an underline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Underline {
    /// No underline.
    #[default]
    None,
    /// A single line.
    Single,
    /// A double line.
    Double,
    /// A wavy line.
    Curly,
    /// A dotted line.
    Dotted,
    /// A dashed line.
    Dashed,
}

/// The attributes of a run of cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Style {
    /// Colour of the text.
    pub fg: Color,
    /// Colour of the background.
    pub bg: Color,
    /// Colour of the underline; the default is the colour of the text.
    pub underline_color: Color,
    /// Style of the underline.
    pub underline: Underline,
    /// Bold, or bright.
    pub bold: bool,
    /// Faint.
    pub dim: bool,
    /// Italic.
    pub italic: bool,
    /// Blinking.
    pub blink: bool,
    /// Text and background colours are exchanged.
    pub inverse: bool,
    /// The text is not shown.
    pub invisible: bool,
    /// Crossed out.
    pub strikethrough: bool,
    /// A line above the text.
    pub overline: bool,
}
