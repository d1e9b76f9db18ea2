//! Plays the table of hostile commands over both drivers.

use std::time::Duration;

use super::harness::{Ended, Outcome, Run, Session};
use super::table::{Case, Expected, Step, Text, all, bash_version, for_this_bash, ok};
use crate::shell::{CommandEnd, Driver};

impl Step {
    fn check(&self, driver: Driver, outcome: &Outcome) -> Result<(), String> {
        let ended = match (self.ended, driver) {
            (Expected::Normal(-1), _) => outcome.ended,
            // Until 4.4 a syntax error in a sourced file is 1.
            (Expected::Normal(2), Driver::Portable) if bash_version() < (5, 0) => outcome.ended,
            (Expected::Normal(status), _) => Ended::Done { status, how: CommandEnd::Normal },
            (Expected::Exit(status), Driver::Loaded) => Ended::Done { status, how: CommandEnd::Exit },
            (Expected::Exit(status), Driver::Portable) => Ended::Died(status),
            (Expected::Signal(signal), _) => Ended::Done { status: 128 + signal, how: CommandEnd::Signal },
            (Expected::AnySignal, _) => match outcome.ended {
                signal @ Ended::Done { how: CommandEnd::Signal, .. } => signal,
                _ => Ended::Done { status: 128, how: CommandEnd::Signal },
            },
            (Expected::Interrupted, _) => Ended::Done { status: 130, how: CommandEnd::Interrupted },
            (Expected::Died(status), _) => Ended::Died(status),
        };
        if outcome.ended == ended
            && self.stdout.matches(&outcome.out())
            && self.stderr.matches(&outcome.err())
        {
            return Ok(());
        }
        let short = |text: String| text.chars().take(300).collect::<String>();
        Err(format!(
            "{:?}: {:?} (not {ended:?}) after {:?}\n  stdout {:?}\n  stderr {:?}",
            short(self.text.clone()),
            outcome.ended,
            outcome.took,
            short(outcome.out()),
            short(outcome.err()),
        ))
    }
}

fn play(driver: Driver, case: &Case) -> Result<(), String> {
    let mut session = Session::new(driver);
    for step in &case.steps {
        let mut how = Run { stdin: step.stdin, open_stdin: step.open_stdin, ..Run::default() };
        if matches!(step.ended, Expected::Interrupted) {
            how.interrupt = Some(Duration::from_millis(150));
            if let Text::Is(expected) = &step.stdout {
                how.interrupt_after = expected.len();
            }
        }
        let outcome = session.run_with(step.text.as_bytes(), how);
        step.check(driver, &outcome)?;
        if matches!(outcome.ended, Ended::Died(_)) {
            return Ok(());
        }
    }
    ok("\\echo ok", "ok\n").any_err().check(driver, &session.run("\\echo ok"))
}

/// Plays all cases, several at a time, and returns what failed.
fn play_all(driver: Driver) -> Vec<(&'static str, Result<(), String>)> {
    let mut cases = for_this_bash();
    cases.retain(|case| driver == Driver::Loaded || case.loaded_only.is_none());
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut results = Vec::new();
                    while let Some(case) = cases.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                    {
                        let result = std::panic::catch_unwind(|| play(driver, case));
                        let result = result.unwrap_or_else(|_| Err("panicked".into()));
                        results.push((case.name, result));
                    }
                    results
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    results.sort_by_key(|(name, ..)| *name);
    results
}

#[test]
fn loaded() {
    let failed: Vec<_> = play_all(Driver::Loaded).into_iter().filter(|(_, result)| result.is_err()).collect();
    let report: String =
        failed.iter().map(|(name, result)| format!("\n{name}: {}", result.as_ref().unwrap_err())).collect();
    assert!(failed.is_empty(), "{} cases failed{report}", failed.len());
}

#[test]
fn portable() {
    let failed: Vec<_> = play_all(Driver::Portable)
        .into_iter()
        .filter(|(_, result)| result.is_err())
        // From 5.3 on an interactive bash that waits dies of the interrupt.
        .filter(|(name, ..)| *name != "wait for a background job" || bash_version() < (5, 3))
        .collect();
    let report: String =
        failed.iter().map(|(name, result)| format!("\n{name}: {}", result.as_ref().unwrap_err())).collect();
    assert!(failed.is_empty(), "{} cases failed{report}", failed.len());
}

/// The cases that only the loaded driver passes, by reason.
fn differences() -> String {
    let mut by_reason = std::collections::BTreeMap::<_, Vec<_>>::new();
    for case in all() {
        if let Some(reason) = case.loaded_only {
            by_reason.entry(reason).or_default().push(case.name);
        }
    }
    let rows = by_reason.into_iter().map(|(reason, names)| format!("| {reason} | {} |\n", names.join(", ")));
    format!(
        "| why the portable driver differs | cases |\n|---|---|\n{}",
        rows.collect::<String>().replace("${x:?}", "`${x:?}`")
    )
}

/// The specification lists them. `UPDATE_SPECIFICATION=1` writes the list.
#[test]
fn the_specification_lists_the_differences() {
    const BEGIN: &str = "<!-- drivers:begin -->\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../SPECIFICATION.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (listed, after) = rest.split_once("<!-- drivers:end -->").unwrap();
    if std::env::var_os("UPDATE_SPECIFICATION").is_some() {
        let new = format!("{before}{BEGIN}{}<!-- drivers:end -->{after}", differences());
        std::fs::write(path, new).unwrap();
    } else {
        assert_eq!(listed, differences(), "run the test with UPDATE_SPECIFICATION=1");
    }
}
