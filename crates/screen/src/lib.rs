//! A terminal emulator without I/O, whose repaint reproduces its whole state in another terminal.
//!
//! # Usage
//!
//! ```
//! use sandcrab_screen::{SCROLLBACK_LINES, Screen, Size};
//!
//! let mut screen = Screen::new(Size::new(80, 24), SCROLLBACK_LINES);
//! screen.feed(b"\x1b[31mhello\x1b[0m");
//! assert!(screen.text(0).starts_with("hello\n"));
//!
//! // A viewer that connects now sees the same, and continues with the same output.
//! let mut viewer = Screen::new(screen.size(), SCROLLBACK_LINES);
//! viewer.feed(&screen.repaint());
//! assert!(viewer.rows(0).eq(screen.rows(0)));
//! ```
//!
//! # Theory of operation
//!
//! [`Screen::feed`] decodes UTF-8, passes code points through a state machine of escape sequences, and changes two
//! buffers of rows. The state distinguishes all that xterm.js distinguishes, and the sequences do what they do there.
//! [`Screen::repaint`] writes a sequence of bytes that leads an emptied terminal into the same state. A repaint is also
//! the form in which a screen is stored: feeding it to a new screen restores it.
//!
//! [`Screen::take_replies`] returns answers to queries. Viewers answer queries too, so use them only without a viewer.
//!
//! # Limits
//!
//! Nothing grows with the output: rows by the size and the scrollback, strings, parameters, texts, links, titles and
//! answers by named limits. `SPECIFICATION.md` lists them, and the differences from xterm.js.

mod buffer;
mod cell;
mod charset;
mod control;
mod cursor;
mod dump;
mod edit;
mod extras;
mod foreign;
mod mode_control;
mod modes;
mod osc;
mod palette;
mod params;
mod parser;
mod print;
mod reflow;
mod repaint;
mod reply;
mod ring;
mod row;
mod screen;
mod sgr;
mod size;
mod style;
mod tabs;
mod utf8;
mod view;
mod width;

pub use modes::{CursorShape, Modes, MouseEncoding, MouseTracking};
pub use reply::REPLIES_LIMIT;
pub use screen::Screen;
pub use size::Size;
pub use style::{Color, Style, Underline};
pub use view::{Cursor, RowView, Run};
pub use width::columns;

/// Default number of lines that a screen keeps above it.
pub const SCROLLBACK_LINES: usize = 1000;
