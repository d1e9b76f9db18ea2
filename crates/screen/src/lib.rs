//! A terminal emulator without I/O, whose repaint reproduces its whole state in another terminal.
//!
//! # Usage
//!
//! ```
//! use sandcrab_screen::{SCROLLBACK_LINES, Screen, Size};
//!
//! let mut screen = Screen::new(Size::new(80, 24), SCROLLBACK_LINES);
//! screen.feed(b"hello");
//! assert!(screen.text(0).starts_with("hello\n"));
//! ```

mod buffer;
mod cell;
mod charset;
mod control;
mod cursor;
mod dump;
mod edit;
mod extras;
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

/// Default number of lines that a screen keeps above it.
pub const SCROLLBACK_LINES: usize = 1000;
