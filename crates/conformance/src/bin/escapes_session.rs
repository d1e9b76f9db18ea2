//! Escapes its session: starts daemons (how many: argument 1, one unless told) the classic way, with a
//! session of their own between two forks, prints their process ids, and exits.

use sandcrab_conformance::fixture;

fn main() {
    fixture::start();
    for _ in 0..fixture::argument_or(1, "the number of daemons", 1_u32) {
        let pid = fixture::daemon(true, || fixture::sleep_until_killed());
        fixture::say(&pid.to_string());
    }
}
