//! Records which operations the client used and what they answered, for `scripts/check-observed`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;

/// Longer request lines are invalid on purpose, and are cut.
const MAX_TITLE_BYTES: usize = 200;

/// Appends "TEST, METHOD PATH, STATUS, CODE" to the file that `SANDCRAB_OBSERVED` names, separated by tabs.
/// Does nothing without that variable.
pub fn observed(title: &str, status: u16, code: Option<&str>) {
    static FILE: OnceLock<Option<(File, String)>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let path = std::env::var_os("SANDCRAB_OBSERVED")?;
        let file = OpenOptions::new().create(true).append(true).open(path).ok()?;
        Some((file, std::env::var("NEXTEST_TEST_NAME").unwrap_or_default()))
    });
    let Some((file, test)) = file else { return };
    let title = title.split(['?', '\t', '\n']).next().unwrap_or_default();
    let title: String = title.chars().take(MAX_TITLE_BYTES).collect();
    let line = format!("{test}\t{title}\t{status}\t{}\n", code.unwrap_or_default());
    // One write, so that lines of tests that run at the same time are not mixed.
    let mut file = file;
    drop(file.write_all(line.as_bytes()));
}
