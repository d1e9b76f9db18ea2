//! Allocates memory (argument 1, in bytes) and touches every page of it. Prints `ready`, then sleeps so
//! many seconds (argument 2, none unless told). Exits with code 1 if the memory is refused.

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
    // Not zero, or it could stay untouched.
    memory.resize(bytes, 1);
    black_box(&memory);
    fixture::say("ready");
    thread::sleep(Duration::from_secs(seconds));
}
