//! A command's own environment and directory, and what becomes of them afterwards.

use std::path::Path;
use std::time::Duration;

use super::harness::{BOTH, Run, Session, set, unset};
use crate::shell::Driver;

#[test]
fn variables_of_a_command() {
    for driver in BOTH {
        let mut session = Session::new(driver);
        session.run("A=old; export B=outer; C=(1 2)");
        let env = [set("A", "new 'quoted'\n"), set("B", "inner"), set("D", "")];
        let run = Run { env: &env, ..Run::default() };
        let outcome = session.run_with(b"printf '%s|' \"$A\" $B; env | grep -c -e ^A= -e ^B= -e ^D=", run);
        assert_eq!(outcome.out(), "new 'quoted'\n|inner|3\n", "{driver:?} {}", outcome.err());
        let outcome = session.run("echo $A $B ${C[1]} ${D-unset}; env | grep -e ^A= -e ^B=");
        assert_eq!(outcome.out(), "old outer 2 unset\nB=outer\n", "{driver:?}");
    }
}

#[test]
fn variables_of_a_command_whatever_they_were() {
    let mut session = Session::new(Driver::Loaded);
    session.run("declare -r R=1; declare -a ARR=(x y); declare -A MAP=([k]=v); declare -i INT=5; declare -n REF=INT; export -n HOME; U=u");
    let env = [
        set("R", "r"),
        set("ARR", "a"),
        set("MAP", "m"),
        set("INT", "1+1"),
        set("REF", "ref"),
        unset("U"),
        unset("HOME"),
        set("IFS", ":"),
        set("PATH", "/nonexistent:/usr/bin:/bin"),
        unset("NEVER"),
        set("LC_ALL", "C"),
        set("TZ", "UTC-5"),
    ];
    let run = Run { env: &env, ..Run::default() };
    let outcome = session.run_with(
        b"echo $R $ARR $MAP $INT $REF ${U-none} ${HOME-none}; x=1:2; echo $x $(date -d @0 +%H)
          env | grep -cE '^(R|ARR|MAP|INT|REF|IFS|PATH)='
          U=again; export HOME=/h; unset ARR MAP; declare -a R; REF=(1 2); INT=(3 4); readonly NEVER=1 PATH",
        run,
    );
    assert_eq!(outcome.out(), "r a m 1+1 ref none none\n1 2 05\n7\n", "{}", outcome.err());
    let outcome = session.run(
        "declare -p R ARR MAP INT REF U NEVER LC_ALL TZ; declare -p HOME | sed 's/=.*//'; x=1:2; echo $x; ((RANDOM != RANDOM)) && echo random; PATH=$PATH; ls / >/dev/null && echo found",
    );
    assert_eq!(
        outcome.out(),
        "declare -r R=\"1\"\ndeclare -a ARR=([0]=\"x\" [1]=\"y\")\ndeclare -A MAP=([k]=\"v\" )\ndeclare -i INT=\"5\"\ndeclare -n REF=\"INT\"\ndeclare -- U=\"u\"\ndeclare -- HOME\n1:2\nrandom\nfound\n",
        "{}",
        outcome.err()
    );
}

#[test]
fn variables_are_put_back_however_the_command_ends() {
    let mut session = Session::new(Driver::Loaded);
    session.run("A=old; cd /usr");
    let env = [set("A", "new")];
    for text in [
        "exit 3",
        "return 4",
        "f() { local A=x; exit 2; }; f",
        "set -e; false",
        "kill -TERM $$",
        "echo 'syntax",
        "unset A",
        "while :; do :; done",
    ] {
        let run = Run {
            env: &env,
            cwd: Some(Path::new("/tmp")),
            interrupt: Some(Duration::from_millis(50)),
            ..Run::default()
        };
        session.run_with(text.as_bytes(), run);
        let outcome = session.run("set +e; declare -p A; pwd; echo $PWD");
        assert_eq!(outcome.out(), "declare -- A=\"old\"\n/usr\n/usr\n", "{text}: {}", outcome.err());
    }
}

#[test]
fn directory_of_a_command() {
    for driver in BOTH {
        let mut session = Session::new(driver);
        session.run("cd /usr; cd /etc");
        let run = Run { cwd: Some(Path::new("/tmp")), ..Run::default() };
        assert_eq!(
            session.run_with(b"pwd; echo $PWD; /bin/pwd; cd /var", run).out(),
            "/tmp\n/tmp\n/tmp\n",
            "{driver:?}"
        );
        assert_eq!(session.run("pwd; echo $PWD").out(), "/etc\n/etc\n", "{driver:?}");
        let run = Run { cwd: Some(Path::new("/nonexistent")), ..Run::default() };
        let outcome = session.run_with(b"echo no", run);
        assert_eq!((outcome.status(), outcome.out().as_str()), (1, ""), "{driver:?}");
        assert!(outcome.err().contains("No such file or directory"), "{}", outcome.err());
        assert_eq!(session.run("pwd").out(), "/etc\n", "{driver:?}");
    }
    let mut session = Session::new(Driver::Loaded);
    session.run("cd /usr; cd /etc; (exit 4)");
    let run = Run { cwd: Some(Path::new("/tmp")), ..Run::default() };
    assert_eq!(session.run_with(b"echo $OLDPWD $?; cd /var; false", run).out(), "/usr 4\n");
    assert_eq!(
        session
            .run("echo $? $OLDPWD; mkdir /tmp/.sandcrab-gone-$$; cd /tmp/.sandcrab-gone-$$; rmdir $PWD")
            .out(),
        "1 /usr\n"
    );
    session.run_with(b"pwd", run);
    assert_eq!(session.run("[[ $PWD == /tmp/.sandcrab-gone-$$ ]] && echo still").out(), "still\n");
}
