//! Saving a shell's state and bringing it back.

use std::time::{Duration, Instant};

use super::harness::{BOTH, Session, TEST_TIMEOUT, begin};
use super::table::bash_version;
use crate::shell::{Driver, Report, Snapshot, Urgency};

const RICH: &str = r#"
plain=1; export exported='a b'; readonly ro=3; declare -i int=4; declare -l lower=ABC; declare -u upper=abc
arr=(one 'two 2' [7]=seven); declare -A map=([k]=v ['sp ace']=$'new\nline' [\]]=x); declare -n ref=plain; declare -x unsetx; declare -i unseti
odd=$'\x01\xff\xfe\n\t\'"$`\\'; empty=; declare -a emptyarr=(); declare -ar roarr=(1 2); utf='äöü€'; unset SHLVL HOSTTYPE
f() { local x=$1; echo "f$x ${map[k]}"; cat <<EOT
here $x
EOT
}
g-h() { :; }; export -f f; r() { :; }; readonly -f r
shopt -s extglob nullglob
x() { case $1 in +(a|b)) echo ab;; !(c)) echo notc;; esac; }
cd() { echo mycd; builtin cd "$@"; }; declare() { echo mydeclare; }; set() { echo myset; }; echo() { printf 'E %s\n' "$*"; }
alias ll='ls -l' q="echo 'q'"; alias set='echo aliased' trap='echo aliasedtrap' '{'='echo brace'
trap 'printf bye' EXIT; trap '' USR1; trap 'printf "t\n"' TERM; trap 'printf ""' DEBUG; trap 'printf ""' ERR
builtin set -- 'pos 1' '' $'p\n3'
umask 027; builtin set -o pipefail; builtin set -u; builtin set -f
builtin cd /usr/lib
"#;

#[test]
fn snapshots_are_exact() {
    let mut session = Session::with_env(Driver::Loaded, &[("INHERITED", "i"), ("REMOVED", "r")]);
    session.run(RICH);
    session.run("unset -v REMOVED; builtin cd /usr; builtin set -e; shopt -s expand_aliases; (exit 42) && :");
    let first = session.snapshot().unwrap();
    assert_eq!(first.status(), 42);
    let mut restored = Session::empty(Driver::Loaded);
    restored.restore(&first);
    let second = restored.snapshot().unwrap();
    let text = |s: &Snapshot| String::from_utf8_lossy(s.as_bytes()).into_owned();
    assert_eq!(text(&first), text(&second));
    // The session itself has not noticed.
    for session in [&mut session, &mut restored] {
        let outcome = session.run("printf '%s|' $? \"${map[sp ace]}\" \"$ref\" \"$1\" \"$3\" $# \"$INHERITED\" \"${REMOVED-gone}\" \"$PWD\"; \\builtin \\set +eu; x aab; f 9; \\cd /; \\umask; \\builtin jobs");
        assert_eq!(
            outcome.out(),
            "42|new\nline|1|pos 1|p\n3|3|i|gone|/usr|E ab\nE f9 v\nhere 9\nmycd\n0027\n"
                .replace("mycd", "E mycd"),
            "{}",
            outcome.err()
        );
    }
}

#[test]
fn snapshots_of_the_portable_driver() {
    let mut session = Session::new(Driver::Portable);
    session.run("plain=1; export exported='a b'; readonly ro=3; declare -i int=4; arr=(one 'two 2' [7]=seven); declare -A map=([k]=v ['sp ace']=$'new\\nline'); odd=$'\\x01\\xff\\n'
        f() { echo \"f$1\"; }; export -f f; alias ll='ls -l'; trap 'echo bye' EXIT; trap '' USR1; set -- 'pos 1' b; umask 027; set -o pipefail; set -u; shopt -s extglob; cd /usr");
    let first = session.snapshot().unwrap();
    let mut restored = Session::empty(Driver::Portable);
    restored.restore(&first);
    let second = restored.snapshot().unwrap();
    let text = |s: &Snapshot| String::from_utf8_lossy(s.as_bytes()).into_owned();
    assert_eq!(text(&first), text(&second));
    let outcome = restored.run("echo \"$? $plain ${arr[7]} ${map[sp ace]} $1 $# $PWD\"; f 1; umask; set -e");
    assert_eq!(outcome.out(), "0 1 seven new\nline pos 1 2 /usr\nf1\n0027\n", "{}", outcome.err());
    // A snapshot of one driver restores the other.
    let mut other = Session::empty(Driver::Loaded);
    other.restore(&first);
    assert_eq!(other.run("echo ${arr[7]} $PWD").out(), "seven /usr\n");
}

/// What is used to take a snapshot can be the user's, and so can the mode in which it is not.
#[test]
fn snapshots_of_the_portable_driver_despite_functions_and_modes() {
    if bash_version() < (5, 1) {
        return; // for which there is the loaded driver
    }
    let functions = "declare() { echo mydeclare; }; shopt() { echo myshopt; }";
    // POSIX mode does not allow these definitions.
    let special = "unset() { echo \"myunset $*\"; }; trap() { echo mytrap; }";
    let options = "builtin shopt -s inherit_errexit expand_aliases shift_verbose";
    let cases = [
        (special, ":", "myunset x\n1\nmytrap\n"),
        (special, options, "myunset x\n1\nmytrap\n"),
        (":", "set -o posix", "\ntrap -- 'echo bye' USR1\n"),
        (":", "POSIXLY_CORRECT=1", "\ntrap -- 'echo bye' USR1\n"),
    ];
    for (special, mode, said) in cases {
        let mut session = Session::new(Driver::Portable);
        session.run("x=1; cd /usr; trap 'echo bye' USR1");
        session.run(functions);
        session.run(special);
        session.run(mode);
        let first = session.snapshot().unwrap();
        let mut restored = Session::empty(Driver::Portable);
        restored.restore(&first);
        let second = restored.snapshot().unwrap();
        let text = |s: &Snapshot| String::from_utf8_lossy(s.as_bytes()).into_owned();
        assert_eq!(text(&first), text(&second), "{mode}");
        // The session itself has not noticed.
        for session in [&mut session, &mut restored] {
            let outcome = session.run("declare; shopt; unset x; echo $x; trap");
            assert_eq!(outcome.out(), format!("mydeclare\nmyshopt\n{said}"), "{mode}");
        }
    }
}

#[test]
fn snapshots_with_restricting_options() {
    for options in [
        "set -r",
        "set -o posix",
        "POSIXLY_CORRECT=1",
        "set -x",
        "set -v",
        "set -T",
        "set -E",
        "shopt -s extdebug",
        "set -a",
        "set -C",
        "set -k",
        "enable -n echo test",
    ] {
        let mut session = Session::new(Driver::Loaded);
        session.run("x=1; f() { :; }");
        session.run(options);
        let first = session.snapshot().unwrap();
        let mut restored = Session::empty(Driver::Loaded);
        restored.restore(&first);
        let second = restored.snapshot().unwrap();
        assert_eq!(
            String::from_utf8_lossy(first.as_bytes()),
            String::from_utf8_lossy(second.as_bytes()),
            "{options}"
        );
    }
}

#[test]
fn snapshots_do_not_delay_commands_nor_show() {
    let mut session = Session::new(Driver::Loaded);
    session.run("for ((i = 0; i < 20000; i++)); do big[i]=$i; done; trap 'n=$((n + 1))' CHLD; n=0");
    session.shell.snapshot(Urgency::High).unwrap();
    let outcome = session.run("echo a; jobs; wait; echo \"$n [$!]\"");
    assert_eq!(outcome.out(), "a\n0 []\n");
    match session.report(TEST_TIMEOUT) {
        Some(Report::Snapshot(Ok(snapshot))) => assert!(snapshot.as_bytes().len() > 100_000),
        other => panic!("{other:?}"),
    }
    assert_eq!(session.run("echo \"$n\"; wait").out(), "0\n");
}

/// Makes a large state.
pub(super) const MANY: &str = "for i in {1..300}; do printf -v \"v$i\" '%0100d' $i; done; for i in {1..100}; do eval \"f$i() { local a=$i; if ((a > 5)); then echo \\$a; fi; for x in 1 2 3; do echo \\$x; done; }\"; done";

#[test]
fn large_snapshots_are_quick() {
    let mut session = Session::new(Driver::Loaded);
    // Snapshots must not take much longer than it takes to make the state.
    let limit = Duration::from_millis(500) + 10 * session.run(MANY).took;
    let started = Instant::now();
    let snapshot = session.snapshot().unwrap();
    let taken = started.elapsed();
    let mut restored = Session::empty(Driver::Loaded);
    let started = Instant::now();
    restored.restore(&snapshot);
    let brought_back = started.elapsed();
    assert_eq!(restored.run("echo $v300; f7 | head -1").out(), format!("{:0100}\n7\n", 300));
    assert!(taken < limit && brought_back < limit, "{taken:?} {brought_back:?} {limit:?}");
}

#[test]
fn snapshot_requested_during_a_command_is_taken_after_it() {
    for driver in BOTH {
        let mut session = Session::new(driver);
        begin(&mut session.shell, "sleep 0.1; x=1");
        session.shell.snapshot(Urgency::High).unwrap();
        assert!(matches!(session.report(TEST_TIMEOUT), Some(Report::Done(_))), "{driver:?}");
        match session.report(TEST_TIMEOUT) {
            Some(Report::Snapshot(Ok(snapshot))) => {
                assert!(snapshot.as_bytes().windows(16).any(|w| w == b"declare -- x=\"1\""));
            }
            other => panic!("{driver:?} {other:?}"),
        }
    }
}

/// A value may be older than an attribute that it would not have been assigned with.
#[test]
fn values_that_their_attributes_would_change_or_refuse() {
    const TEXT: &str = "\
        port=80a; declare -i port; octal=010; declare -ix octal; name=aBc; declare -u name; low=ABC; declare -rl low
        list=(a b+ 1/0); declare -ai list; declare -A map=([k]=x/); declare -Ai map; declare -i number=5; after=1";
    const SHOW: &str = "declare -p port octal name low list map number; number+=1; echo $number $after";
    for driver in BOTH {
        let mut session = Session::new(driver);
        session.run(TEXT);
        let snapshot = session.snapshot().unwrap();
        let expected = session.run(SHOW);
        let mut restored = Session::empty(driver);
        restored.restore(&snapshot);
        let outcome = restored.run(SHOW);
        assert_eq!((outcome.out(), outcome.err()), (expected.out(), expected.err()), "{driver:?}");
        assert!(expected.out().ends_with("\n6 1\n"), "{}", expected.out());
    }
}

#[test]
fn bashs_own_variables_stay_exported() {
    let mut session = Session::new(Driver::Loaded);
    session.run("export UID SHELLOPTS BASH_VERSION; set -f");
    let mut restored = Session::empty(Driver::Loaded);
    restored.restore(&session.snapshot().unwrap());
    let show = "env | grep -cE '^(UID|BASH_VERSION)='; env | grep -c ^SHELLOPTS=.*noglob";
    assert_eq!(restored.run(show).out(), "2\n1\n");
}

#[test]
fn a_directory_that_is_gone_is_not_the_current_one() {
    for driver in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let here = std::env::current_dir().unwrap();
        let mut session = Session::with_env(driver, &[("PWD", here.to_str().unwrap())]);
        session.run(&format!("x=1; cd {}", folder.path().display()));
        let snapshot = session.snapshot().unwrap();
        folder.close().unwrap();
        let mut restored = Session::empty(driver);
        restored.restore(&snapshot);
        let outcome = restored.run("[[ $PWD == $(pwd -P) ]] && env | grep -c ^PWD= && echo $x");
        assert_eq!(outcome.out(), "1\n1\n", "{driver:?}: {}", outcome.err());
    }
}

#[test]
fn directories_that_were_unset_stay_so() {
    let mut session = Session::new(Driver::Loaded);
    session.run("cd /usr; unset PWD OLDPWD");
    let mut restored = Session::empty(Driver::Loaded);
    restored.restore(&session.snapshot().unwrap());
    assert_eq!(
        restored.run("echo ${PWD-none} ${OLDPWD-none}; declare -p OLDPWD; pwd").out(),
        "none none\n/usr\n"
    );
}
