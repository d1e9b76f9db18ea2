//! Writes binary data: every byte value, NUL bytes, invalid UTF-8, and no final newline.

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
