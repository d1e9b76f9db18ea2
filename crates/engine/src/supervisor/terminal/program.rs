//! The program of a terminal that starts from the state of a session.
//!
//! A bash reads the state from a descriptor. An interactive one first reads the user's `~/.bashrc`, and keeps the
//! options and the prompt that it has then: those of a session are of a shell without a terminal.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::protocol::{Bytes, Command, Refusal, Variable, WireProgram};
use crate::shell::{self, Snapshot};

/// The descriptor of the text that bash reads first: high, so that programs may use the low ones.
pub(in crate::supervisor) const STATE_FD: i32 = 251;

/// What an interactive shell does before it takes the state. The state then contains every variable.
const BEFORE: &[u8] = br#"[[ -f ~/.bashrc ]] && . ~/.bashrc
_scrb_options=$(set +o; shopt -p)
_scrb_kept=$(for _scrb in PS1 PS2 PS4 PROMPT_COMMAND HISTFILE HISTSIZE HISTFILESIZE; do
    [[ -v $_scrb ]] && printf '[[ -v %s ]] || %s=%q\n' "$_scrb" "$_scrb" "${!_scrb}"
done)
for _scrb in $(compgen -e); do unset -v "$_scrb"; done 2>/dev/null
"#;
/// What it does afterwards.
const AFTER: &[u8] = br#"builtin eval "$_scrb_options"
builtin eval "$_scrb_kept"
builtin unset -v _scrb _scrb_options _scrb_kept
"#;

/// A bash that starts from a state.
#[derive(Debug)]
pub(in crate::supervisor) struct ShellFromState {
    /// Its arguments, its name first.
    pub(in crate::supervisor) argv: Vec<OsString>,
    /// The content of [`STATE_FD`].
    pub(in crate::supervisor) text: Vec<u8>,
}

impl ShellFromState {
    /// The shell for the command of a terminal with this state.
    pub(in crate::supervisor) fn new(command: &Command, state: &Bytes) -> Result<Self, Refusal> {
        let snapshot = Snapshot::from_bytes(state.0.clone()).map_err(|e| Refusal::NoShell(e.to_string()))?;
        let is_interactive = command.terminal.as_ref().is_some_and(|terminal| terminal.interactive_shell);
        let mut text = Vec::new();
        if is_interactive {
            text.extend(home_of(&snapshot));
            text.extend(BEFORE);
        }
        text.extend(snapshot.restore_text());
        text.push(b'\n');
        if is_interactive {
            text.extend(AFTER);
        }
        change_variables(&mut text, &command.env);
        if let Some(cwd) = &command.cwd {
            text.extend(b"builtin cd -- ");
            shell::quote(&mut text, &cwd.0);
            text.push(b'\n');
        }
        text.extend(format!("exec {STATE_FD}<&-\n").bytes());
        let file = format!("/proc/self/fd/{STATE_FD}");
        let mut argv: Vec<OsString> = vec!["bash".into()];
        if is_interactive {
            argv.extend(["--rcfile".into(), file.into(), "-i".into()]);
        } else {
            // The file is read completely before its first line runs.
            run(&mut text, &command.program);
            argv.extend(["--norc", "--noprofile", "-c", &format!(". {file}")].map(OsString::from));
        }
        Ok(Self { argv, text })
    }
}

/// The line of a state that sets `HOME`, if it is one line: the file of the session's user is read, not that of the
/// server's.
fn home_of(snapshot: &Snapshot) -> &[u8] {
    let mut lines = snapshot.as_bytes().split_inclusive(|byte| *byte == b'\n');
    let line = lines.find(|line| line.starts_with(b"declare -x HOME=\""));
    line.filter(|line| line.ends_with(b"\"\n") && !line.ends_with(b"\\\"\n")).unwrap_or_default()
}

/// The program of a command, as shell text.
fn run(text: &mut Vec<u8>, program: &WireProgram) {
    match program {
        WireProgram::Shell(own) => text.extend(&own.0),
        WireProgram::Argv(words) => {
            text.extend(b"builtin exec --");
            for word in words {
                text.push(b' ');
                shell::quote(text, &word.0);
            }
        }
    }
    text.push(b'\n');
}

/// Changes of the environment that the state must not undo. Others are in the environment of the process.
fn change_variables(text: &mut Vec<u8>, changes: &[Variable]) {
    for Variable { name, value } in changes {
        let name = OsString::from_vec(name.0.clone());
        if !shell::is_name(&name) {
            continue;
        }
        let command: &[u8] = if value.is_some() { b"builtin declare -gx " } else { b"builtin unset -v " };
        text.extend(command);
        text.extend(name.as_bytes());
        if let Some(value) = value {
            text.push(b'=');
            shell::quote(text, &value.0);
        }
        // A session may have made it read-only.
        text.extend(b" 2>/dev/null\n");
    }
}
