//! Runs shells as a supervisor does, over both drivers.

mod cases;
mod harness;
mod more;
mod table;
