//! Runs shells as a supervisor does, over both drivers.

mod cases;
mod discarded;
mod endings;
mod environments;
mod harness;
mod life;
mod like_bash;
mod own_settings;
mod snapshots;
mod table;
mod unchanged;
