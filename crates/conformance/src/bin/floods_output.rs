//! Floods its output: writes a number of bytes (argument 1) to stdout, stderr or both (argument 2) as fast as
//! possible. The bytes depend on the seed (argument 3, default 0): stdout gets `Flood::new(seed)`, stderr
//! `Flood::new(seed + 1)`. With `both`, each stream gets all bytes, in turns.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use sandcrab_conformance::fixture::{self, Flood};

fn main() {
    fixture::start();
    let bytes = fixture::argument(1, "the number of bytes");
    let stream = fixture::argument_or(2, "the stream", "stdout".to_owned());
    let seed: u64 = fixture::argument_or(3, "the seed", 0);
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let mut floods = Vec::new();
    if matches!(stream.as_str(), "stdout" | "both") {
        floods.push(Stream::new(&stdout, seed, bytes));
    }
    if matches!(stream.as_str(), "stderr" | "both") {
        floods.push(Stream::new(&stderr, seed.wrapping_add(1), bytes));
    }
    if floods.is_empty() {
        fixture::fail("the stream is one of stdout, stderr and both");
    }
    while floods.iter().any(|flood| flood.left > 0) {
        floods.iter_mut().for_each(Stream::write_chunk);
    }
}

/// An unbuffered stream and its unwritten rest.
struct Stream {
    file: File,
    flood: Flood,
    left: u64,
}

impl Stream {
    fn new(stream: &impl AsFd, seed: u64, bytes: u64) -> Self {
        match stream.as_fd().try_clone_to_owned() {
            Ok(descriptor) => Self { file: File::from(descriptor), flood: Flood::new(seed), left: bytes },
            Err(error) => fixture::fail(&format!("could not open the stream: {error}")),
        }
    }

    fn write_chunk(&mut self) {
        let chunk = self.flood.chunk(self.left);
        let written = chunk.len();
        if let Err(error) = self.file.write_all(chunk) {
            fixture::fail(&format!("could not write: {error}"));
        }
        self.flood.advance(written);
        self.left -= written as u64;
    }
}
