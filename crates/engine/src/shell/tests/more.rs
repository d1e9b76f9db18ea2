//! What needs more than a line of the table: a command's own environment and directory, single commands, snapshots,
//! lost connections, and time.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::harness::{Ended, Run, Session, bash};
use crate::shell::{Driver, How, Job, Report, Snapshot, probe};

const BOTH: [Driver; 2] = [Driver::Loaded, Driver::Portable];

fn set(name: &str, value: &str) -> (OsString, Option<OsString>) {
    (name.into(), Some(value.into()))
}

fn unset(name: &str) -> (OsString, Option<OsString>) {
    (name.into(), None)
}

#[test]
fn the_object_works_with_this_bash() {
    assert_eq!(probe(&bash()), (Driver::Loaded, None));
}

#[test]
fn a_program_that_is_not_bash_gets_a_reason() {
    let (driver, reason) = probe(Path::new("/bin/true"));
    assert_eq!(driver, Driver::Portable);
    assert!(reason.unwrap().contains("did not load the object"));
}

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
        set("RANDOM", "7"),
        unset("HOME"),
        set("IFS", ":"),
        set("PATH", "/nonexistent:/usr/bin:/bin"),
        unset("NEVER"),
        set("LC_ALL", "C"),
        set("TZ", "UTC-5"),
    ];
    let run = Run { env: &env, ..Run::default() };
    let outcome = session.run_with(
        b"echo $R $ARR $MAP $INT $REF ${U-none} $RANDOM ${HOME-none}; x=1:2; echo $x $(date -d @0 +%H)
          env | grep -cE '^(R|ARR|MAP|INT|REF|RANDOM|IFS|PATH)='
          U=again; export HOME=/h; unset ARR MAP; declare -a R; REF=(1 2); INT=(3 4); readonly NEVER=1 PATH",
        run,
    );
    assert_eq!(outcome.out(), "r a m 1+1 ref none 7 none\n1 2 05\n8\n", "{}", outcome.err());
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

/// Everything a single command may do has to be what `bash -c` does.
#[test]
fn single_commands_are_as_with_dash_c() {
    let texts = [
        "echo a",
        "exit 3",
        "false",
        "trap 'echo bye $?' EXIT; exit 4",
        "trap 'echo bye $?' EXIT; false",
        "set -e; false; echo no",
        "echo 'unterminated",
        ")",
        "echo a\n)",
        "f() { return 5; }; f",
        "return 3",
        "break",
        "echo $0 $# $- \"$BASH_EXECUTION_STRING\"",
        "nosuch",
        "\n\nnosuch",
        "exec echo x",
        "exec /nonexistent",
        "(exit 9)",
        "true | false",
        "set -u; echo $nope",
        "echo ${nope:?msg}",
        "echo $((1/0)); echo b\necho c",
        "kill -TERM $$",
        "kill -9 $$",
        "kill -INT $$",
        "cat",
        "cat <<X\na\nX",
        "cat <<X\na",
        "",
        "# c",
        "set -x; echo a",
        "set -n; echo a",
        "trap 'echo t' TERM; kill $$; echo after",
        "sleep 0.01 & wait; echo $?",
        "echo $_",
        "echo $SHLVL $LINENO",
        "shopt -s expand_aliases\nalias x='echo alias'\nx",
        "echo \"${BASH_SOURCE[*]}\"; f() { caller 0; echo \"${FUNCNAME[*]}\"; }; f",
        "time :",
        "ulimit -n",
        "printf 'a\\0b'",
        "echo err >&2",
        "for ((i = 3; i < 10; i++)); do [[ -e /proc/$$/fd/$i ]] && echo $i; done",
        "declare -F; alias; trap -p",
        "compgen -v | grep -v PPID | tr '\\n' ' '",
        "set +o; shopt -p",
        "while read -r l; do echo \"[$l]\"; done",
    ];
    for text in texts {
        let mut session = Session::new(Driver::Loaded);
        let run = Run { once: true, stdin: Some(b"in\n"), ..Run::default() };
        let ours = session.run_with(text.as_bytes(), run);
        let input = session.directory.path().join("in");
        std::fs::write(&input, "in\n").unwrap();
        let theirs = plain_bash(&session, &["--norc", "-c", text], &input);
        use std::os::unix::process::ExitStatusExt;
        let code = theirs.status.code().unwrap_or_else(|| -theirs.status.signal().unwrap());
        let timing = text.starts_with("time");
        assert_eq!(ours.ended, Ended::Died(code), "{text}\n{}", ours.err());
        assert_eq!(ours.out(), String::from_utf8_lossy(&theirs.stdout), "{text}");
        assert!(
            timing || ours.err() == String::from_utf8_lossy(&theirs.stderr),
            "{text}: {}\n{}",
            ours.err(),
            String::from_utf8_lossy(&theirs.stderr)
        );
    }
}

/// A session's command has to do what a shell does that reads the text as its script.
#[test]
fn commands_are_as_in_a_script() {
    let texts = [
        "f() { caller 0; caller; echo \"${FUNCNAME[*]} ${BASH_SOURCE[*]} ${BASH_LINENO[*]}\"; }\nf\necho \"${BASH_SOURCE[*]}\"; caller; echo $?",
        "set -x; f() { echo a; (echo b); x=$(echo c); eval 'echo d'; }; f; . /dev/stdin <<<'echo e'",
        "set -v\necho a\nf() {\n:\n}\nf",
        "trap 'echo D $LINENO $BASH_COMMAND' DEBUG\necho a\nf() { echo b; }\nf\n(echo c)",
        "set -T; trap 'echo D $LINENO $BASH_COMMAND' DEBUG; trap 'echo R' RETURN\nf() { echo b; }\nf",
        "trap 'echo E $? $LINENO' ERR; false; f() { false; }; f; set -E; f; (exit 3)",
        "echo $LINENO; nosuch\n\nnosuch $LINENO; f() { nosuch; }; f; eval 'nosuch'",
        "echo $((1/0))\necho ${x?no}",
        "readonly r=1\nr=2\necho on",
        "r() { readonly q=1; q=2; echo no; }; r; echo on\necho next",
        "cd /nonexistent; echo $?; break; continue; shift 5; echo $?",
        "local x; declare -z; export 1=2; unset -x; echo $?",
        "kill -0 99999999; wait 99999999; echo $?; fg; bg; jobs; disown; suspend; logout",
        "sleep 0.01 & wait $!; echo $?; (exit 5) & wait %1; echo $?",
        "(exec 2>&1; bash -c 'kill -SEGV $$'; echo $?) | sed 's/ *[0-9]* Seg/ pid Seg/'; bash -c 'kill -TERM $$' & wait; echo $?",
        "type type f cd if nosuch; command -v ls; hash; alias; trap; umask; ulimit -n",
        "shopt; set -o; dirs; enable; help : | head -1; times >/dev/null; echo $-",
        "history; fc -l; bind -p; complete; compgen -b | head -3",
        "read x; echo \"[$x]$?\"; cat; mapfile m; echo ${#m[@]}",
        "echo ${BASH_VERSION} $BASH $0 $# $* $SHLVL $BASH_SUBSHELL $(echo $BASH_SUBSHELL) $SHELLOPTS $BASHOPTS",
        "select x in a b; do echo $x; done; echo $?",
        "printf '%d %s\\n' x y; printf; test 1 -eq x; [ 1; [[ a =~ ( ]]; echo $?",
        "set -o posix; cd() { :; }; set() { :; }; echo $?",
        "set -e; f() { false; echo on; }; f || echo handled; f && :; echo $?",
        "exec 9</nonexistent; echo on",
        "x=$(<nosuch); echo $?; cat <nosuch; echo a >/nosuch/b; echo $?",
        "coproc { cat; }; echo hi >&${COPROC[1]}; read -r l <&${COPROC[0]}; echo $l",
        "diff <(echo a) <(echo b); echo ${PIPESTATUS[@]}",
        "getopts a x -b; echo $? $x; let 1+; ((1+)); echo $?",
        "ulimit -n 64; for i in {1..80}; do exec {fd}<>/dev/null || break; done; echo $?",
        "echo \"${x@Q} ${PATH:0:1} ${!B@}\" ; echo ~ ~root ~nosuch; echo {1..3}{a,b}; echo $'a\\tb' $\"c\"",
        "! true; echo $?; ! false; echo $?",
    ];
    let mut differences = Vec::new();
    for text in texts {
        let mut session = Session::new(Driver::Loaded);
        let ours = session.run(text);
        let script = session.directory.path().join("script");
        std::fs::write(&script, text).unwrap();
        let theirs = plain_script(&session, &script);
        if (ours.out(), ours.err()) != theirs {
            differences
                .push(format!("\n{text:?}\n ours   {:?}\n theirs {theirs:?}", (ours.out(), ours.err())));
        }
    }
    assert!(differences.is_empty(), "{}", differences.concat());
}

/// What a plain bash does, with the environment of a session.
fn plain_bash(session: &Session, arguments: &[&str], stdin: &Path) -> std::process::Output {
    let mut command = Command::new(bash());
    command
        .arg0_bash()
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", session.directory.path())
        .env("LANG", "C.UTF-8")
        .current_dir(session.directory.path())
        .stdin(std::fs::File::open(stdin).unwrap());
    #[expect(clippy::disallowed_methods, reason = "what it runs leaves nobody behind that writes")]
    command.output().unwrap()
}

/// What a plain bash does that reads the script from its standard input.
fn plain_script(session: &Session, script: &Path) -> (String, String) {
    let output = plain_bash(session, &["--norc", "--noprofile"], script);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

trait Arg0 {
    fn arg0_bash(&mut self) -> &mut Self;
}

impl Arg0 for Command {
    fn arg0_bash(&mut self) -> &mut Self {
        std::os::unix::process::CommandExt::arg0(self, "bash")
    }
}

#[test]
fn single_commands_have_their_environment() {
    let mut session = Session::with_env(Driver::Loaded, &[("GONE", "1"), ("BASH_ENV", "/nonexistent")]);
    let env = [set("NEW", "a b"), unset("GONE"), set("PATH", "/bin")];
    let run = Run { once: true, env: &env, cwd: Some(Path::new("/usr/bin")), ..Run::default() };
    let outcome = session.run_with(b"echo $PWD ${OLDPWD-none} $NEW ${GONE-none}; exec env", run);
    let out = outcome.out();
    let (first, mut rest) = (out.lines().next().unwrap(), out.lines().skip(1).collect::<Vec<_>>());
    assert_eq!(first, "/usr/bin none a b none");
    rest.sort_unstable();
    let home = format!("HOME={}", session.directory.path().display());
    let expected =
        ["BASH_ENV=/nonexistent", &home, "LANG=C.UTF-8", "NEW=a b", "PATH=/bin", "PWD=/usr/bin", "SHLVL=0"];
    assert_eq!(rest, expected);
}

#[test]
fn single_commands_replace_the_shell() {
    let mut session = Session::new(Driver::Loaded);
    let pid = session.shell.pid().as_raw_nonzero();
    let run = Run { once: true, ..Run::default() };
    let outcome = session.run_with(b"true; sh -c 'echo $$'", run);
    assert_eq!(outcome.out(), format!("{pid}\n"));
}

#[test]
fn the_portable_driver_refuses_single_commands() {
    let mut session = Session::new(Driver::Portable);
    let null = std::fs::File::open("/dev/null").unwrap();
    let fd = null.as_fd();
    let job = Job { text: b"true", stdin: fd, stdout: fd, stderr: fd, env: &[], cwd: None, once: true };
    assert_eq!(session.shell.run(job).unwrap_err().kind(), std::io::ErrorKind::Unsupported);
    assert_eq!(session.run("echo a").out(), "a\n");
}

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
    session.run("unset -v REMOVED; builtin cd /usr; builtin set -e; shopt -s expand_aliases; return 42");
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
    let functions = "declare() { echo mydeclare; }; shopt() { echo myshopt; }";
    // POSIX mode lets nobody define these.
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
    session.shell.snapshot().unwrap();
    let outcome = session.run("echo a; jobs; wait; echo \"$n [$!]\"");
    assert_eq!(outcome.out(), "a\n0 []\n");
    match session.report(Duration::from_secs(5)) {
        Some(Report::Snapshot(Ok(snapshot))) => assert!(snapshot.as_bytes().len() > 100_000),
        other => panic!("{other:?}"),
    }
    assert_eq!(session.run("echo \"$n\"; wait").out(), "0\n");
}

const MANY: &str = "for i in {1..300}; do printf -v \"v$i\" '%0100d' $i; done; for i in {1..100}; do eval \"f$i() { local a=$i; if ((a > 5)); then echo \\$a; fi; for x in 1 2 3; do echo \\$x; done; }\"; done";

#[test]
fn large_snapshots_are_quick() {
    let mut session = Session::new(Driver::Loaded);
    session.run(MANY);
    let started = Instant::now();
    let snapshot = session.snapshot().unwrap();
    let taken = started.elapsed();
    let mut restored = Session::empty(Driver::Loaded);
    let started = Instant::now();
    restored.restore(&snapshot);
    let brought_back = started.elapsed();
    assert_eq!(restored.run("echo $v300; f7 | head -1").out(), format!("{:0100}\n7\n", 300));
    assert!(
        taken < Duration::from_millis(500) && brought_back < Duration::from_millis(500),
        "{taken:?} {brought_back:?}"
    );
}

/// What earlier commands left running is not ended by an interrupt, so `wait` must not wait for it.
#[test]
fn interrupting_a_wait_for_what_stays() {
    let mut session = Session::new(Driver::Loaded);
    session.run("sleep 30 &");
    for text in ["wait; echo no", "wait $!; echo no", "wait -n; echo no", "f() { wait; echo no; }; f"] {
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        let fd = null.as_fd();
        let job = Job {
            text: text.as_bytes(),
            stdin: fd,
            stdout: fd,
            stderr: fd,
            env: &[],
            cwd: None,
            once: false,
        };
        session.shell.run(job).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let mut report = None;
        for _ in 0..100 {
            session.shell.interrupt().unwrap();
            report = session.report(Duration::from_millis(20));
            if report.is_some() {
                break;
            }
        }
        match report {
            Some(Report::Done(done)) => {
                assert_eq!((done.status, done.how), (130, How::Interrupted), "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
        assert_eq!(session.run("kill -0 $! && echo there; jobs -r | wc -l").out(), "there\n1\n", "{text}");
    }
    session.run("kill %1");
}

/// Interrupts at any moment, and looks whether everything is still as it was.
#[test]
fn interrupts_at_any_moment() {
    let texts = [
        "f() { local a=(1 2 3) i; for ((i = 0; i < 100000; i++)); do a[i]=$(echo $i); done; }; while :; do f; done",
        "while :; do x=${x:0:100}$RANDOM; case $x in *1*) y=1 ;; *) y=0 ;; esac; { :; } >/dev/null 2>&1 <<<\"$x\"; done",
        "while :; do eval 'eval \"for i in {1..50}; do :; done\"'; . /dev/stdin <<<'z=1'; done",
        "trap 'while :; do break; done' DEBUG RETURN ERR; while :; do false; done",
        "while :; do (exit 3) | cat | (read -r x; exit 4); wait; done",
        "while :; do printf '%s\\n' {1..500}; done",
        "trap 'while :; do :; done' EXIT; while :; do (:); [[ abc =~ (a)(b) ]] && break; done; exit 3",
        "while :; do read -r -t 0.001 x </dev/zero; mapfile -t m < <(echo a; echo b); done",
        "g() { (($1 > 200)) || g $(($1 + 1)); }; while :; do g 0; done",
    ];
    let mut session = Session::new(Driver::Loaded);
    session.run("keep=1; kept() { echo kept$keep; }; cd /usr");
    let mut delay = 1_u64;
    for round in 0..18 {
        for text in texts {
            delay = delay * 1_103_515_245 % 2_147_483_647;
            let after = Duration::from_micros(200 + delay % 6000);
            let outcome = session.run_with(text.as_bytes(), Run { interrupt: Some(after), ..Run::default() });
            assert!(
                matches!(outcome.ended, Ended::Done { status: 130, how: How::Interrupted | How::Signal }),
                "{round} {text}: {:?} {}",
                outcome.ended,
                outcome.err()
            );
            session.run("trap - DEBUG RETURN ERR EXIT; wait");
            let outcome = session.run("kept; pwd; echo ${#FUNCNAME[@]} $LINENO $#");
            assert_eq!(outcome.out(), "kept1\n/usr\n0 1 0\n", "{round} {text}: {}", outcome.err());
        }
    }
}

#[test]
fn a_snapshot_asked_for_during_a_command_comes_after_it() {
    for driver in BOTH {
        let mut session = Session::new(driver);
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        let fd = null.as_fd();
        let job = Job {
            text: b"sleep 0.1; x=1",
            stdin: fd,
            stdout: fd,
            stderr: fd,
            env: &[],
            cwd: None,
            once: false,
        };
        session.shell.run(job).unwrap();
        session.shell.snapshot().unwrap();
        assert!(matches!(session.report(Duration::from_secs(5)), Some(Report::Done(_))), "{driver:?}");
        match session.report(Duration::from_secs(5)) {
            Some(Report::Snapshot(Ok(snapshot))) => {
                assert!(snapshot.as_bytes().windows(16).any(|w| w == b"declare -- x=\"1\""));
            }
            other => panic!("{driver:?} {other:?}"),
        }
    }
}

#[test]
fn a_shell_does_not_grow() {
    let mut session = Session::new(Driver::Loaded);
    let rss = |session: &Session| {
        let pid = session.shell.pid().as_raw_nonzero();
        let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let env = [set("A", "b"), unset("C")];
    let mut round = |count: usize| {
        for i in 0..count {
            let how = Run { env: &env, cwd: Some(Path::new("/tmp")), ..Run::default() };
            session.run_with(b"f() { local x=$1; g() { exit 3; }; g; }; f 1", how);
            session.run("echo 'a");
            session.run("return 3");
            if i % 10 == 0 {
                session.snapshot().unwrap();
            }
        }
        rss(&session)
    };
    let before = round(200);
    let after = round(800);
    assert!(after < before + (512 << 10), "{before} {after}");
}

#[test]
fn usage_is_the_commands_own() {
    let mut session = Session::new(Driver::Loaded);
    session.run("for ((i = 0; i < 100000; i++)); do :; done");
    let busy = session
        .run("for ((i = 0; i < 200000; i++)); do :; done; (for ((i = 0; i < 100000; i++)); do :; done)")
        .done
        .unwrap()
        .usage
        .unwrap();
    let idle = session.run("true").done.unwrap().usage.unwrap();
    assert!(busy.user > Duration::from_millis(20), "{busy:?}");
    assert!(idle.user + idle.system < Duration::from_millis(5), "{idle:?}");
    assert!(idle.max_rss_bytes > 1 << 20, "{idle:?}");
}

#[test]
fn the_shell_ends_when_nobody_listens() {
    for driver in BOTH {
        let mut session = Session::new(driver);
        let file = session.directory.path().join("bye");
        session.run(&format!("trap 'echo bye >{}' EXIT", file.display()));
        session.disconnect();
        let deadline = Instant::now() + Duration::from_secs(3);
        while session.died().is_none() {
            assert!(Instant::now() < deadline, "{driver:?}: it is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(std::fs::read_to_string(file).unwrap(), "bye\n", "{driver:?}");
    }
}

#[test]
fn the_shell_dies_with_its_supervisor() {
    for driver in BOTH {
        // To the kernel, the parent is the thread that forked.
        let mut session = std::thread::spawn(move || {
            let mut session = Session::new(driver);
            session.run("trap '' TERM INT HUP");
            session
        })
        .join()
        .unwrap();
        let deadline = Instant::now() + Duration::from_secs(3);
        while session.died().is_none() {
            assert!(Instant::now() < deadline, "{driver:?}: it is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(session.died(), Some(-9), "{driver:?}");
    }
}

#[test]
fn a_starved_shell_is_seen() {
    // It may break, but not hang.
    let mut session = Session::new(Driver::Loaded);
    session.run("ulimit -n 4");
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
    let fd = null.as_fd();
    session
        .shell
        .run(Job { text: b"true", stdin: fd, stdout: fd, stderr: fd, env: &[], cwd: None, once: false })
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(3);
    while let Ok(None) = session.shell.receive() {
        if session.died().is_some() {
            break;
        }
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn strange_environments() {
    let env = [
        ("BASH_FUNC_enable%%", "() { echo stolen; }"),
        ("BASH_FUNC_f%%", "() { echo imported; }"),
        ("SHELLOPTS", "noexec:xtrace"),
        ("BASH_ENV", "/etc/passwd"),
        ("PS4", "$(echo pwned)"),
        ("POSIXLY_CORRECT", ""),
        ("IFS", "/"),
        ("with.dot", "1"),
        ("PROMPT_COMMAND", "exit 3"),
        ("TMOUT", "1"),
    ];
    let mut session = Session::with_env(Driver::Loaded, &env);
    assert_eq!(
        session.run("f; echo $BASH_ENV; env | grep with.dot").out(),
        "imported\n/etc/passwd\nwith.dot=1\n"
    );
    let mut session = Session::with_env(Driver::Portable, &env[1..8]);
    assert_eq!(
        session.run("f; echo $BASH_ENV; env | grep with.dot").out(),
        "imported\n/etc/passwd\nwith.dot=1\n"
    );
}

#[test]
fn a_command_before_the_shell_is_ready() {
    for driver in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let mut shell = crate::shell::Shell::start(crate::shell::ShellConfig {
            driver,
            bash: &bash(),
            env: &[],
            cwd: directory.path(),
            cgroup: None,
            in_child: &mut |_| Ok(()),
        })
        .unwrap();
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        let fd = null.as_fd();
        shell
            .run(Job {
                text: b"return 7",
                stdin: fd,
                stdout: fd,
                stderr: fd,
                env: &[],
                cwd: None,
                once: false,
            })
            .unwrap();
        let mut reports = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(5);
        while reports.len() < 2 && Instant::now() < deadline {
            reports.extend(shell.receive().unwrap());
        }
        assert!(
            matches!(&reports[..], [Report::Ready, Report::Done(done)] if done.status == 7 && done.how == How::Normal),
            "{driver:?} {reports:?}"
        );
        drop(crate::sys::send_signal(shell.pid(), libc::SIGKILL));
        rustix::process::waitpid(Some(shell.pid()), rustix::process::WaitOptions::empty()).unwrap();
    }
}

#[test]
fn a_failing_start_is_visible() {
    let directory = tempfile::tempdir().unwrap();
    let shell = crate::shell::Shell::start(crate::shell::ShellConfig {
        driver: Driver::Loaded,
        bash: Path::new("/nonexistent/bash"),
        env: &[],
        cwd: directory.path(),
        cgroup: None,
        in_child: &mut |_| Ok(()),
    })
    .unwrap();
    let (_, status) =
        rustix::process::waitpid(Some(shell.pid()), rustix::process::WaitOptions::empty()).unwrap().unwrap();
    assert_eq!(status.exit_status(), Some(127));
}

/// Prints what a command costs.
#[test]
#[ignore = "a measurement"]
#[expect(clippy::print_stdout, reason = "it is what the test is for")]
fn latency() {
    for driver in BOTH {
        let mut session = Session::new(driver);
        for text in ["true", "x=1; echo hi", "/bin/true"] {
            let mut times: Vec<_> = (0..3000).map(|_| session.round_trip(text)).collect();
            times.sort_unstable();
            println!("{} {text:?}: p50 {:?}, p99 {:?}", driver.as_str(), times[1500], times[2970]);
        }
        session.run(MANY);
        let mut times = Vec::new();
        for _ in 0..20 {
            let started = Instant::now();
            session.snapshot().unwrap();
            times.push(started.elapsed());
        }
        times.sort_unstable();
        let snapshot = session.snapshot().unwrap();
        println!(
            "{} snapshot with 300 variables and 100 functions: p50 {:?}, {} bytes",
            driver.as_str(),
            times[10],
            snapshot.as_bytes().len()
        );
        let mut fresh = Session::empty(driver);
        let started = Instant::now();
        fresh.restore(&snapshot);
        println!("{} restore: {:?}", driver.as_str(), started.elapsed());
        let mut starts: Vec<_> = (0..100)
            .map(|_| {
                let started = Instant::now();
                let session = Session::new(driver);
                let took = started.elapsed();
                drop(session);
                took
            })
            .collect();
        starts.sort_unstable();
        println!("{} start until ready: p50 {:?}", driver.as_str(), starts[50]);
        let mut interrupts: Vec<_> = (0..50)
            .map(|_| {
                session
                    .run_with(
                        b"while :; do :; done",
                        Run { interrupt: Some(Duration::from_millis(10)), ..Run::default() },
                    )
                    .took
                    - Duration::from_millis(10)
            })
            .collect();
        interrupts.sort_unstable();
        println!("{} interrupt: p50 {:?}, max {:?}", driver.as_str(), interrupts[25], interrupts[49]);
    }
}
