//! Commands and sessions as sent over the wire.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use minicbor::{Decode, Encode};

use crate::command::{CommandSpec, LeftoverPolicy, Limits, Overflow, Program, Stdin};
use crate::journal::{NewJournalKey, Salt};
use crate::terminal::TerminalSize;
use crate::user::User;
use crate::wire;

/// A byte string.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub(crate) struct Bytes(#[cbor(n(0), with = "minicbor::bytes")] pub(crate) Vec<u8>);

impl From<&OsStr> for Bytes {
    fn from(s: &OsStr) -> Self {
        Self(s.as_bytes().to_vec())
    }
}

impl From<Bytes> for OsString {
    fn from(b: Bytes) -> Self {
        Self::from_vec(b.0)
    }
}

/// A variable: set, or unset with `None`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Variable {
    #[n(0)]
    pub(crate) name: Bytes,
    #[n(1)]
    pub(crate) value: Option<Bytes>,
}

/// The program of a command.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum WireProgram {
    #[n(0)]
    Shell(#[n(0)] Bytes),
    #[n(1)]
    Argv(#[n(0)] Vec<Bytes>),
}

/// Source of standard input.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum WireStdin {
    #[n(0)]
    Null,
    #[n(1)]
    Bytes(#[n(0)] Bytes),
    #[n(2)]
    Open,
    /// These bytes, then it stays open.
    #[n(3)]
    OpenWith(#[n(0)] Bytes),
}

/// A command for a supervisor, with the journal slot claimed for it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Command {
    #[n(0)]
    pub(crate) slot: u32,
    #[n(1)]
    pub(crate) program: WireProgram,
    #[n(2)]
    pub(crate) env: Vec<Variable>,
    #[n(3)]
    pub(crate) cwd: Option<Bytes>,
    #[n(4)]
    pub(crate) stdin: WireStdin,
    #[cbor(n(5), with = "wire::optional_micros", has_nil)]
    pub(crate) timeout: Option<Duration>,
    #[cbor(n(6), with = "wire::optional_micros", has_nil)]
    pub(crate) idle_timeout: Option<Duration>,
    #[cbor(n(7), with = "wire::micros")]
    pub(crate) timeout_grace: Duration,
    #[n(8)]
    pub(crate) limits: Limits,
    #[n(9)]
    pub(crate) leftovers: LeftoverPolicy,
    /// Shell text that runs first, unrecorded: a session's state for a process started from it.
    #[n(10)]
    pub(crate) prelude: Option<Bytes>,
    /// Whether to record that it was taken before it is processed, to distinguish a command that no supervisor took
    /// from a lost one.
    #[n(11)]
    pub(crate) record_taken: Option<bool>,
    /// The content of its journal, if that is sent open with it; else the supervisor opens the journal by its slot.
    #[n(12)]
    pub(crate) journal: Option<NewJournalKey>,
    /// Whether the supervisor is needed again soon because few others are ready.
    #[n(13)]
    pub(crate) is_urgent: Option<bool>,
    /// Whether it waits for its reader instead of dropping unread output. Since version 4.
    #[n(14)]
    pub(crate) waits_for_reader: Option<bool>,
    /// Set if it runs in a terminal. Its standard input is then not used. Since version 5.
    #[n(80)]
    pub(crate) terminal: Option<TerminalOptions>,
    /// User that it runs as; the supervisor's default user if `None`. Not used with the shell of a session.
    #[n(90)]
    pub(crate) user: Option<User>,
}

/// Options of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct TerminalOptions {
    /// Its first size.
    #[n(0)]
    pub(crate) size: TerminalSize,
    /// Whether an interactive shell runs instead of the program of the command.
    #[n(1)]
    pub(crate) interactive_shell: bool,
}

impl Command {
    pub(crate) fn new(slot: u32, spec: &CommandSpec) -> Self {
        Self {
            slot,
            program: match &spec.program {
                Program::Shell(text) => WireProgram::Shell(Bytes(text.clone())),
                Program::Argv(argv) => WireProgram::Argv(argv.iter().map(|a| a.as_os_str().into()).collect()),
            },
            env: variables(&spec.env),
            cwd: spec.cwd.as_ref().map(|p| p.as_os_str().into()),
            stdin: match &spec.stdin {
                Stdin::Null => WireStdin::Null,
                Stdin::Bytes(bytes) => WireStdin::Bytes(Bytes(bytes.clone())),
                Stdin::Open => WireStdin::Open,
                Stdin::OpenWith(bytes) => WireStdin::OpenWith(Bytes(bytes.clone())),
            },
            timeout: spec.timeout,
            idle_timeout: spec.idle_timeout,
            timeout_grace: spec.timeout_grace,
            limits: spec.limits.clone(),
            leftovers: spec.leftovers,
            prelude: None,
            record_taken: spec.digest.is_some().then_some(true),
            journal: None,
            is_urgent: None,
            waits_for_reader: (spec.overflow == Overflow::Wait).then_some(true),
            terminal: None,
            user: None,
        }
    }
}

impl Command {
    /// Total size of its variable-length parts, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let program = match &self.program {
            WireProgram::Shell(text) => text.0.len(),
            WireProgram::Argv(words) => words.iter().map(|word| word.0.len()).sum(),
        };
        let stdin = match &self.stdin {
            WireStdin::Bytes(bytes) | WireStdin::OpenWith(bytes) => bytes.0.len(),
            WireStdin::Null | WireStdin::Open => 0,
        };
        let value = |variable: &Variable| variable.value.as_ref().map_or(0, |value| value.0.len());
        let env: usize = self.env.iter().map(|variable| variable.name.0.len() + value(variable)).sum();
        program + stdin + env
    }
}

/// Changes to an environment, for the wire.
pub(crate) fn variables(env: &[(OsString, Option<OsString>)]) -> Vec<Variable> {
    env.iter()
        .map(|(name, value)| Variable {
            name: name.as_os_str().into(),
            value: value.as_ref().map(|v| v.as_os_str().into()),
        })
        .collect()
}

/// Options of a session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct OpenSession {
    /// The slot of the session's record; its snapshots have the same number.
    #[n(0)]
    pub(crate) slot: u32,
    #[n(1)]
    pub(crate) env: Vec<Variable>,
    #[n(2)]
    pub(crate) cwd: Option<Bytes>,
    /// Shell text that restores an earlier state.
    #[n(3)]
    pub(crate) snapshot: Option<Bytes>,
    /// Age of that state.
    #[cbor(n(4), with = "wire::optional_micros", has_nil)]
    pub(crate) snapshot_age: Option<Duration>,
    /// The salt of the record, which its snapshots carry. Engines of version 3 do not send it.
    #[n(5)]
    pub(crate) salt: Option<Salt>,
    /// User of its shell; the supervisor's default user if `None`.
    #[n(90)]
    pub(crate) user: Option<User>,
}
