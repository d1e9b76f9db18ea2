//! Ends itself with a signal (argument 1, its number). Exits with code 3 if the signal does not end it.

use sandcrab_conformance::fixture;

fn main() {
    fixture::start();
    fixture::die_of(fixture::argument(1, "the signal"));
    fixture::end(3);
}
