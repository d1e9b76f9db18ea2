//! Commands do what a plain bash does: `bash -c` for single ones, a script for those of a session.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use super::harness::{Ended, Outcome, Run, Session, TEST_TIMEOUT, bash, path, set, unset};
use super::table::bash_version;
use crate::shell::{Driver, ForkSetup, Report, ShellJob, Urgency};
use crate::sys::{self, Resource};

/// Everything a single command may do has to be what `bash -c` does, in a shell of its own or in a fork of a template.
#[test]
fn single_commands_are_as_with_dash_c() {
    let mut template = Session::new(Driver::Loaded);
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
        "trap 'echo bye $?' EXIT; kill -TERM $$; echo after",
        "trap 'echo bye $?' EXIT; kill -HUP $$; echo after",
        "trap 'echo bye' EXIT; (exit 3); kill -INT $$; echo after",
        "trap 'echo bye; exit 5' EXIT; kill -TERM $$; echo after",
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
        "echo $SHLVL $LINENO $HISTCMD",
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
        "alias x='echo alias'\nx",
        "jobs; echo \"[$!]\" $SECONDS $((BASHPID == $$)) $((PPID > 1)); (echo $((BASHPID == $$)))",
        // Whether jobs shows a job that wait has seen depends on which was first.
        "set -m; sleep 0.01 & wait; jobs >/dev/null; (sleep 0.3; exit 3) & fg %1; echo $?",
        "[[ $(times) == *0m0.0*0m0.0* ]] && echo fresh",
        "f() { echo \"$1\"; }; trap 'f bye' EXIT; f hi; exit 3",
        "exec 2>&1; shift 1 2; echo on",
        "umask; ulimit -c; cd /; pwd; cd -; echo $OLDPWD",
        "for word in $BASH_COMMAND; do echo $word; done",
    ];
    for text in texts {
        let run = Run { once: true, stdin: Some(b"in\n"), ..Run::default() };
        let mut session = Session::new(Driver::Loaded);
        let own = session.run_with(text.as_bytes(), run);
        compare(&session, text, &own);
        let fork = template.run_with(text.as_bytes(), Run { forked: Some(ForkSetup::default()), ..run });
        compare(&template, text, &fork);
    }
}

fn compare(session: &Session, text: &str, ours: &Outcome) {
    {
        let input = session.directory.path().join("in");
        std::fs::write(&input, "in\n").unwrap();
        let theirs = plain_bash(session, &["--norc", "-c", text], &input);
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
        "(exec 2>&1; bash -c 'kill -SEGV $$'; echo $?) | sed 's/ *[0-9]* Seg/ pid Seg/'; bash -c 'kill -TERM $$' 2>/dev/null & wait 2>/dev/null; echo $?",
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
pub(super) fn plain_bash(session: &Session, arguments: &[&str], stdin: &Path) -> std::process::Output {
    let mut command = Command::new(bash());
    command
        .arg0_bash()
        .args(arguments)
        .env_clear()
        .env("PATH", path())
        .env("HOME", session.directory.path())
        .env("LANG", "C.UTF-8")
        .current_dir(session.directory.path())
        .stdin(std::fs::File::open(stdin).unwrap());
    #[expect(clippy::disallowed_methods, reason = "it leaves no process behind that writes")]
    command.output().unwrap()
}

/// What a plain bash does that reads the script from its standard input.
fn plain_script(session: &Session, script: &Path) -> (String, String) {
    let output = plain_bash(session, &["--norc", "--noprofile", "-O", "expand_aliases"], script);
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

/// What a fork has of its own, from the supervisor's side.
#[test]
fn forks_of_a_template_are_shells_of_their_own() {
    let mut template = Session::new(Driver::Loaded);
    let of_template = template.shell.pid().as_raw_nonzero();
    let (_, hard) = crate::sys::limit(None, crate::sys::Resource::RealTime).unwrap();
    let tag = hard.min(0x1234_5678_9abc);
    let setup = ForkSetup { tag: Some(tag), cgroup: None };
    let run = Run { once: true, forked: Some(setup), ..Run::default() };
    let ask = |template: &mut Session, text: &str| {
        let outcome = template.run_with(text.as_bytes(), run);
        assert_eq!(outcome.ended, Ended::Died(0), "{text}: {}", outcome.err());
        outcome.out()
    };
    let text = "echo $$ $PPID; awk '/timeout/ {print $4}' /proc/$$/limits";
    let said = ask(&mut template, text);
    let words: Vec<&str> = said.split_whitespace().collect();
    assert_ne!(words[0], of_template.to_string());
    assert_eq!(words[1], std::process::id().to_string());
    assert_eq!(words[2], tag.to_string());
    // No two of them have the same random numbers.
    let random: std::collections::HashSet<_> =
        (0..20).map(|_| ask(&mut template, "echo $RANDOM$RANDOM $SRANDOM")).collect();
    assert_eq!(random.len(), 20);
    assert_eq!(
        ask(&mut template, "ps -o pid=,pgid=,sid= $$ | awk '{print ($1 == $2), ($2 == $3)}'"),
        "1 1\n"
    );
    // Nothing that another was told, nothing that another did.
    ask(
        &mut template,
        "secret=hunter2hunter; cd /; set -e; trap : EXIT; umask 0; alias a=b; f() { :; }; sleep 0 & exec 5>&1",
    );
    let said = ask(
        &mut template,
        "echo \"[$secret]$- $PWD $(umask)\"; trap -p; alias; declare -F; jobs; echo \"$!\"; [[ -e /proc/$$/fd/5 ]] || echo none",
    );
    let here = template.directory.path().display();
    assert_eq!(said, format!("[]hBc {here} 0022\n\nnone\n"));
    let memory = "python3 - $$ <<'X'\nimport sys\nword = b'hunter2' + b'hunter'\nfor line in open(f'/proc/{sys.argv[1]}/maps'):\n    at, access = line.split()[:2]\n    if access[0] == 'r' and 'vvar' not in line and 'vsyscall' not in line:\n        begin, end = (int(x, 16) for x in at.split('-'))\n        with open(f'/proc/{sys.argv[1]}/mem', 'rb') as f:\n            f.seek(begin)\n            if word in f.read(end - begin): print('found')\nX\n:";
    assert_eq!(ask(&mut template, memory), "");
    // The folder is the one of its name at that time.
    let text = "pwd -P; ls -d .";
    let folder = template.directory.path().to_owned();
    std::fs::rename(&folder, folder.with_extension("old")).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let said = ask(&mut template, text);
    std::fs::remove_dir(&folder).unwrap();
    std::fs::rename(folder.with_extension("old"), &folder).unwrap();
    assert_eq!(said, format!("{}\n.\n", folder.display()));
    assert_eq!(template.died(), None);
}

#[test]
fn a_fork_of_a_template_dies_with_its_supervisor_and_is_killed_alone() {
    let (mut template, pid) = std::thread::spawn(|| {
        let mut template = Session::new(Driver::Loaded);
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let (fd, stdout) = (null.as_fd(), writer.as_fd());
        let job = ShellJob {
            text: b"echo up; kill -STOP $$",
            stdin: fd,
            stdout,
            stderr: fd,
            env: &[],
            cwd: None,
            once: Some(Urgency::Low),
        };
        // What it says must not be taken for what the next one says.
        let alone = template.shell.fork(ShellJob { stdout: fd, ..job }, ForkSetup::default()).unwrap();
        crate::sys::send_signal(alone.pid(), libc::SIGKILL).unwrap();
        rustix::process::waitpid(Some(alone.pid()), rustix::process::WaitOptions::empty()).unwrap();
        assert_eq!(template.died(), None);
        let fork = template.shell.fork(job, ForkSetup::default()).unwrap();
        // It runs: from then on it dies with this thread.
        let mut said = [0; 3];
        std::io::Read::read_exact(&mut &reader, &mut said).unwrap();
        (template, fork.pid())
    })
    .join()
    .unwrap();
    let status = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
    assert_eq!(status.unwrap().1.terminating_signal(), Some(libc::SIGKILL));
    template.report(TEST_TIMEOUT);
    assert_eq!(template.died(), Some(-9));
}

/// As with a C library whose idea of the process id does not survive the fork: what a fork does first may fail.
#[test]
fn a_fork_that_cannot_live_is_given_no_command() {
    let mut template = Session::new(Driver::Loaded);
    let mut fork = template.shell.fork_ahead().unwrap();
    assert!(fork.is_fork_up());
    end(&fork);
    // Below the number that its socket is to have.
    let (_, hard) = sys::limit(Some(template.shell.pid()), Resource::OpenFiles).unwrap();
    sys::set_limit(Some(template.shell.pid()), Resource::OpenFiles, 77, hard).unwrap();
    let mut fork = template.shell.fork_ahead().unwrap();
    assert!(!fork.is_fork_up());
    end(&fork);
}

fn end(fork: &crate::shell::Shell) {
    drop(sys::send_signal(fork.pid(), libc::SIGKILL));
    assert!(sys::reap_one(fork.pid()));
}

#[test]
fn single_commands_replace_the_shell() {
    if bash_version() < (5, 1) {
        return; // which fork for the last command of a list
    }
    let mut session = Session::new(Driver::Loaded);
    let pid = session.shell.pid().as_raw_nonzero();
    let run = Run { once: true, ..Run::default() };
    let outcome = session.run_with(b"true; sh -c 'echo $$'", run);
    assert_eq!(outcome.out(), format!("{pid}\n"));
}

/// Its client hears of the end before the kernel has ended the shell: a lock, a port or a mount must be free by then.
#[test]
fn a_single_command_that_is_over_holds_nothing_until_it_is_let_go() {
    let mut session = Session::new(Driver::Loaded);
    let null = std::fs::File::open("/dev/null").unwrap();
    let fd = null.as_fd();
    let text = b"cd /usr; exec 3>&1 9</usr/bin/bash 500</usr/bin/env";
    session
        .shell
        .run(ShellJob {
            text,
            stdin: fd,
            stdout: fd,
            stderr: fd,
            env: &[],
            cwd: None,
            once: Some(Urgency::Low),
        })
        .unwrap();
    let report = session.report(TEST_TIMEOUT);
    assert!(matches!(report, Some(Report::Done(_))), "{report:?}");
    let of_shell = format!("/proc/{}", session.shell.pid().as_raw_nonzero());
    assert_eq!(std::fs::read_dir(format!("{of_shell}/fd")).unwrap().count(), 1, "more than its connection");
    assert_eq!(std::fs::read_link(format!("{of_shell}/cwd")).unwrap(), Path::new("/"));
    assert_eq!(session.died(), None);
    session.shell.disconnect();
    session.report(TEST_TIMEOUT);
    assert_eq!(session.died(), Some(0));
}

#[test]
fn the_portable_driver_refuses_single_commands() {
    let mut session = Session::new(Driver::Portable);
    let null = std::fs::File::open("/dev/null").unwrap();
    let fd = null.as_fd();
    let job = ShellJob {
        text: b"true",
        stdin: fd,
        stdout: fd,
        stderr: fd,
        env: &[],
        cwd: None,
        once: Some(Urgency::Low),
    };
    assert_eq!(session.shell.run(job).unwrap_err().kind(), std::io::ErrorKind::Unsupported);
    assert_eq!(session.run("echo a").out(), "a\n");
}
