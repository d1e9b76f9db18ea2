//! Runs away: each process forks the next and exits, so that signals always arrive too late. Ends after a
//! number of processes (argument 1, default 100,000) or seconds (argument 2, default 10). Prints `ready`
//! first. The chain leaves the session and holds none of its pipes.

use std::time::Duration;

use sandcrab_conformance::fixture;

fn main() {
    let links = fixture::argument_or(1, "the number of links", 100_000_u32);
    let seconds = fixture::argument_or(2, "the lifetime in seconds", 10);
    fixture::start_for(Duration::from_secs(seconds));
    fixture::say("ready");
    fixture::daemon(true, || {
        for _ in 0..links {
            if fixture::is_over() || fixture::fork().is_some() {
                return;
            }
        }
    });
}
