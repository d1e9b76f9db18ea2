//! Ignores SIGTERM: prints `ready`, then sleeps until another signal ends it.

use sandcrab_conformance::fixture;

fn main() {
    fixture::start();
    // SIGTERM is 15 on every Linux architecture.
    fixture::ignore_signal(15);
    fixture::say("ready");
    fixture::sleep_until_killed();
}
