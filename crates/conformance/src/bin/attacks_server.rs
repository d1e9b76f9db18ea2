//! Tries actions that a command must not be able to perform on its server: `attacks_server STATE_DIR PID...`.
//! Prints a line for each successful attempt, and finally the number of attempts.

use std::path::Path;

use sandcrab_conformance::fixture::{self, attack};

fn main() {
    fixture::start();
    let mut words = std::env::args().skip(1);
    let state_dir = words.next().unwrap_or_else(|| fixture::fail("give a state directory"));
    let mut attempts = 2;
    attack::readable(Path::new(&state_dir)).iter().for_each(|path| fixture::say(&format!("read {path}")));
    attack::reachable_sockets("sandcrab").iter().for_each(|name| fixture::say(&format!("connect {name}")));
    for pid in words.filter_map(|word| word.parse().ok()) {
        for (name, attempt) in attack::ATTEMPTS {
            attempts += 1;
            if attempt(pid) {
                fixture::say(&format!("{name} {pid}"));
            }
        }
    }
    fixture::say(&format!("attempts: {attempts}"));
}
