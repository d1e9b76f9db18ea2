//! Bodies: reading within limits ([`read`]), producing in pieces ([`pieces`]), and ranges ([`range`]).

pub(crate) mod pieces;
pub(crate) mod range;
pub(crate) mod read;
