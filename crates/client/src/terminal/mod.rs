//! Terminals: one method for each route, and [`Attachment`], the WebSocket of a viewer.

mod attachment;
mod connect;
mod outgoing;
mod routes;
#[cfg(test)]
mod tests;

pub(crate) use connect::Socket as RawSocket;

pub use attachment::{AttachOptions, Attachment, TerminalEvent};
pub use outgoing::MAX_QUEUED_INPUT_BYTES;
pub use routes::{Recording, ScreenOptions};
