//! Errors at which bash discards the rest of its input: the command fails as in a plain bash that reads it, and the shell stays.

use std::path::Path;

use super::harness::{Ended, Run, Session};
use super::like_bash::plain_bash;
use super::table::bash_version;
use crate::shell::{CommandEnd, Driver};

/// Each is an error of the shell itself, not of a program. Those after which a plain shell ends are in `endings.rs`.
const TEXTS: &[&str] = &[
    "shift 1 2",
    "f() { shift 1 2; }; f",
    "for i in 1; do break 1 2; done",
    "for i in 1; do continue 1 2; done",
    "while :; do break 1 2; done",
    "f() { return 1 2; }; f; echo on",
    "return 1 2",
    "exit 1 2",
    "cd a b",
    "declare -i p; p=80a",
    "declare -i p; p=80a; echo on",
    "declare -i n=1/0",
    "typeset -i z=08; echo on",
    "declare -i i; i+=1/0; echo on",
    "k=my.key; a[$k]=1",
    "a[1/0]=1; echo on",
    "a=([1/0]=1); echo on",
    "declare -A m; m[]=1; echo on",
    "a[0]=(1 2); echo on",
    "declare a[0]=(1); echo on",
    "echo ${x[1/0]}; echo on",
    "echo ${x[-1]}; echo on",
    "echo $((1/0)); echo on",
    "echo $((1/0))\necho on",
    "echo $((08)); echo on",
    "echo $((1+)); echo on",
    "echo $((x=1,y=,2)); echo on",
    "((1/0)); echo on",
    "let 1/0; echo on",
    "[[ 1 -eq 1/0 ]]; echo on",
    "case x in $((1/0))) ;; esac; echo on",
    "for ((i=1/0; ; )); do :; done; echo on",
    "echo ${x:=$((1/0))}; echo on",
    "y=abc; echo ${y:1/0}; echo on",
    "y=abc; echo ${y:1:-9}; echo on",
    "echo ${a!b}; echo on",
    "echo ${!x}; echo on",
    "echo ${x@Z}; echo on",
    "echo \"${a!b}\" >/dev/null; echo on",
    "readonly r=1; r=2; echo on",
    "readonly r=1; r=2\necho on",
    "readonly r=1; r=2 :; echo on",
    "readonly r=1; for r in 1; do :; done; echo on",
    "readonly r=1; ((r=2)); echo on",
    "readonly r=1; read r <<<x; echo on",
    "readonly r=1; printf -v r x; echo on",
    "readonly r=1; unset r; echo on",
    "readonly r=1; f() { local r=2; echo on; }; f",
    "readonly -a r=(1); r[0]=2; echo on",
    "readonly -A r=([k]=1); r[k]=2; echo on",
    "readonly r=1; export r=2; echo on",
    "readonly r=1; declare -n n=r; n=2; echo on",
    "UID=1; echo on",
    "PPID=1\necho on",
    "declare -n r=r; echo on",
    "declare -n r; r=1x; echo on",
    "declare -n r=1x; echo on",
    "declare -n a=b b=a; echo $a; a=1; echo on",
    "f() { local -n x=x; x=1; echo on; }; f",
    "FUNCNEST=3; f() { f; }; f; echo on",
    "shopt -s failglob; echo /nope*; echo on",
    "export 1=2; echo on",
    "unset -x; echo on",
    "printf -v 1x a; echo on",
    "set -o nosuch; echo on",
    "eval 'shift 1 2'; echo on",
    "eval 'echo $((1/0))'; echo on",
    "eval ')'; echo on",
    ". /dev/stdin <<<'shift 1 2'; echo on",
    ". /nonexistent; echo on",
    "{ shift 1 2; } >/dev/null; echo on",
    "(shift 1 2); echo $?",
    "x=$(shift 1 2); echo $?",
    "shift 1 2 | cat; echo $?",
    "trap 'shift 1 2' USR1; kill -USR1 $BASHPID; echo on",
    "trap 'echo E' ERR; shift 1 2; echo on",
    "set -e; shift 1 2; echo on",
    "set -e; readonly r=1; r=2; echo on",
];

/// How a plain shell answers that reads the text, and whether it would have gone on with its next line. There are two
/// statuses, since from 5.3 on `bash -c` may have another.
fn plain(session: &Session, text: &str) -> ([i32; 2], String, bool) {
    let script = session.directory.path().join("script");
    std::fs::write(&script, text).unwrap();
    let output = plain_bash(session, &["--norc", "--noprofile"], &script);
    let dash_c = plain_bash(session, &["--norc", "-c", text], Path::new("/dev/null"));
    std::fs::write(&script, format!("{text}\necho goes-on\n")).unwrap();
    let script = plain_bash(session, &["--norc", "--noprofile"], &script);
    let goes_on = script.stdout.ends_with(b"goes-on\n");
    let codes = [&output, &dash_c].map(|plain| plain.status.code().unwrap_or(-1));
    (codes, String::from_utf8_lossy(&output.stdout).into_owned(), goes_on)
}

#[test]
fn errors_end_the_command_as_in_a_plain_shell_and_spare_the_shell() {
    let mut differences = Vec::new();
    // From 5.3 on this one's status depends on where the text is from.
    let differs = |text: &str| text.starts_with("x=$(shift") && bash_version() >= (5, 3);
    for text in TEXTS.iter().filter(|text| !differs(text)) {
        let mut session = Session::new(Driver::Loaded);
        session.run("kept=1; before=$$; fds=(/proc/$$/fd/*)");
        let (codes, out, goes_on) = plain(&session, text);
        let ours = session.run_with(text.as_bytes(), Run::default());
        if let Ended::Died(status) = ours.ended {
            if !goes_on && codes.contains(&status) && session.shell.last_state().is_some() {
                continue;
            }
            differences.push(format!("\n{text:?}: {:?} {}", ours.ended, ours.err()));
            continue;
        }
        let how = if goes_on { CommandEnd::Normal } else { CommandEnd::Exit };
        let after = session.run(
            "set +e; trap - ERR USR1; now=(/proc/$$/fd/*); echo \"$kept $((before == $$)) $((${#now[@]} - ${#fds[@]})) ${#FUNCNAME[@]}\"",
        );
        let ends_so = codes.iter().any(|&status| ours.ended == Ended::Done { status, how });
        if !ends_so || ours.out() != out || after.out() != "1 1 0 0\n" {
            differences.push(format!(
                "\n{text:?}: {:?} {:?}, not {codes:?} {out:?} (goes on: {goes_on}); then {:?} {:?}",
                ours.ended,
                ours.out(),
                after.out(),
                after.err()
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.concat());
}

#[test]
fn errors_spare_the_shell_over_the_portable_driver() {
    let mut differences = Vec::new();
    for text in TEXTS.iter().filter(|text| !text.contains("set -e")) {
        let mut session = Session::new(Driver::Portable);
        session.run("kept=1");
        let (codes, _, goes_on) = plain(&session, text);
        let ours = session.run_with(text.as_bytes(), Run::default());
        if !goes_on {
            continue;
        }
        let after = session.run("echo $kept");
        let is_same = matches!(ours.ended, Ended::Done { status, .. } if codes.contains(&status));
        if !is_same || after.out() != "1\n" {
            differences.push(format!("\n{text:?}: {:?}, not {codes:?}; then {:?}", ours.ended, after.out()));
        }
    }
    assert!(differences.is_empty(), "{}", differences.concat());
}
