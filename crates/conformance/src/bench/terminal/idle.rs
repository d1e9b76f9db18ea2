//! A thousand terminals that do nothing.

use std::thread;
use std::time::Duration;

use super::create;
use crate::bench::http::Server;
use crate::bench::{FigureError, FigureLimit, Measure, Row, Table};

const TERMINALS: u32 = 1_000;
/// The time after which shells have printed their prompts, and the time over which processor time is counted.
const SETTLE: Duration = Duration::from_secs(5);

/// Measures the memory and the processor time of a thousand idle shells with their supervisors.
pub(super) fn push(
    server: &Server,
    table: &mut Table,
    progress: &mut dyn FnMut(&str),
) -> Result<(), FigureError> {
    progress("1,000 idle terminals");
    let before = server.memory()?;
    for _ in 0..TERMINALS {
        create(server, None, (80, 24))?;
    }
    thread::sleep(SETTLE);
    let (memory, start) = (server.memory()?, server.processor_time());
    thread::sleep(SETTLE);
    let busy = server.processor_time().saturating_sub(start);
    let grown = (memory.others + memory.server).saturating_sub(before.others + before.server);
    #[expect(clippy::cast_precision_loss, reason = "figures are shown with three digits")]
    let each = grown as f64 / f64::from(TERMINALS);
    table.push(
        Row::new("memory of an idle terminal, of 1,000: shell, supervisor and server", Measure::Bytes(each))
            .limit(FigureLimit::AtMost(Measure::Bytes(700e3))),
    );
    table.push(
        Row::new("processor time of 1,000 idle terminals in 5 s", Measure::Time(busy))
            .limit(FigureLimit::AtMost(Measure::Time(Duration::from_millis(50)))),
    );
    Ok(())
}
