//! The supervisor side: processes that own the work.
//!
//! - [`zygote`]: forks supervisors.
//! - [`event_loop`]: one supervisor, from its first to its last breath.
//! - [`run`], [`session`]: what it does as the supervisor of a run or of a session.
//! - [`job`]: one execution in its hands; [`spawn`]: how a program is started; [`stdio`]: its streams.
//! - [`spin`]: when it stays awake for the end of a command.
//! - [`link`]: its connection to the engine; [`context`]: what it was born with.

pub(crate) mod context;
mod event_loop;
mod job;
mod link;
mod requests;
mod run;
mod session;
mod setup;
mod shell_children;
mod spin;
mod stdio;
pub(crate) mod zygote;
