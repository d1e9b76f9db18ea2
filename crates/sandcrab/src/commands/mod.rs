//! One file per subcommand: its options, whose comments are the help text, and what it does.

pub(crate) mod serve;
