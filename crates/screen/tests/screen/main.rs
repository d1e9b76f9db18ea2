//! Tests of the emulator through its interface.

mod behaviour;
mod hostile;
mod output;
mod roundtrip;
