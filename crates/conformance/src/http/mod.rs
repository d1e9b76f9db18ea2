//! A small HTTP/1.1 client without hidden behaviour: it sends exactly what it is told, reports whether a
//! response was complete, and can stop reading at any time.
//!
//! [`Target`] is the server under test. Anything unexpected, such as a lost connection, is a panic, as in any
//! test.

mod body;
mod connection;
mod event;
mod observed;
mod request;
mod response;
mod socket;
mod target;
mod viewer;

pub use body::Body;
pub use connection::Connection;
pub use event::{Event, EventStream, Part};
pub use observed::observed;
pub use request::Request;
pub use response::{Head, Response};
pub use socket::Socket;
pub use target::{TEST_TIMEOUT, Target, TargetError};
pub use viewer::{Viewer, ViewerMessage};
