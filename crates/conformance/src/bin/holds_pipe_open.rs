//! Holds its pipe open: prints the process id of a child and exits. The child keeps the output open, and
//! writes `late` to it after a time (argument 1, in milliseconds; default one minute).

use std::thread;
use std::time::Duration;

use sandcrab_conformance::fixture;

fn main() {
    fixture::start();
    let milliseconds = fixture::argument_or(1, "the delay in milliseconds", 60_000);
    if let Some(pid) = fixture::fork() {
        fixture::say(&pid.to_string());
    } else {
        thread::sleep(Duration::from_millis(milliseconds));
        fixture::say("late");
    }
}
