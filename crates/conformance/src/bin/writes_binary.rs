//! Writes bytes that are not text: every value, NULs, broken UTF-8, and no newline at the end.

use std::io::{self, Write};

use sandcrab_conformance::fixture;

fn main() {
    fixture::start();
    let mut stdout = io::stdout();
    let written = stdout.write_all(&fixture::binary_sample()).and_then(|()| stdout.flush());
    if let Err(error) = written {
        fixture::fail(&format!("could not write: {error}"));
    }
}
