//! Ports: whether one is ready ([`probe`]).

pub(crate) mod probe;
