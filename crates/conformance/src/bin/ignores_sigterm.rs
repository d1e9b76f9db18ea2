//! Ignores SIGTERM: prints `ready`, then sleeps until something stronger comes.

use sandcrab_conformance::fixture;

fn main() {
    fixture::start();
    // 15 on every Linux.
    fixture::ignore_signal(15);
    fixture::say("ready");
    fixture::sleep_until_killed();
}
