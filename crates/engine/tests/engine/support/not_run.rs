//! Reports tests that cannot run on this machine. Unit tests and integration tests share this file.

use std::io::Write;

/// Notes that the current test cannot run here; the test returns then. Appends a line to the file that
/// `SANDCRAB_NOT_RUN` names, from which `./test` counts what was not run.
#[expect(clippy::print_stderr, reason = "says why nothing was tested")]
pub(crate) fn not_run(reason: &str) {
    eprintln!("not run: {reason}");
    let Some(path) = std::env::var_os("SANDCRAB_NOT_RUN") else { return };
    let name = std::env::var("NEXTEST_TEST_NAME");
    let name = name.unwrap_or_else(|_| std::thread::current().name().unwrap_or("unknown").to_owned());
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    // One write, so that lines of tests that run at the same time are not mixed.
    file.write_all(format!("{reason}\t{name}\n").as_bytes()).unwrap();
}
