//! Escapes its session: starts daemons (argument 1: how many, default 1) with two forks and a new session in
//! between, prints their process ids, and exits.

use sandcrab_conformance::fixture;

fn main() {
    fixture::start();
    for _ in 0..fixture::argument_or(1, "the number of daemons", 1_u32) {
        let pid = fixture::daemon(true, || fixture::sleep_until_killed());
        fixture::say(&pid.to_string());
    }
}
