//! An async Rust client of a Sandcrab server, on the shared wire types.
