//! The supervisor side: processes that own the work.
//!
//! - [`zygote`]: forks supervisors; [`context`]: what each inherits from it.
//! - [`event_loop`]: one supervisor, from start to exit; [`core`]: what every one has; [`requests`]: what it does on each
//!   request.
//! - [`role`]: what it is for: [`ready`], [`run`] or [`session`], each with its own fields, deadlines and end.
//! - [`job`]: one execution; [`job_io`]: its pipes; [`reader_gate`]: the reader it may wait for; [`stdio`]: where pipes come from.
//! - [`remains`]: what executions have left running; [`keeper`]: what supervisors have.
//! - [`spin`]: when it stays awake for the end of a command; [`link`]: its connection to the engine.

pub(crate) mod context;
mod core;
mod event_loop;
mod job;
mod job_io;
mod keeper;
mod leftover_probe;
mod link;
mod own_limits;
mod reader_gate;
mod ready;
mod remains;
mod requests;
mod role;
mod run;
mod session;
mod setup;
pub(crate) mod shell_input;
mod spin;
mod stdio;
mod template;
pub(crate) mod zygote;
