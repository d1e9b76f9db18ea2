//! The table of hostile commands, played over both drivers by `cases.rs` and again through the whole engine by
//! its integration tests.
//!
//! After the last command of a case the session has to answer `echo ok`. Cases with a reason in `loaded_only` do not
//! hold for the portable driver; SPECIFICATION.md lists them.

/// A session: commands, and what is expected of them.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<Step>,
    pub(crate) loaded_only: Option<&'static str>,
    /// The versions of bash that do so: the first and the last.
    pub(crate) versions: [Version; 2],
}

/// A version of bash: major, minor.
pub(crate) type Version = (u32, u32);
const ALL_VERSIONS: [Version; 2] = [(0, 0), (u32::MAX, 0)];

impl Case {
    /// Older versions of bash do not do so.
    fn since(mut self, major: u32, minor: u32) -> Self {
        self.versions[0] = (major, minor);
        self
    }

    /// Newer versions of bash do not do so.
    fn until(mut self, major: u32, minor: u32) -> Self {
        self.versions[1] = (major, minor);
        self
    }
}

/// A command and what is expected of it.
pub(crate) struct Step {
    pub(crate) text: String,
    pub(crate) stdout: Text,
    pub(crate) stderr: Text,
    pub(crate) ended: Expected,
    pub(crate) stdin: Option<&'static [u8]>,
    pub(crate) open_stdin: bool,
}

/// What a stream is expected to hold.
pub(crate) enum Text {
    Any,
    Is(String),
    Has(String),
}

/// How a command is expected to end.
#[derive(Clone, Copy)]
pub(crate) enum Expected {
    /// By itself, with this status; -1 for any.
    Normal(i32),
    /// The command ends the shell (over the loaded driver the process stays).
    Exit(i32),
    /// By a signal to the shell that it has no trap for; the shell stays.
    Signal(i32),
    /// By some signal; the shell stays.
    AnySignal,
    /// It is interrupted by us.
    Interrupted,
    /// With the shell's process; a signal is negative.
    Died(i32),
}

fn step(text: impl Into<String>, ended: Expected, stdout: Text, stderr: Text) -> Step {
    Step { text: text.into(), stdout, stderr, ended, stdin: None, open_stdin: false }
}

/// Status 0, this output, no error output.
pub(crate) fn ok(text: impl Into<String>, out: impl Into<String>) -> Step {
    step(text, Expected::Normal(0), Text::Is(out.into()), Text::Is(String::new()))
}

fn fails(text: &str, status: i32, out: &str, err: &str) -> Step {
    step(text, Expected::Normal(status), Text::Is(out.into()), Text::Is(err.into()))
}

/// This status and output; the error output has this in it.
fn says(text: &str, status: i32, out: &str, err: &str) -> Step {
    step(text, Expected::Normal(status), Text::Is(out.into()), Text::Has(err.into()))
}

fn exits(text: &str, status: i32, out: &str) -> Step {
    step(text, Expected::Exit(status), Text::Is(out.into()), Text::Any)
}

fn interrupted(text: &str, out: &str) -> Step {
    step(text, Expected::Interrupted, Text::Is(out.into()), Text::Any)
}

fn dies(text: &str, status: i32, out: &str) -> Step {
    step(text, Expected::Died(status), Text::Is(out.into()), Text::Any)
}

fn case(name: &'static str, steps: impl Into<Vec<Step>>) -> Case {
    Case { name, steps: steps.into(), loaded_only: None, versions: ALL_VERSIONS }
}

fn exact(name: &'static str, reason: &'static str, steps: impl Into<Vec<Step>>) -> Case {
    Case { name, steps: steps.into(), loaded_only: Some(reason), versions: ALL_VERSIONS }
}

const PREFIX: &str = "messages begin with the path of the sourced file";
const STATUS: &str = "only 0 or 1 carry over as $?; $_ and PIPESTATUS do not";
const DEBUG: &str =
    "the lines that start and report a command fire DEBUG, RETURN and ERR traps and show in traces";
const SOURCED: &str = "the command is a sourced file of an interactive shell";
const SHADOWED: &str = "a function or alias with the name of a builtin that the driver uses takes its place";
const GOES_ON: &str = "bash takes a SIGINT of which its child did not die as meant for the child";
const ENDS: &str = "what ends a script ends the shell";
const INTERACTIVE: &str = "an interactive bash does not do this";

#[rustfmt::skip] // a table, one line a case
fn text_cases() -> Vec<Case> {
    vec![
        exact("unterminated quote", PREFIX, [fails("echo 'a", 2, "", "bash: line 1: unexpected EOF while looking for matching `''\n")]).since(5, 2),
        case("unterminated quote, any message", [says("echo \"a", 2, "", "unexpected EOF")]),
        case("unterminated backquote", [says("echo `a", 2, "", "unexpected EOF")]),
        case("unterminated substitution", [says("echo $(a", 2, "", "unexpected")]),
        case("unterminated brace expansion", [says("echo ${a", 2, "", "unexpected EOF")]),
        case("unterminated if", [says("if true; then", 2, "", "syntax error")]),
        case("unterminated function", [says("f() {", 2, "", "syntax error"), says("f", 127, "", "not found")]),
        case("a lone }", [says("}", 2, "", "syntax error near unexpected token `}'")]),
        case("a lone )", [says(")", 2, "", "syntax error near unexpected token `)'")]),
        case("closing our group", [says("echo a; }; { echo b", 2, "", "syntax error")]),
        case("closing our subshell", [says("echo a ) ; ( echo b", 2, "", "syntax error")]),
        case("first line runs before a syntax error", [says("echo a\n)", 2, "a\n", "syntax error")]),
        case("lone operators", [says("&&", 2, "", "syntax error"), says(";;", 2, "", "syntax error"), says("|", 2, "", "syntax error")]),
        case("heredoc", [ok("cat <<X\na $((1+1))\nX\necho b", "a 2\nb\n")]),
        case("quoted heredoc", [ok("cat <<'X'\n$a `b`\nX", "$a `b`\n")]),
        case("heredoc without its end", [says("cat <<X\na\nb", 0, "a\nb\n", "here-document")]),
        case("heredoc with CRLF end", [says("cat <<X\na\nX\r", 0, "a\nX\r\n", "here-document")]),
        case("trailing backslash", [ok("echo a\\", "a\\\n")]),
        case("continued line", [ok("echo a \\\nb", "a b\n")]),
        case("trailing &", [ok("true &", "")]),
        case("trailing & with output", [ok("wait; echo a & wait", "a\n")]),
        case("comment only", [ok("# nothing", "")]),
        case("comment at the end", [ok("echo a # b", "a\n")]),
        case("empty", [ok("", "")]),
        case("blank", [ok(" \n\t\n ", "")]),
        case("only semicolon", [says(";", 2, "", "syntax error")]),
        case("CRLF line ends", [ok("printf '%q\\n' a\r\n", "$'a\\r'\n")]),
        case("looks like our line", [ok("echo '{ $(($?+)); } 2>/dev/null'", "{ $(($?+)); } 2>/dev/null\n")]),
        case("starts with a dash", [says("-n", 127, "", "-n: command not found")]),
        case("history characters", [ok("echo hi! !! !x", "hi! !! !x\n")]),
        case("1 MB script", [ok(format!("{}echo end", "x=0123456789abcdef\n".repeat(60_000)), "end\n")]),
        case("1 MB word", [ok(format!("x={}; echo ${{#x}}", "y".repeat(1 << 20)), "1048576\n")]),
        case("65 KB, around the size of a packet", (65_400..65_560).step_by(16).map(|n| ok(format!(": {}; echo end", "z".repeat(n)), "end\n")).collect::<Vec<_>>()),
        case("10,000 lines", [ok("((n++))\n".repeat(10_000) + "echo $n", "10000\n")]),
        case("invalid UTF-8", [ok("printf 'a\\xff\\xfe' | od -An -tx1", " 61 ff fe\n")]),
        case("alias across lines", [ok("shopt -s expand_aliases\nalias hi='echo hello'\nhi", "hello\n"), ok("hi you", "hello you\n")]),
        case("alias in the next command", [ok("alias hi='echo hello'", ""), ok("hi you", "hello you\n")]),
        case("nested quoting", [ok("bash -c \"echo 'a \\\"b\\\" c'\"", "a \"b\" c\n")]),
        case("arithmetic error", [says("echo $((1+)); echo no\necho yes", 0, "yes\n", "syntax error")]),
        case("division by zero", [says("echo $((1/0))\necho $?", 0, "1\n", "division by 0")]),
        case("bad substitution", [says("echo ${a!b}\necho after", 0, "after\n", "bad substitution")]),
        case("glob without match", [ok("echo /nonexistent*", "/nonexistent*\n")]),
    ]
}

#[rustfmt::skip] // a table, one line a case
fn flow_cases() -> Vec<Case> {
    vec![
        case("exit 3", [exits("x=1; echo a; exit 3; echo b", 3, "a\n"), ok("echo $x", "1\n")]),
        case("exit without status", [exits("false; exit", 1, "")]),
        case("exit 256", [exits("exit 256", 0, "")]),
        case("exit x", [exits("exit x", 2, "")]).until(5, 2),
        case("exit in a function", [exits("f() { local l=1; g() { exit 4; }; g; }; f", 4, ""), ok("echo \"[$l]${FUNCNAME[0]}\"; caller || f2() { :; }", "[]\n")]),
        case("exit in a loop in a function with redirections", [exits("f() { for i in 1 2; do { exit 5; } >/dev/null; done; }; f", 5, ""), ok("echo out; break 2>/dev/null", "out\n")]),
        case("exit in eval", [exits("eval 'eval \"exit 6\"'", 6, "")]),
        case("exit in a sourced file", [exits("echo 'exit 7' >f; . ./f", 7, "")]),
        case("exit in a subshell", [fails("(exit 8)", 8, "", "")]),
        case("exit in a substitution", [fails("x=$(exit 9)", 9, "", "")]),
        case("exit in a pipeline", [fails("true | exit 10", 10, "", "")]),
        case("exit in the background", [ok("{ exit 11; } & wait $!; echo $?", "11\n")]),
        case("exit trap", [exits("trap 'echo bye $?' EXIT; exit 3", 3, "bye 3\n")]),
        case("exit trap sees locals", [exits("f() { local v=in; trap 'echo $v' EXIT; exit 3; }; f", 3, "in\n"), ok("echo \"[$v]\"", "[]\n")]).since(5, 2),
        case("exit leaves no descriptors", [ok("n=(/proc/$$/fd/*)", ""), exits("f() { { for i in 1; do exit 5; done 2>/dev/null; } >/dev/null; }; f", 5, ""), exits("f() { { exit 5; } 9>/dev/null; }; f </dev/null", 5, ""), exits("set -e; f() { { false; } >/dev/null; }; f 2>/dev/null", 1, ""), ok("set +e; m=(/proc/$$/fd/*); echo $((${#m[@]} - ${#n[@]}))", "0\n")]),
        case("exit trap leaves no descriptors", [ok("n=(/proc/$$/fd/*)", ""), exits("trap 'true' EXIT; f() { { exit 5; } >/dev/null; }; f", 5, ""), ok("m=(/proc/$$/fd/*); echo $((${#m[@]} - ${#n[@]}))", "0\n")]),
        case("exit leaves the descriptors a user opened", [ok("exec {a}>a; exec {BASH_XTRACEFD}>trace; coproc cat", ""), exits("f() { { exit 5; } >/dev/null; }; trap : EXIT; f", 5, ""), ok("echo x >&$a; set -x; : y; set +x; cat a; grep -c ': y' trace; echo z >&${COPROC[1]}; read -r q <&${COPROC[0]}; echo $q; { kill $COPROC_PID; wait $COPROC_PID; } 2>/dev/null; true", "x\n1\nz\n")]),
        case("exit trap that exits", [exits("trap 'exit 9' EXIT; exit 3", 9, "")]),
        case("exit trap stays until then", [ok("trap 'echo bye' EXIT", ""), ok("trap -p", "trap -- 'echo bye' EXIT\n"), exits("exit", 0, "bye\n"), ok("trap -p", "")]),
        case("exit trap twice", [exits("trap 'echo 1' EXIT; exit 1", 1, "1\n"), exits("trap 'echo 2' EXIT; exit 2", 2, "2\n"), ok("echo 3", "3\n")]),
        exact("return 3", SOURCED, [says("return 3; echo $?", 0, "2\n", "return: can only `return' from a function or sourced script")]).since(5, 1),
        exact("return in a loop", SOURCED, [says("for i in 1 2; do return $i; echo $i; done", 0, "1\n2\n", "can only `return'"), ok("echo a; break 2>/dev/null; echo b", "a\nb\n")]),
        exact("return in eval", SOURCED, [says("eval 'return 4'; echo $?", 0, "2\n", "can only `return'")]).since(5, 1),
        exact("return in a subshell", SOURCED, [says("(return 3); echo $?", 0, "2\n", "can only `return'")]).since(5, 1),
        case("return in a function", [fails("f() { return 3; }; f", 3, "", "")]),
        exact("a discarded command leaves the rest of the text", SOURCED, [says("declare -i p\np=80a; echo no\necho on $?\np=1/0\necho on", 0, "on 1\non\n", "value too great")]),
        exact("a discarded command in a function", SOURCED, [says("f() { local v=1; shift 1 2; echo no; }\nf; echo no\necho ${v-unset} ${#FUNCNAME[@]} $LINENO", 0, "unset 0 3\n", "too many arguments")]),
        exact("a discarded command at the end", SOURCED, [says("declare -i p\np=80a", 1, "", "value too great"), ok("echo $?", "1\n")]),
        case("break outside", [says("break; echo a", 0, "a\n", "only meaningful")]),
        case("exec true", [dies("exec true", 0, "")]),
        case("exec with output", [dies("exec echo hi", 0, "hi\n")]),
        case("exec of nothing", [step("exec /nonexistent/x; echo on", Expected::Died(127), Text::Is(String::new()), Text::Has("No such file".into()))]),
        case("exec in a subshell", [ok("(exec echo a); echo b", "a\nb\n")]),
        case("set -e; false", [exits("set -e; false; echo no", 1, "")]),
        case("set -e in a function", [exits("set -e; f() { local l=1; false; echo no; }; f", 1, ""), ok("set +e; echo \"[$l]${FUNCNAME[*]}\"", "[]\n")]),
        case("set -e carries", [ok("set -e", ""), exits("false; echo no", 1, ""), ok("set +e; false; echo yes", "yes\n")]),
        case("set -e with a condition", [ok("set -e; false || echo a; ! true; if false; then :; fi; echo b", "a\nb\n")]),
        case("set -e with exit trap", [exits("trap 'echo bye $?' EXIT; set -e; false", 1, "bye 1\n")]).only(ENDS),
        case("set -e and a syntax error", [ok("set -e", ""), dies(")", 2, "")]),
        exact("set -u", ENDS, [exits("set -u; echo $nope; echo no", 1, ""), ok("set +u; echo \"[$nope]\"", "[]\n")]),
        exact("${x:?}", ENDS, [exits("echo ${nope:?missing}; echo no", 1, "")]),
        case("set -o pipefail", [fails("set -o pipefail; false | true", 1, "", "")]),
        exact("set -n", INTERACTIVE, [ok("set -n; echo no\necho no", ""), ok("echo yes", "yes\n")]),
        exact("set -r", "a restricted shell may not redirect its output, as the portable driver does", [ok("set -r; echo a", "a\n"), says("cd /", 1, "", "restricted"), says("echo x >f", 1, "", "restricted")]),
        case("set -o posix", [ok("set -o posix; echo a", "a\n"), ok("x=1; echo $x; set +o posix", "1\n")]),
        case("set -f and set -C", [ok("set -fC; echo *", "*\n"), says("echo a >f; echo b >f", 1, "", "cannot overwrite existing file")]),
        case("set -k and set -a", [ok("set -a; v=1; env | grep ^v=", "v=1\n"), ok("w=2; env | grep ^w=", "w=2\n")]),
        case("set -m", [ok("set -m; true; echo a", "a\n"), ok("(echo b)", "b\n")]),
        case("set -t", [exits("set -t; echo a\necho no", 0, "a\n"), ok("echo b\necho c", "b\nc\n")]).only(ENDS),
        exact("xtrace", DEBUG, [fails("set -x; echo a; f() { :; }; f", 0, "a\n", "+ echo a\n+ f\n+ :\n"), fails("echo b; set +x", 0, "b\n", "+ echo b\n+ set +x\n"), ok("echo c", "c\n")]),
        case("verbose", [fails("set -v\necho a", 0, "a\n", "echo a\n"), fails("set +v", 0, "", "set +v\n")]),
        case("xtrace to a descriptor", [ok("exec 9>trace; BASH_XTRACEFD=9; set -x; echo a; set +x; unset BASH_XTRACEFD; grep -c 'echo a' trace", "a\n1\n")]),
        case("deep recursion", [says("FUNCNEST=100; f() { f; }; f", 1, "", "maximum function nesting level exceeded")]),
        case("subshell status", [fails("(exit 200)", 200, "", "")]),
        case("killed child", [says("bash -c 'kill -9 $$'", 137, "", "Killed")]).only(INTERACTIVE),
        case("not found", [says("nosuchcommand", 127, "", "nosuchcommand: command not found")]),
        case("not executable", [says("/etc/passwd", 126, "", "Permission denied")]),
        exact("exact message", PREFIX, [fails("\n\nnosuchcommand", 127, "", "bash: line 3: nosuchcommand: command not found\n")]),
        exact("exact syntax message", PREFIX, [fails("echo a\n)", 2, "a\n", "bash: line 2: syntax error near unexpected token `)'\nbash: line 2: `)'\n")]),
    ]
}

#[rustfmt::skip] // a table, one line a case
fn state_cases() -> Vec<Case> {
    vec![
        exact("$?", STATUS, [fails("(exit 42)", 42, "", ""), ok("echo $?", "42\n"), fails("false", 1, "", ""), ok("echo $?", "1\n")]),
        case("$? of 0 and 1", [fails("false", 1, "", ""), ok("echo $?", "1\n"), ok("echo $?", "0\n")]),
        exact("$_", STATUS, [ok("echo a b", "a b\n"), ok("echo $_", "b\n")]),
        exact("PIPESTATUS", STATUS, [fails("(exit 3) | (exit 4) | true; (exit 5) | (exit 6)", 6, "", ""), ok("echo ${PIPESTATUS[@]}", "5 6\n")]),
        case("$!", [ok("sleep 0.01 &", ""), ok("[[ -n $! ]] && wait $!; echo $?", "0\n")]),
        case("positional parameters", [ok("set -- a 'b c'; shift 0", ""), ok("echo $# \"$2\"", "2 b c\n")]),
        exact("fresh shell", INTERACTIVE, [ok("echo \"$? [$-] $# $0 $LINENO ${PIPESTATUS[*]} $SHLVL\"", "0 [hBs] 0 bash 1  1\n")]),
        case("no builtin, function, alias or trap of ours", [ok("enable -a | grep -c sandcrab; compgen -b | grep -c sandcrab; declare -F; alias; trap -p; help sandcrab 2>/dev/null; echo $?", "0\n0\n1\n")]),
        case("no variable of ours", [ok("set | cut -d= -f1 | grep -ic sandcrab; env | cut -d= -f1 | grep -ic sandcrab; compgen -v | grep -ic crab", "0\n0\n0\n").status(1)]),
        exact("the variables of a plain shell", INTERACTIVE, [ok("compgen -v | grep -v '^_$' | sort >mine; env -i PATH=\"$PATH\" HOME=\"$HOME\" LANG=\"$LANG\" bash --norc --noprofile >theirs <<<'compgen -v | grep -v \"^_$\" | sort'; diff mine theirs && echo same", "same\n")]),
        case("the options of a plain shell", [ok("(set +o; shopt -p) >mine; bash --norc --noprofile -O expand_aliases >theirs <<<'set +o; shopt -p'; diff mine theirs && echo same", "same\n")]),
        case("no descriptor below 10", [ok("for fd in /proc/$$/fd/[3-9]; do [[ -e $fd ]] && echo $fd; done; true", "")]),
        case("no low descriptor in a child", [ok("bash -c 'ls /proc/self/fd' | grep -cx -e '[3-9]' -e '4[0-9][0-9]'", "1\n")]),
        case("no variable of ours in a child", [ok("env | grep -c -e SANDCRAB -e BASH", "0\n").status(1)]),
        case("user variables", [ok("log=l dir=d EXIT_CODE=e status=s text=t", ""), ok("echo $log $dir $EXIT_CODE $status $text", "l d e s t\n")]),
        case("readonly variables", [ok("readonly log=1 dir=2 status=3 name=4; echo $log", "1\n"), ok("echo $dir", "2\n")]),
        case("declare -A", [ok("declare -A m=([a]=1 ['b c']=2)", ""), ok("echo ${m['b c']} ${#m[@]}", "2 2\n")]),
        case("declare outside a function is global", [ok("declare x=1; typeset y=2; f() { echo $x$y; }", ""), ok("f", "12\n")]),
        case("local outside a function", [says("local x=1; echo on", 0, "on\n", "can only be used in a function")]),
        case("functions", [ok("f() { local v=$1; echo \"f$v\"; }", ""), ok("f 1; unset -f f", "f1\n"), says("f", 127, "", "not found")]),
        case("function named like a builtin", [ok("cd() { builtin cd \"$@\" && echo moved; }; cd /", "moved\n"), ok("cd /tmp; pwd", "moved\n/tmp\n")]),
        case("function test and echo and [", [ok("echo() { printf 'E%s\\n' \"$*\"; }; test() { printf T; }; echo a", "Ea\n"), ok("test", "T"), ok("unset -f echo test", "")]),
        case("function builtin", [ok("builtin() { printf B; }; builtin echo a", "B"), ok("printf x; builtin", "xB"), ok("unset -f builtin", "")]),
        case("function eval", [ok("eval() { printf E; }; eval", "E"), ok("eval; unset -f eval", "E")]),
        exact("function .", SHADOWED, [ok("function . { printf dot; }; . x", "dot"), ok("printf a; unset -f .", "a")]),
        case("function source, declare, exit, return, trap, set", [ok("source() { printf S; }; declare() { printf D; }; exit() { printf X; }; return() { printf R; }; trap() { printf T; }; set() { printf s; }; exit 3", "X"), ok("source; declare; return; trap; set", "SDRTs"), ok("unset -f source declare exit return trap set", "")]),
        case("function unset", [ok("unset() { printf U; }; unset x", "U"), ok("builtin unset -f unset", "")]),
        case("function command", [ok("command() { printf C; }; command true", "C"), ok("unset -f command", "")]),
        case("alias of a builtin", [ok("shopt -s expand_aliases; alias cd='echo cd' echo='printf %s' builtin='echo b' eval='echo e' .='echo dot' '{'='echo brace'", ""), ok("echo a", "a"), ok("\\unalias -a; \\echo b", "b\n")]),
        case("alias of [[", [ok("shopt -s expand_aliases; alias '[['='echo no' '!'='echo not'", ""), ok("unalias -a", "")]),
        case("disabled builtins", [ok("enable -n echo cd builtin", ""), ok("/bin/echo a; enable echo cd builtin", "a\n")]),
        exact("disabled .", SHADOWED, [ok("enable -n . eval source", ""), ok("echo a; enable . eval source", "a\n")]),
        case("PS1, PS2, PS4, PROMPT_COMMAND", [ok("PS1='x$(echo boo)'; PS2=y; PROMPT_COMMAND='echo prompt; false'; PS0=z", ""), ok("echo a", "a\n"), ok("echo b", "b\n")]),
        exact("PROMPT_COMMAND array", "an interactive bash runs it", [ok("PROMPT_COMMAND=('echo 1' 'exit 3')", ""), ok("echo a", "a\n")]),
        case("IFS", [ok("IFS=/0123456789", ""), ok("x=a/b; echo $x", "a b\n"), ok("IFS=; echo a", "a\n")]),
        case("unset PATH, HOME, PWD, IFS", [ok("unset PATH HOME PWD OLDPWD IFS; echo a", "a\n"), ok("/bin/echo b", "b\n")]),
        case("locale", [ok("LC_ALL=C; echo a", "a\n"), ok("LC_ALL=nonexistent 2>/dev/null; echo b", "b\n").any()]),
        case("readonly IFS, PATH and OPTIND", [ok("readonly IFS PATH OPTIND PWD; echo a", "a\n"), ok("echo b", "b\n")]),
        case("cd persists", [ok("mkdir -p d/e; cd d", ""), ok("cd e; basename $PWD", "e\n"), ok("cd ~-; basename \"$PWD\"", "d\n")]),
        case("cwd deleted", [ok("mkdir gone; cd gone; rmdir ../gone", ""), step("echo a; ls", Expected::Normal(0), Text::Is("a\n".into()), Text::Any), ok("cd /; pwd", "/\n")]),
        case("umask and ulimit", [ok("umask 077; ulimit -S -c 0", ""), ok("umask; ulimit -c", "0077\n0\n")]),
        case("shopt", [ok("shopt -s extglob nullglob", ""), ok("x=aab; echo ${x/+(a)/_} /nonexistent*", "_b\n")]),
        case("exec 3 persists", [ok("exec 3>three", ""), ok("echo a >&3; exec 3>&-; cat three", "a\n")]),
        case("exec >file lasts for the command", [ok("exec >one 2>two; echo a", ""), ok("cat one; echo b", "a\nb\n")]),
        case("exec {fd}", [ok("exec {fd}>dyn; echo $((fd >= 10))", "1\n"), ok("echo x >&$fd; exec {fd}>&-; cat dyn", "x\n")]),
        case("closed stdio", [step("exec 0<&- 1>&- 2>&-", Expected::Normal(0), Text::Is(String::new()), Text::Any), ok("echo a", "a\n")]),
        case("stdout closed, then echo", [step("exec 1>&-; echo a", Expected::Normal(1), Text::Is(String::new()), Text::Has("write error".into())), ok("echo b", "b\n")]),
        exact("all descriptors closed", "it loses its input", [ok("for f in /proc/$$/fd/*; do f=${f##*/}; ((f > 2)) && eval \"exec $f>&-\"; done; true", ""), ok("echo a", "a\n"), ok("echo b", "b\n")]),
        exact("our descriptors replaced", "it loses its input", [ok("for f in /proc/$$/fd/*; do f=${f##*/}; ((f > 2)) && eval \"exec $f>/dev/null\"; done; true", ""), ok("echo a", "a\n")]),
        case("noise on our descriptors", [ok("for f in /proc/$$/fd/*; do f=${f##*/}; ((f > 2)) && [[ -S /proc/$$/fd/$f ]] && eval \"echo noise >&$f\"; done; true", ""), ok("echo a", "a\n")]),
        case("BASH_ARGV0", [ok("BASH_ARGV0=x; echo $0", "x\n"), ok("echo a", "a\n")]).since(5, 0),
        case("getopts", [ok("set -- -a -b; getopts ab o; echo $o", "a\n"), ok("getopts ab o; echo $o", "b\n")]),
        case("hash", [ok("hash -r; ls >/dev/null; hash -t ls >/dev/null && echo hashed", "hashed\n")]),
        case("pushd", [ok("pushd / >/dev/null", ""), ok("popd >/dev/null; dirs -p | wc -l", "1\n")]),
        case("LINENO", [ok("echo $LINENO\necho $LINENO", "1\n2\n"), ok("echo $LINENO", "1\n")]),
        case("BASHPID and $$", [ok("[[ $$ == $BASHPID ]] && echo same; (((BASHPID != $$)) && echo other)", "same\nother\n")]),
        case("SECONDS and RANDOM", [ok("SECONDS=100; RANDOM=1; ((SECONDS >= 100)) && echo $((RANDOM == RANDOM))", "0\n")]),
        case("export -f", [ok("f() { echo exported; }; export -f f", ""), ok("bash -c f", "exported\n")]),
        case("nameref", [ok("declare -n r=target; r=5", ""), ok("echo $target", "5\n")]),
        case("mapfile", [ok("mapfile -t a < <(printf '1\\n2\\n')", ""), ok("echo ${a[1]}", "2\n")]),
        case("coproc", [ok("coproc cat; echo a >&${COPROC[1]}; read -r x <&${COPROC[0]}; echo $x; eval \"exec ${COPROC[1]}>&-\"; wait", "a\n")]),
        case("completion", [ok("complete -W 'a b' foo; complete -p foo", "complete -W 'a b' foo\n")]),
        case("TMOUT", [ok("TMOUT=1", ""), ok("sleep 1.2; echo a", "a\n")]),
        case("history off", [ok("fc -l 2>/dev/null; history; echo a", "a\n").any_status()]),
    ]
}

#[rustfmt::skip] // a table, one line a case
fn trap_and_job_cases() -> Vec<Case> {
    vec![
        exact("DEBUG trap", DEBUG, [ok("trap 'echo D:$BASH_COMMAND' DEBUG; echo a", "D:echo a\na\n"), ok("echo b", "D:echo b\nb\n"), ok("trap - DEBUG", "D:trap - DEBUG\n"), ok("echo c", "c\n")]),
        exact("RETURN trap", DEBUG, [ok("trap 'echo R' RETURN; f() { :; }; f", "").any_out(), ok("echo a", "a\n")]),
        case("ERR trap", [fails("trap 'echo E$?' ERR; false", 1, "E1\n", ""), ok("true", ""), ok("trap - ERR", "")]),
        case("user trap on INT", [ok("trap 'echo int' INT; kill -INT $$; echo a", "int\na\n")]),
        case("user trap on TERM", [ok("trap 'echo term' TERM; kill -TERM $$; echo a", "term\na\n"), ok("kill -TERM $$; trap - TERM", "term\n")]),
        case("user trap on USR1, HUP, ALRM", [ok("trap 'echo u' USR1 HUP ALRM; kill -USR1 $$; kill -HUP $$; kill -ALRM $$; echo a", "u\nu\nu\na\n")]),
        case("ignored signals", [ok("trap '' TERM INT HUP; kill -TERM $$; kill -INT $$; kill -HUP $$; echo a", "a\n"), ok("bash -c 'kill -TERM $$; echo b'", "b\n")]),
        exact("kill -TERM $$", INTERACTIVE, [step("x=1; kill -TERM $$; echo no", Expected::Signal(15), Text::Is(String::new()), Text::Any), ok("echo $x", "1\n")]),
        exact("kill -TERM $$ with a trap on EXIT", INTERACTIVE, [step("x=1; trap 'echo bye' EXIT; kill -TERM $$; echo no", Expected::Signal(15), Text::Is(String::new()), Text::Any), ok("echo $x; trap -p EXIT; trap - EXIT", "1\ntrap -- 'echo bye' EXIT\n")]),
        exact("kill -USR1 $$ after its trap is gone", ENDS, [step("trap 'echo t' USR1; kill -USR1 $$; trap - USR1; kill -USR1 $$; echo no", Expected::Signal(10), Text::Is("t\n".into()), Text::Any), step("kill -USR1 $$", Expected::Signal(10), Text::Any, Text::Any)]),
        exact("kill -INT $$", INTERACTIVE, [step("x=1; kill -INT $$; echo no", Expected::Signal(2), Text::Is(String::new()), Text::Any), ok("echo $x", "1\n")]),
        exact("kill -HUP $$ in a function", ENDS, [step("f() { kill -HUP $$; echo no; }; f", Expected::Signal(1), Text::Is(String::new()), Text::Any)]),
        exact("SIGPIPE", ENDS, [step("exec 3> >(true); wait $!; echo a >&3; echo a >&3; echo no", Expected::Signal(13), Text::Is(String::new()), Text::Any), ok("exec 3>&-; echo a", "a\n")]),
        case("SIGPIPE in a subshell", [ok("while :; do echo y; done | head -1; echo ${PIPESTATUS[0]}", "y\n141\n")]),
        exact("SIGXFSZ", ENDS, [step("(ulimit -f 1; head -c 9999 /dev/zero >f); ulimit -S -f 1; printf '%9999d' 1 >g; echo no", Expected::Signal(25), Text::Is(String::new()), Text::Any)]),
        exact("kill 0", ENDS, [step("sleep 300 & kill 0; echo no", Expected::Signal(15), Text::Is(String::new()), Text::Any)]),
        case("signals in a subshell", [says("(kill -TERM $BASHPID; echo no); echo $?", 0, "143\n", "")]),
        case("kill -9 $$", [dies("kill -9 $$", -9, "")]),
        exact("kill -SEGV $$ and others", ENDS, ["SEGV", "ABRT", "IO", "RTMIN+5", "SYS"].map(|name| step(format!("x=1; kill -{name} $$; echo no"), Expected::AnySignal, Text::Is(String::new()), Text::Any)).into_iter().chain([ok("echo $x", "1\n")]).collect::<Vec<_>>()),
        case("trap - restores", [ok("trap 'echo t' TERM; trap - TERM; trap -p", "")]),
        case("wait", [ok("wait; echo $?", "0\n")]),
        case("wait for a job", [ok("(sleep 0.05; exit 7) & wait $!; echo $?", "7\n")]),
        case("wait -n", [ok("(exit 3) & wait -n; echo $?", "3\n")]),
        case("jobs", [ok("sleep 300 & jobs -r | wc -l", "1\n"), ok("kill $!; wait; jobs >/dev/null; jobs | wc -l", "0\n").any_err()]),
        case("jobs %1 and disown", [ok("sleep 300 & disown; jobs | wc -l; kill $!", "0\n"), ok("wait; echo a", "a\n")]),
        case("cmd & echo hi", [ok("sleep 300 & echo hi", "hi\n"), ok("kill $!; wait $! 2>/dev/null; echo $?", "143\n").any_err()]),
        case("background keeps stdout", [ok("(until [ -e ~/go ]; do sleep 0.05; done; echo late) & echo now", "now\n"), ok(">~/go; wait", "")]),
        case("nohup and setsid", [ok("setsid sleep 0.2 & nohup true >/dev/null 2>&1; echo a", "a\n")]),
        case("no notice", [ok("sleep 0.01 & true", ""), ok("sleep 0.05; true", ""), ok("echo a", "a\n")]),
        case("SIGCHLD trap", [ok("trap 'n=$((n+1))' CHLD; /bin/true; /bin/true; trap - CHLD; ((n >= 2)) && echo yes", "yes\n")]).since(5, 0),
        case("process substitution", [ok("cat <(echo a) <(echo b); echo c > >(cat); wait", "a\nb\nc\n").any_out()]),
        case("time", [step("time true", Expected::Normal(0), Text::Is(String::new()), Text::Has("real".into()))]),
        case("fork in a loop", [ok("for ((i=0;i<50;i++)); do (:); done; echo $i", "50\n")]),
        exact("stops itself", "nothing tells", [ok("(while :; do sleep 0.1; kill -CONT $$; done) & kill -STOP $$; echo a; kill $!; wait $! 2>/dev/null; :", "a\n")]).both(),
    ]
}

#[rustfmt::skip] // a table, one line a case
fn output_cases() -> Vec<Case> {
    vec![
        case("NULs", [ok("printf 'a\\0b\\0'", "a\0b\0")]),
        case("no final newline", [ok("printf abc; printf def >&2", "abc").err_is("def")]),
        case("only newlines", [ok("echo; echo; echo", "\n\n\n")]),
        case("markers", [ok("printf '\\001\\001\\001x\\002\\002\\002\\n'", "\u{1}\u{1}\u{1}x\u{2}\u{2}\u{2}\n")]),
        case("20 KB lines on both streams", [ok("x=$(printf 'a%.0s' {1..20000}); for i in {1..20}; do echo $x; echo $x >&2; done | wc -c", "400020\n").any_err()]),
        case("20 KB lines on both streams at once", [ok("x=$(printf 'a%.0s' {1..20000}); for i in {1..20}; do echo $x; echo $x >&2; done", format!("{}\n", "a".repeat(20_000)).repeat(20)).err_is(&format!("{}\n", "a".repeat(20_000)).repeat(20))]),
        case("2 MB from bash itself", [ok("for ((i=0;i<100000;i++)); do echo 0123456789abcdefghi; done", "0123456789abcdefghi\n".repeat(100_000))]),
        case("stdin is empty", [ok("cat; read -r x; echo \"[$x]\"", "[]\n")]),
        case("stdin given", [ok("read -r a; cat; echo \"[$a]\"", "two\n[one]\n").stdin(b"one\ntwo\n")]),
        case("stdin without newline", [ok("cat", "abc").stdin(b"abc")]),
        case("stdin left unread", [ok("echo a", "a\n").stdin(b"rm -rf x\nexit 9\n"), ok("echo b", "b\n")]),
        case("a program that reads stdin", [ok("bash -s", "from stdin\n").stdin(b"echo from stdin\n")]),
        case("/dev/stdout, /dev/stderr", [ok("echo a >/dev/stdout; echo b >/dev/stderr", "a\n").err_is("b\n")]),
        case("order", [ok("for i in 1 2 3; do echo $i; /bin/echo $i; done", "1\n1\n2\n2\n3\n3\n")]),
    ]
}

#[rustfmt::skip] // a table, one line a case
fn interrupt_cases() -> Vec<Case> {
    let keeps = |name, text: &'static str| {
        case(name, [ok("x=5; f() { echo f$x; }; cd /", ""), interrupted(text, ""), ok("f; pwd", "f5\n/\n")])
    };
    vec![
        keeps("endless loop", "while :; do :; done; echo no"),
        keeps("endless arithmetic loop", "for ((;;)); do :; done; echo no"),
        keeps("endless loop in nested functions", "g() { local x=9; while :; do :; done; }; h() { g; echo no; }; h; echo no"),
        keeps("endless loop in eval in a sourced file", "echo 'eval \"while :; do :; done\"' >~/loop; . ~/loop; echo no"),
        keeps("endless recursion with a loop", "g() { for i in 1 2 3; do (($1 > 50)) && while :; do :; done; g $(($1 + 1)); done; }; g 0"),
        exact("loop that ignores INT", INTERACTIVE, keeps("", "trap '' INT TERM HUP; while :; do :; done; echo no").steps),
        exact("loop with a trap on INT", INTERACTIVE, keeps("", "trap 'echo no' INT; while :; do :; done; echo no").steps).since(5, 1),
        keeps("read from open stdin", "read -r x; echo no").open_stdin(1),
        keeps("read from a fifo", "mkfifo ~/p; read -r x <~/p; echo no"),
        keeps("cat in the foreground", "cat; while :; do :; done").open_stdin(1),
        keeps("sleep in the foreground", "sleep 100; echo no; while :; do :; done"),
        case("sleep, then a command", [interrupted("sleep 100; echo no", "")]),
        keeps("pipeline", "sleep 100 | cat; echo no"),
        exact("a program that ignores SIGINT", GOES_ON, keeps("", "sh -c 'trap \"\" INT; sleep 100'; echo no").steps),
        keeps("substitution", "y=$(while :; do :; done); while :; do :; done"),
        keeps("subshell", "(while :; do :; done); while :; do :; done"),
        keeps("wait", "wait; while :; do :; done"),
        keeps("wait for a background job", "sleep 100 & wait; echo no").any_err(),
        exact("endless exit trap", ENDS, keeps("", "trap 'while :; do :; done' EXIT; exit 3").steps),
        keeps("endless DEBUG trap", "trap 'if ((loop)); then loop=0; while :; do :; done; fi' DEBUG; loop=1; echo no").only(DEBUG).then(ok("trap - DEBUG", "")),
        exact("stopped shell", "it cannot be told from a busy one", keeps("", "kill -STOP $$; while :; do :; done").steps).both(),
        case("redirected loop", [ok("n=(/proc/$$/fd/*)", ""), interrupted("while :; do :; done >file 2>&1 </dev/null; echo no", ""), ok("m=(/proc/$$/fd/*); echo $((${#m[@]} - ${#n[@]}))", "0\n")]),
        case("output before it stays", [interrupted("echo before; while :; do :; done", "before\n"), ok("echo after", "after\n")]),
        case("twice", [interrupted("while :; do :; done", ""), interrupted("while :; do :; done", ""), ok("echo a", "a\n")]),
        case("locals are gone", [interrupted("g() { local secret=1; while :; do :; done; }; g", ""), ok("echo \"[$secret]${#FUNCNAME[@]}${#BASH_SOURCE[@]}\"", "[]00\n")]).only(SOURCED),
        case("set -e and exit trap do not fire", [ok("trap 'echo bye' EXIT; set -e", ""), interrupted("while :; do :; done", ""), ok("echo a", "a\n"), exits("exit 2", 2, "bye\n")]),
    ]
}

impl Case {
    fn only(mut self, reason: &'static str) -> Self {
        self.loaded_only = Some(reason);
        self
    }

    fn both(mut self) -> Self {
        self.loaded_only = None;
        self
    }

    fn any_err(mut self) -> Self {
        for step in &mut self.steps {
            step.stderr = Text::Any;
        }
        self
    }

    fn open_stdin(mut self, step: usize) -> Self {
        self.steps[step].open_stdin = true;
        self
    }

    fn then(mut self, step: Step) -> Self {
        self.steps.insert(2, step);
        self
    }
}

impl Step {
    fn any_out(mut self) -> Self {
        self.stdout = Text::Any;
        self
    }

    pub(crate) fn any_err(mut self) -> Self {
        self.stderr = Text::Any;
        self
    }

    fn any_status(mut self) -> Self {
        self.ended = Expected::Normal(-1);
        self
    }

    fn any(self) -> Self {
        self.any_out().any_err().any_status()
    }

    fn status(mut self, status: i32) -> Self {
        self.ended = Expected::Normal(status);
        self
    }

    fn err_is(mut self, err: &str) -> Self {
        self.stderr = Text::Is(err.into());
        self
    }

    fn stdin(mut self, bytes: &'static [u8]) -> Self {
        self.stdin = Some(bytes);
        self
    }
}

/// Every case.
/// The version of the first bash on the path, which is the one under test.
pub(crate) fn bash_version() -> Version {
    #[expect(clippy::disallowed_methods, reason = "it leaves no process behind that writes")]
    let output = std::process::Command::new("bash")
        .args(["-c", "echo ${BASH_VERSINFO[0]} ${BASH_VERSINFO[1]}"])
        .output()
        .expect("there is a bash");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(|number| number.parse().expect("a number"));
    (numbers.next().expect("a major version"), numbers.next().expect("a minor version"))
}

/// The cases for the bash under test.
pub(crate) fn for_this_bash() -> Vec<Case> {
    let version = bash_version();
    all().into_iter().filter(|case| (case.versions[0]..=case.versions[1]).contains(&version)).collect()
}

/// All cases, of whatever version of bash.
pub(crate) fn all() -> Vec<Case> {
    [text_cases(), flow_cases(), state_cases(), trap_and_job_cases(), output_cases(), interrupt_cases()]
        .into_iter()
        .flatten()
        .collect()
}

impl Text {
    /// Whether a stream holds it.
    pub(crate) fn matches(&self, is: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Is(text) => text == is,
            Self::Has(text) => is.contains(text.as_str()),
        }
    }
}
