//! Runs away: each process forks the next and exits, so that a signal always comes too late. Ends
//! after so many links (argument 1; a hundred thousand unless told) or seconds (argument 2; ten unless
//! told). Prints `ready` first; the chain leaves the session and holds none of its pipes.

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
