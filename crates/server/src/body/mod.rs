//! Bodies: reading within limits ([`read`]), producing in pieces ([`pieces`]), of files ([`file`]), and ranges ([`range`]).

pub(crate) mod file;
pub(crate) mod pieces;
pub(crate) mod range;
pub(crate) mod read;
