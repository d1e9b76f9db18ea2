//! Keeps children alive (argument 1: how many): forks a new one whenever one ends, for a time (argument 2, in
//! seconds; default 10). Prints `ready` when all exist.

use std::time::Duration;

use sandcrab_conformance::fixture;

fn main() {
    let children: u32 = fixture::argument(1, "the number of children");
    let seconds = fixture::argument_or(2, "the lifetime in seconds", 10);
    fixture::start_for(Duration::from_secs(seconds));
    for _ in 0..children {
        spawn();
    }
    fixture::say("ready");
    while fixture::wait() && !fixture::is_over() {
        spawn();
    }
}

fn spawn() {
    if fixture::fork().is_none() {
        fixture::sleep_until_killed();
    }
}
