//! Starts the runtimes of this program.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// How long an idle thread for blocking work is kept.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why a thread could not be started.
pub(crate) const NO_THREAD: &str = "failed to start a thread: too many processes; end some, or raise the limit of processes \
                                    (`ulimit -u`, or pids.max of the cgroup)";

/// Starts a runtime with one thread for blocking work, which is kept: later the machine may be out of processes, and the
/// runtime panics without any. If threads cannot be started now, calls `report` and exits with this code.
pub(crate) fn start(
    builder: &mut Builder,
    exit_code: u8,
    report: impl Fn() + Send + Sync + 'static,
) -> io::Result<Runtime> {
    // If only some threads can be started, the runtime panics and then waits forever for those.
    #[expect(clippy::exit, reason = "before it waits")]
    std::panic::set_hook(Box::new(move |_| {
        report();
        std::process::exit(exit_code.into());
    }));
    let runtime = builder.enable_all().thread_keep_alive(FOREVER).build();
    if let Ok(runtime) = &runtime {
        drop(runtime.spawn_blocking(|| ()));
    }
    drop(std::panic::take_hook());
    runtime
}
