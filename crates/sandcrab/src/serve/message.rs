//! Messages of `serve` on standard error that are not part of the log. They look as those of the other commands.

use std::fmt;
use std::io::{self, Write};

use sandcrab_api::without_error_number;

/// It ends, or something that was requested does not work.
pub(super) const ERROR: &str = "error";
/// It continues.
pub(super) const WARNING: &str = "warning";

/// Prints a message on standard error, which may be closed.
pub(super) fn print_message(word: &str, text: fmt::Arguments<'_>) {
    drop(writeln!(io::stderr(), "{word}: {}", without_error_number(text.to_string())));
}
