//! Cells and the pen that writes them.
//!
//! The layout is that of xterm.js, so that every state it distinguishes is distinguished here too: an empty cell is
//! not a space, the second half of a wide character has width 0, and a cell knows whether its colour came from the
//! sixteen basic colours or from the palette of 256.

/// Mask of the code point in [`Cell::content`]; the index of a text if [`COMBINED`] is set.
pub(crate) const CODE_MASK: u32 = 0x1f_ffff;
/// The cell's text has several code points, and is in the table of texts.
pub(crate) const COMBINED: u32 = 0x20_0000;
/// Mask of everything that makes a cell non-empty.
pub(crate) const CONTENT_MASK: u32 = 0x3f_ffff;
/// Position of the width in [`Cell::content`].
pub(crate) const WIDTH_SHIFT: u32 = 22;

/// Mask of a colour's kind.
pub(crate) const COLOR_KIND: u32 = 0x300_0000;
/// The colour is one of the sixteen basic colours.
pub(crate) const COLOR_BASIC: u32 = 0x100_0000;
/// The colour is one of the 256 of the palette.
pub(crate) const COLOR_PALETTE: u32 = 0x200_0000;
/// The colour is given by red, green and blue.
pub(crate) const COLOR_RGB: u32 = 0x300_0000;
/// Mask of a colour: kind and value.
pub(crate) const COLOR_MASK: u32 = 0x3ff_ffff;

/// Flags in [`Cell::fg`].
pub(crate) const INVERSE: u32 = 0x400_0000;
pub(crate) const BOLD: u32 = 0x800_0000;
pub(crate) const UNDERLINE: u32 = 0x1000_0000;
pub(crate) const BLINK: u32 = 0x2000_0000;
pub(crate) const INVISIBLE: u32 = 0x4000_0000;
pub(crate) const STRIKETHROUGH: u32 = 0x8000_0000;

/// Flags in [`Cell::bg`].
pub(crate) const ITALIC: u32 = 0x400_0000;
pub(crate) const DIM: u32 = 0x800_0000;
/// The cell uses the [`Extended`] attributes of [`Cell::ext`].
pub(crate) const EXTENDED: u32 = 0x1000_0000;
pub(crate) const PROTECTED: u32 = 0x2000_0000;
pub(crate) const OVERLINE: u32 = 0x4000_0000;

/// One position of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    /// Code point or index of a text, and width.
    pub(crate) content: u32,
    /// Text colour and flags.
    pub(crate) fg: u32,
    /// Background colour and flags.
    pub(crate) bg: u32,
    /// Index of the extended attributes; 0 are the empty ones.
    pub(crate) ext: u32,
}

impl Cell {
    /// An empty cell with default attributes.
    pub(crate) const EMPTY: Self = Self { content: 1 << WIDTH_SHIFT, fg: 0, bg: 0, ext: 0 };

    /// A cell with this code point, width and attributes.
    pub(crate) fn new(code: u32, width: u32, attr: Attr) -> Self {
        Self { content: code | width << WIDTH_SHIFT, fg: attr.fg, bg: attr.bg, ext: attr.ext }
    }

    /// An empty cell with these attributes.
    pub(crate) fn blank(attr: Attr) -> Self {
        Self::new(0, 1, attr)
    }

    pub(crate) fn width(self) -> u32 {
        self.content >> WIDTH_SHIFT
    }

    pub(crate) fn has_content(self) -> bool {
        self.content & CONTENT_MASK != 0
    }

    /// Whether this is the second half of a wide character.
    pub(crate) fn is_spacer(self) -> bool {
        self.content == 0
    }

    pub(crate) fn is_protected(self) -> bool {
        self.bg & PROTECTED != 0
    }

    pub(crate) fn attr(self) -> Attr {
        Attr { fg: self.fg, bg: self.bg, ext: self.ext }
    }
}

/// The attributes of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attr {
    pub(crate) fg: u32,
    pub(crate) bg: u32,
    pub(crate) ext: u32,
}

/// Attributes that few cells have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Extended {
    /// Style of the underline (SGR 4:n), 0 to 5.
    pub(crate) style: u8,
    /// Colour of the underline, as in [`Cell::fg`].
    pub(crate) color: u32,
    /// Index of the link; 0 is none.
    pub(crate) link: u32,
}

impl Extended {
    /// Whether cells need not refer to it. The colour alone does not count.
    pub(crate) fn is_empty(self) -> bool {
        self.style == 0 && self.link == 0
    }
}

/// The attributes that the next characters get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pen {
    pub(crate) fg: u32,
    pub(crate) bg: u32,
    pub(crate) extended: Extended,
    /// Index of `extended`, valid if `bg` has [`EXTENDED`].
    pub(crate) ext: u32,
}

impl Pen {
    /// The attributes of cells that this pen writes.
    pub(crate) fn attr(&self) -> Attr {
        Attr { fg: self.fg, bg: self.bg, ext: if self.bg & EXTENDED == 0 { 0 } else { self.ext } }
    }

    /// The attributes of cells that are erased: only the background colour is used.
    pub(crate) fn erase_attr(&self) -> Attr {
        Attr { fg: 0, bg: self.bg & COLOR_MASK, ext: 0 }
    }
}
