//! The local terminal: raw mode, keys, signals, and the view of a terminal on the server.
//!
//! [`view`] shows a terminal until it ends or the user detaches. Three sources are read at the same time: keys ([`keyboard`]),
//! signals ([`signals`]) and the connection. Output is written by a thread of its own ([`display`]), so that a terminal that
//! takes no output blocks neither keys nor signals. [`local`] restores the local terminal at the end, also after a panic;
//! [`modes`] tracks what the remote program has left on. [`player`] shows a recording ([`cast`]).

mod cast;
mod detach;
mod display;
mod keyboard;
mod local;
mod modes;
mod player;
mod signals;
mod size;
mod view;

pub(crate) use detach::DetachKeys;
pub(crate) use player::{PlayOptions, play};
pub(crate) use size::TerminalSize;
pub(crate) use view::{LocalScreen, Outcome, View};
