//! Bodies: read within bounds ([`read`]), written in pieces ([`pieces`]), and parts of them ([`range`]).

pub(crate) mod pieces;
pub(crate) mod range;
pub(crate) mod read;
