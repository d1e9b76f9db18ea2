//! Leaves orphans: forks sleepers twice (argument 1: how many, default 1), prints their process ids, and
//! exits. They stay in its session and process group, and hold none of its pipes.

use sandcrab_conformance::fixture;

fn main() {
    fixture::start();
    for _ in 0..fixture::argument_or(1, "the number of orphans", 1_u32) {
        let pid = fixture::daemon(false, || fixture::sleep_until_killed());
        fixture::say(&pid.to_string());
    }
}
