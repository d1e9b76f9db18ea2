//! Forks a deep tree: so many generations (argument 1), in each of which every process forks so many
//! children (argument 2, one unless told). Prints `ready N` once all N processes sleep.

use std::io::{self, PipeWriter, Read, Write};

use sandcrab_conformance::fixture;

/// A tree larger than this is a mistake in the test, not a test.
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

/// Forks the children of this process, each of which does the same, says that it is there, and sleeps.
fn grow(depth: u32, width: u64, mut arrival: &PipeWriter) {
    if depth == 0 {
        return;
    }
    for _ in 0..width {
        if fixture::fork().is_none() {
            grow(depth - 1, width, arrival);
            // A parent that is gone already is not waiting for this.
            arrival.write_all(&[1]).ok();
            fixture::sleep_until_killed();
        }
    }
}
