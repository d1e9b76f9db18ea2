//! Tests of the emulator through its interface.

mod behaviour;
mod fuzz;
mod hostile;
mod output;
mod roundtrip;
