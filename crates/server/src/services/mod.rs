//! Services: programs that the server keeps running (`docs/design/workspace.md`, Services).
//!
//! - `definition.rs`: a validated request; `policy.rs`: when a program is started again; `health.rs`: what results of checks
//!   mean; `check.rs`: one health check. The first three have no clock and no I/O.
//! - `record.rs`: the record of a service in the state directory.
//! - `task.rs`: the task that owns a service, and changes its record; `snapshot.rs`: what others see of it; `ending.rs`: ends its program.
//! - `registry.rs`: [`Services`], all services of a server; `stream.rs`: the output of a service across its executions.

mod check;
mod definition;
mod ending;
mod health;
mod policy;
mod record;
mod registry;
mod snapshot;
mod stream;
mod task;

pub(crate) use definition::ready_timeout;
pub(crate) use ending::AfterEnd;
pub(crate) use registry::{Handle, NewService, Services, adopt};
pub(crate) use snapshot::Snapshot;
pub(crate) use stream::{Position, follow};
