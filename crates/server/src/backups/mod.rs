//! Backups that the server keeps, and the transfer of archives to and from other servers.

mod expiry;
mod store;
mod transfer;

pub(crate) use expiry::run as run_expiry;
pub(crate) use store::Store;
pub(crate) use transfer::{download, upload};
