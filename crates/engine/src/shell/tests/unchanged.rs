//! Snapshots that are only wanted after a change.

use super::harness::{Run, Session, TEST_TIMEOUT, set};
use crate::shell::{Driver, Report, Snapshot, SnapshotError, Urgency};

impl Session {
    /// The state if it has changed since the last snapshot, or since the shell's first command.
    fn change(&mut self) -> Option<Snapshot> {
        self.shell.snapshot_if_changed(Urgency::High).unwrap();
        match self.report(TEST_TIMEOUT) {
            Some(Report::Snapshot(Ok(snapshot))) => Some(snapshot),
            Some(Report::Snapshot(Err(SnapshotError::Unchanged))) => None,
            other => panic!("{other:?} in place of a snapshot"),
        }
    }
}

/// Each is a change to the one before it.
const CHANGES: &[&str] = &[
    "x=1",
    "x=2",
    "export x",
    "readonly y=",
    "declare -i x",
    "declare -l z=A",
    "unset x",
    "cd /usr",
    "umask 027",
    "set -- a",
    "set -- a b",
    "set -- a b c d e f g h i j k",
    "set -- a b c d e f g h i j l",
    "alias ll='ls -l'",
    "alias ll='ls -a'",
    "unalias ll",
    "shopt -s nullglob",
    "set -o noglob",
    "set +o noglob",
    "trap 'echo' USR1",
    "trap 'true' USR1",
    "trap '' USR1",
    "trap - USR1",
    "trap ':' EXIT",
    "trap ':' DEBUG",
    "trap - DEBUG",
    "enable -n echo",
    "enable echo",
    "f() { echo a; }",
    "f() { echo b; }",
    "export -f f",
    "readonly -f f",
    "g() { for i in 1 2; do echo $i; done; }",
    "unset -f g",
    "export UID",
    "export SHELLOPTS",
    "false",
    "(exit 3)",
    "printf -v text '%0300000d' 0",
    "text=",
    "declare -A map=([a]=1)",
    "map[b]=2",
    "list=(1 2)",
    "list[5]=3",
    "unset map list",
    "GLOBIGNORE=x",
    "shopt -u dotglob",
    "h() { cat <<X\na\nX\n}",
    "h() { cat <<X\nb\nX\n}",
    "set -o posix; set +o posix",
    "set -o posix",
];

#[test]
fn a_change_of_any_kind_is_seen() {
    let mut session = Session::new(Driver::Loaded);
    for change in CHANGES {
        session.run(change);
        assert!(session.change().is_some(), "{change}");
    }
}

/// What a command was given for itself is not the state that its shell began with.
#[test]
fn the_own_environment_of_the_first_command_is_not_the_state() {
    let given = [set("GIVEN", "1")];
    for (next, is_change) in [("true", false), ("export GIVEN=1", true)] {
        let mut session = Session::new(Driver::Loaded);
        session.run_with(b"true", Run { env: &given, ..Run::default() });
        session.run(next);
        assert_eq!(session.change().is_some(), is_change, "{next}");
    }
}

#[test]
fn a_command_that_changes_nothing_needs_no_snapshot() {
    const NONE: &[&str] =
        &["true", "echo a b >/dev/null", "ls / >/dev/null", "(x=3; cd /tmp)", "x=1 true", ": ${x-}"];
    for first in ["", "v=1; cd /usr; f() { echo a; }; alias a=b; trap : USR1", "set -u; shopt -s extglob"] {
        let mut session = Session::new(Driver::Loaded);
        if !first.is_empty() {
            session.run(first);
            assert!(session.change().is_some(), "{first}");
        }
        for text in NONE {
            session.run(text);
            assert!(session.change().is_none(), "{text} after {first:?}");
        }
    }
}

/// What is said to be unchanged is the same text.
#[test]
fn unchanged_agrees_with_a_snapshot() {
    let mut session = Session::new(Driver::Loaded);
    let mut last = session.snapshot().unwrap();
    for text in CHANGES.iter().flat_map(|change| [*change, change, "true", "echo $x >/dev/null"]) {
        session.run(text);
        match session.change() {
            Some(snapshot) => last = snapshot,
            None => assert_eq!(
                String::from_utf8_lossy(session.snapshot().unwrap().as_bytes()),
                String::from_utf8_lossy(last.as_bytes()),
                "{text}"
            ),
        }
    }
}

#[test]
fn a_restored_shell_gives_its_state_the_first_time() {
    let mut session = Session::new(Driver::Loaded);
    session.run("x=1");
    let snapshot = session.snapshot().unwrap();
    let mut restored = Session::empty(Driver::Loaded);
    restored.restore(&snapshot);
    assert_eq!(restored.change().map(|text| text.as_bytes().to_vec()), Some(snapshot.as_bytes().to_vec()));
    assert!(restored.change().is_none());
}

#[test]
fn the_portable_driver_always_gives_its_state() {
    let mut session = Session::new(Driver::Portable);
    session.run("true");
    assert!(session.change().is_some());
    assert!(session.change().is_some());
}
