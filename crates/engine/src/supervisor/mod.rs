//! The supervisor side: the processes that own executions.
//!
//! - [`zygote`]: forks supervisors; [`context`]: what each inherits from it.
//! - [`event_loop`]: the event loop of a supervisor; [`core`]: the common state; [`requests`]: the handlers of
//!   requests; [`deadlines`]: timeouts.
//! - [`role`]: the role of a supervisor: [`ready`], [`run`], [`session`] or [`terminal`], each with its own fields,
//!   deadlines and end.
//! - [`job`]: one execution; [`job_io`]: its pipes; [`reader_gate`]: backpressure by its reader; [`stdio`]: creation
//!   of pipes.
//! - [`leftovers`]: leftovers of executions; [`orphan_reaper`]: orphans of dead supervisors.
//! - [`link`]: the connection to the engine.

pub(crate) mod context;
mod core;
mod deadlines;
mod event_loop;
mod job;
mod job_io;
mod leftover_probe;
mod leftovers;
mod link;
mod orphan_reaper;
mod own_limits;
mod reader_gate;
mod ready;
mod requests;
mod role;
mod run;
mod session;
mod setup;
pub(crate) mod shell_input;
mod stdio;
mod template;
mod terminal;
pub(crate) mod zygote;
