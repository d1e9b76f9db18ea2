//! Allocates memory (argument 1, in bytes) and touches every page. Prints `ready`, then sleeps (argument 2,
//! in seconds; default 0). Exits with code 1 if the allocation fails.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use sandcrab_conformance::fixture;

fn main() {
    fixture::start();
    let bytes = fixture::argument(1, "the number of bytes");
    let seconds = fixture::argument_or(2, "the time to sleep in seconds", 0);
    let mut memory: Vec<u8> = Vec::new();
    if memory.try_reserve_exact(bytes).is_err() {
        fixture::say("refused");
        fixture::end(1);
    }
    // Not zero, because zero pages could stay untouched.
    memory.resize(bytes, 1);
    black_box(&memory);
    fixture::say("ready");
    thread::sleep(Duration::from_secs(seconds));
}
