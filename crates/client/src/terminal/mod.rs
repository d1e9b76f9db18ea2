//! Terminals: one method for each route, and [`Attachment`], the WebSocket of a viewer.

mod attachment;
mod connect;
mod routes;
#[cfg(test)]
mod tests;

pub use attachment::{AttachOptions, Attachment, MAX_QUEUED_INPUT_BYTES, TerminalEvent};
pub use routes::{Recording, ScreenOptions};
