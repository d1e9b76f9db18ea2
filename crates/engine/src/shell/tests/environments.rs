//! Variables that bash looks at when it starts, given in different ways.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::harness::{Outcome, Run, Session, bash, path, set};
use crate::shell::{Driver, ForkSetup, is_plain, is_taken_at_start};

/// Names, with a value each, that mean something to bash.
const VARIABLES: &[(&str, &str)] = &[
    ("PLAIN", "x"),
    ("PWD", "/nonexistent"),
    ("PWD", "/usr"),
    ("OLDPWD", "/usr"),
    ("OLDPWD", "/nonexistent"),
    ("PPID", "1"),
    ("SHLVL", "5"),
    ("SHLVL", "x"),
    ("OPTIND", "3"),
    ("OPTERR", "0"),
    ("BASH_ENV", "/etc/hostname"),
    ("SHELLOPTS", "noglob"),
    ("BASHOPTS", "nullglob"),
    ("_", "x"),
    ("IFS", ":"),
    ("POSIXLY_CORRECT", "1"),
    ("SECONDS", "100"),
    ("LINENO", "7"),
    ("UID", "5"),
    ("EUID", "5"),
    ("GROUPS", "5"),
    ("HISTFILE", "/x"),
    ("HISTSIZE", "5"),
    ("TMOUT", "3"),
    ("LC_ALL", "C"),
    ("LC_ALL", "nope"),
    ("LC_NUMERIC", "nope"),
    ("LANG", "C"),
    ("TZ", "UTC-5"),
    ("BASH", "/x"),
    ("BASH_VERSION", "1"),
    ("FUNCNAME", "f"),
    ("DIRSTACK", "x"),
    ("PIPESTATUS", "3"),
    ("BASH_ARGV0", "zz"),
    ("HOSTNAME", "h"),
    ("OSTYPE", "o"),
    ("PS1", "x"),
    ("PS4", "y"),
    ("TERM", "t"),
    ("SHELL", "/x"),
    ("COLUMNS", "5"),
    ("IGNOREEOF", "3"),
    ("BASH_COMPAT", "4.4"),
    ("FUNCNEST", "2"),
    ("CDPATH", "/"),
    ("ENV", "/x"),
    ("HOME", "/x"),
    ("PATH", "/bin:/usr/bin"),
    ("GLOBIGNORE", "*.nope"),
    ("CHILD_MAX", "5"),
    ("LD_LIBRARY_PATH", "/x"),
    ("EXECIGNORE", "x"),
    ("TIMEFORMAT", "x"),
    ("REPLY", "1"),
    ("OPTARG", "1"),
    ("BASH_FUNC_f%%", "() { echo imported; }"),
    ("with.dot", "1"),
    ("1x", "1"),
    ("PROMPT_COMMAND", "exit 3"),
    ("MAILCHECK", "5"),
    ("TEXTDOMAIN", "x"),
    ("COMP_WORDBREAKS", "x"),
    ("histchars", "abc"),
];

/// What a shell says of a variable, without what differs between any two shells.
fn question(name: &str) -> String {
    let own = if name == "PPID" { "[[ $PPID == 1 ]]; echo $?" } else { "" };
    let shown = if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !name.starts_with('1') {
        format!(
            "declare -p {name} 2>&1 | sed 's/PPID=.*//'; echo \"=${{{name}-unset}}\" | sed \"s/=$PPID/=ppid/\""
        )
    } else {
        "declare -F; f".into()
    };
    format!("{own}; env | grep -aF '{name}' | grep -av '^_='; {shown}; echo \"$- $? $PWD\"; x=1:2; echo $x /nope* *.nope $OPTIND; shopt -p dotglob; set -x; :")
        .trim_start_matches("; ")
        .to_owned()
}

fn plain(session: &Session, name: &str, value: &str, text: &str) -> (String, String) {
    let mut command = Command::new(bash());
    std::os::unix::process::CommandExt::arg0(&mut command, "bash");
    command
        .args(["--norc", "--noprofile", "-c", text])
        .env_clear()
        .env("PATH", path())
        .env("HOME", session.directory.path())
        .env("LANG", "C.UTF-8")
        .env(name, value)
        .current_dir(session.directory.path())
        .stdin(std::fs::File::open("/dev/null").unwrap());
    #[expect(clippy::disallowed_methods, reason = "it leaves no process behind that writes")]
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (without_time(name, &text(&output.stdout)), text(&output.stderr))
}

/// `SECONDS` goes on while a shell starts.
fn without_time(name: &str, output: &str) -> String {
    if name != "SECONDS" {
        return output.to_owned();
    }
    let later = |text: String, seconds: u32| text.replace(&seconds.to_string(), "100");
    (101..200).fold(output.to_owned(), later)
}

/// Returns the differences between the output of a driven shell and that of bash.
fn difference(name: &str, value: &str, ours: &Outcome, theirs: &(String, String)) -> Option<String> {
    let ours = (without_time(name, &ours.out()), ours.err());
    (ours != *theirs).then(|| format!("\n{name}={value}\n ours   {ours:?}\n theirs {theirs:?}"))
}

/// A variable that is plain can be given to a shell that is up; any other has to be in the environment of a new bash.
#[test]
fn plain_variables_behave_as_inherited() {
    let mut template = Session::new(Driver::Loaded);
    let mut differences = Vec::new();
    for (name, value) in
        VARIABLES.iter().filter(|(name, value)| is_plain(name.as_ref(), Some(value.as_ref())))
    {
        let text = question(name);
        let env = [set(name, value)];
        let run = Run { once: true, env: &env, forked: Some(ForkSetup::default()), ..Run::default() };
        let ours = template.run_with(text.as_bytes(), run);
        differences.extend(difference(name, value, &ours, &plain(&template, name, value, &text)));
    }
    assert!(differences.is_empty(), "{}", differences.concat());
}

/// Bash and what it loads read them when it starts, so a shell that is up would be too late.
#[test]
fn variables_of_the_linker_require_a_new_bash() {
    for name in ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_BIND_NOW", "MALLOC_CHECK_", "GLIBC_TUNABLES"] {
        assert!(!is_plain(name.as_ref(), Some("x".as_ref())) && !is_plain(name.as_ref(), None), "{name}");
    }
}

/// A shell that was started with them, as the sandbox's own environment is given.
#[test]
fn shells_start_with_their_environment() {
    let mut differences = Vec::new();
    for (name, value) in
        VARIABLES.iter().filter(|(name, value)| is_taken_at_start(name.as_ref(), value.as_ref()))
    {
        let text = question(name);
        let mut session = Session::with_env(Driver::Loaded, &[(name, value)]);
        let theirs = plain(&session, name, value, &text);
        let ours = session.run_with(text.as_bytes(), Run { once: true, ..Run::default() });
        differences.extend(difference(name, value, &ours, &theirs));
    }
    assert!(differences.is_empty(), "{}", differences.concat());
}

/// What bash says by itself stays so in a session's command, and nothing of it stays afterwards.
#[test]
fn variables_of_bash_are_not_a_commands() {
    let mut session = Session::new(Driver::Loaded);
    let before =
        session.run("declare -p PWD PPID SHLVL OPTIND SHELLOPTS BASHOPTS IFS UID BASH BASH_VERSION").out();
    for (name, value) in VARIABLES {
        let env: [(OsString, Option<OsString>); 1] = [set(name, value)];
        let run = Run { env: &env, cwd: None, ..Run::default() };
        let outcome = session.run_with(b"cd /usr; echo $PWD; [[ $PPID == 1 ]] || echo ppid; cd /var", run);
        assert!(outcome.out().ends_with("/usr\nppid\n"), "{name}: {} {}", outcome.out(), outcome.err());
        assert_eq!(session.run("echo $PWD; pwd").out(), "/var\n/var\n", "{name}");
        session.run(&format!("cd {}; unset OLDPWD", session.directory.path().display()));
        let after = session
            .run("declare -p PWD PPID SHLVL OPTIND SHELLOPTS BASHOPTS IFS UID BASH BASH_VERSION")
            .out();
        assert_eq!(after, before, "{name}");
    }
    let env = [set("PWD", "/nonexistent")];
    let run = Run { env: &env, cwd: Some(Path::new("/etc")), ..Run::default() };
    assert_eq!(session.run_with(b"echo $PWD; cd /usr", run).out(), "/etc\n");
    assert_eq!(session.run("echo $PWD").out(), format!("{}\n", session.directory.path().display()));
}
