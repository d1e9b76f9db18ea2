//! A small HTTP/1.1 client that does nothing behind a case's back: it sends what it is told, says whether an answer
//! was cut or complete, and can stop reading whenever a case wants it to.
//!
//! [`Target`] is the server under test. What a case does not expect, a connection that breaks included, is a
//! panic, as in any test.

mod answer;
mod body;
mod connection;
mod event;
mod request;
mod socket;
mod target;

pub use answer::{Answer, Head};
pub use body::Body;
pub use connection::Connection;
pub use event::{Event, EventStream, Part};
pub use request::Request;
pub use socket::Socket;
pub use target::{TEST_TIMEOUT, Target, TargetError};
