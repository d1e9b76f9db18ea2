//! The modes that programs set, and that clients need to know.

/// The mouse events that a program asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MouseTracking {
    /// No mouse events.
    #[default]
    None,
    /// Button presses only (DECSET 9).
    X10,
    /// Presses, releases and the wheel (DECSET 1000).
    Button,
    /// As `Button`, and motion while a button is held (DECSET 1002).
    Drag,
    /// As `Button`, and all motion (DECSET 1003).
    Any,
}

/// The encoding of mouse events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MouseEncoding {
    /// `CSI M` and three bytes.
    #[default]
    Default,
    /// `CSI <`, decimal numbers (DECSET 1006).
    Sgr,
    /// As `Sgr`, in pixels (DECSET 1016).
    SgrPixels,
}

/// The shape of the cursor (DECSCUSR).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CursorShape {
    /// A filled block.
    Block,
    /// A line below the character.
    Underline,
    /// A line before the character.
    Bar,
}

/// The modes of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// Cursor keys send `ESC O` sequences (DECCKM, DECSET 1).
    pub application_cursor_keys: bool,
    /// The keypad sends its own sequences (DECKPAM, DECSET 66).
    pub application_keypad: bool,
    /// Pasted text is enclosed in `CSI 200 ~` and `CSI 201 ~` (DECSET 2004).
    pub bracketed_paste: bool,
    /// Changes of focus are reported (DECSET 1004).
    pub focus_events: bool,
    /// The mouse events that are reported.
    pub mouse_tracking: MouseTracking,
    /// The encoding of mouse events.
    pub mouse_encoding: MouseEncoding,
    /// Text continues in the next row at the right margin (DECAWM, DECSET 7).
    pub wraparound: bool,
    /// Backspace at the left margin continues in the previous row (DECSET 45).
    pub reverse_wraparound: bool,
    /// Rows count from the top of the scroll region (DECOM, DECSET 6).
    pub origin: bool,
    /// Characters are inserted (IRM, SM 4).
    pub insert: bool,
    /// A line feed also returns the carriage (LNM, SM 20).
    pub newline: bool,
    /// Output is shown when this is reset (DECSET 2026).
    pub synchronized_output: bool,
    /// The cursor is shown (DECTCEM, DECSET 25).
    pub cursor_visible: bool,
    /// The cursor blinks (DECSET 12).
    pub cursor_blink: bool,
    /// Shape of the cursor and whether it blinks (DECSCUSR); `None` is the terminal's default.
    pub cursor_style: Option<(CursorShape, bool)>,
}

impl Default for Modes {
    fn default() -> Self {
        Self {
            application_cursor_keys: false,
            application_keypad: false,
            bracketed_paste: false,
            focus_events: false,
            mouse_tracking: MouseTracking::None,
            mouse_encoding: MouseEncoding::Default,
            wraparound: true,
            reverse_wraparound: false,
            origin: false,
            insert: false,
            newline: false,
            synchronized_output: false,
            cursor_visible: true,
            cursor_blink: false,
            cursor_style: None,
        }
    }
}
