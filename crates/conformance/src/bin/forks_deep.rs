//! Forks a deep tree: a number of generations (argument 1), in each of which every process forks a number of
//! children (argument 2, default 1). Prints `ready N` once all N processes sleep.

use std::io::{self, PipeWriter, Read, Write};

use sandcrab_conformance::fixture;

/// A larger tree is a mistake in the test.
const MAX_PROCESSES: u64 = 5_000;

fn main() {
    fixture::start();
    let depth = fixture::argument(1, "the depth");
    let width = fixture::argument_or(2, "the width", 1_u64);
    let descendants =
        (1..=depth).fold(0_u64, |total, generation| total.saturating_add(width.saturating_pow(generation)));
    if descendants >= MAX_PROCESSES {
        fixture::fail(&format!("a tree of more than {MAX_PROCESSES} processes is too large"));
    }
    let (reader, writer) = match io::pipe() {
        Ok(ends) => ends,
        Err(error) => fixture::fail(&format!("could not make a pipe: {error}")),
    };
    grow(depth, width, &writer);
    drop(writer);
    let mut arrived = Vec::new();
    if reader.take(descendants).read_to_end(&mut arrived).is_err() {
        fixture::fail("the descendants did not arrive");
    }
    fixture::say(&format!("ready {}", arrived.len() + 1));
    fixture::sleep_until_killed();
}

/// Forks the children of this process, which do the same. Then reports to the root and sleeps.
fn grow(depth: u32, width: u64, mut arrival: &PipeWriter) {
    if depth == 0 {
        return;
    }
    for _ in 0..width {
        if fixture::fork().is_none() {
            grow(depth - 1, width, arrival);
            // If the root has ended, the report is not needed.
            arrival.write_all(&[1]).ok();
            fixture::sleep_until_killed();
        }
    }
}
