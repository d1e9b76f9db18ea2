//! Dies of a signal (argument 1, its number); exits with code 3 if the signal does not kill.

use sandcrab_conformance::fixture;

fn main() {
    fixture::start();
    fixture::die_of(fixture::argument(1, "the signal"));
    fixture::end(3);
}
