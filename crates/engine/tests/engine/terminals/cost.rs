//! Idle terminals cost little memory and no processor time.

use std::time::Duration;

use super::Seen;
use crate::support::{Place, cpu_ticks, eventually, supervisor_of};

/// Terminals in this test.
const TERMINALS: u64 = 20;
/// Memory of one terminal: its supervisor and its bash. The shell alone needs nearly 600 KiB.
const MAX_BYTES: u64 = 1 << 20;

/// The proportional memory of a process, in bytes.
fn proportional_bytes(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find(|line| line.starts_with("Pss:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

#[tokio::test]
async fn idle_terminals_are_cheap() {
    let place = Place::new();
    let engine = place.open().await;
    let mut shells = Vec::new();
    for _ in 0..TERMINALS {
        shells.push(Seen::shell(&engine).await);
    }
    let programs: Vec<u32> =
        shells.iter().map(|shell| shell.terminal.execution().info().pid.unwrap()).collect();
    let supervisors: Vec<u32> =
        shells.iter().map(|shell| supervisor_of(shell.terminal.execution()).pid).collect();
    // The last prompt may still be handled, and memory is returned after a second.
    let ticks = || supervisors.iter().chain(&programs).map(|pid| cpu_ticks(*pid)).sum::<u64>();
    eventually("they use no processor time for two seconds", || {
        let before = ticks();
        std::thread::sleep(Duration::from_secs(2));
        ticks() == before
    })
    .await;
    let average = |pids: &[u32]| pids.iter().map(|pid| proportional_bytes(*pid)).sum::<u64>() / TERMINALS;
    let (of_programs, of_supervisors) = (average(&programs), average(&supervisors));
    #[expect(clippy::print_stdout, reason = "a figure")]
    {
        println!("{of_supervisors} bytes per supervisor, {of_programs} per shell");
    }
    assert!(of_programs + of_supervisors <= MAX_BYTES, "{of_supervisors} and {of_programs} bytes");
}
