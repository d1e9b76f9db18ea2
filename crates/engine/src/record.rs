//! What a journal's first record says: what runs in it, or which session it stands for.

use minicbor::{Decode, Encode};

use crate::command::{CommandSpec, LeftoverPolicy, Program, SessionEndPolicy};
use crate::protocol::{Bytes, Variable, variables};

/// The first record of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Record {
    #[n(0)]
    Execution(#[n(0)] ExecutionRecord),
    #[n(1)]
    Session(#[n(0)] SessionRecord),
}

/// What is known of an execution before it starts.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct ExecutionRecord {
    #[n(0)]
    pub(crate) id: String,
    /// The supervisor that was asked to run it.
    #[n(1)]
    pub(crate) nonce: u64,
    #[n(2)]
    pub(crate) session: Option<String>,
    /// The text, or the words of an argv.
    #[n(3)]
    pub(crate) command: Vec<Bytes>,
    #[n(4)]
    pub(crate) is_argv: bool,
    #[n(5)]
    pub(crate) background: bool,
    #[n(6)]
    pub(crate) digest: Option<Bytes>,
    #[n(7)]
    pub(crate) keep: bool,
    #[n(8)]
    pub(crate) on_session_end: SessionEndPolicy,
    /// What it leaves running becomes executions of their own.
    #[n(9)]
    pub(crate) adopt: Option<bool>,
}

impl ExecutionRecord {
    pub(crate) fn new(id: String, nonce: u64, session: Option<String>, spec: &CommandSpec) -> Self {
        let (command, is_argv) = match &spec.program {
            Program::Shell(text) => (vec![Bytes(text.clone())], false),
            Program::Argv(argv) => (argv.iter().map(|a| a.as_os_str().into()).collect(), true),
        };
        Self {
            id,
            nonce,
            session,
            command,
            is_argv,
            background: spec.background,
            digest: spec.digest.clone().map(Bytes),
            keep: spec.keep_record,
            on_session_end: spec.on_session_end,
            adopt: Some(spec.leftovers == LeftoverPolicy::Adopt),
        }
    }
}

/// What a session is made of.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct SessionRecord {
    #[n(0)]
    pub(crate) id: String,
    /// The supervisor that holds it.
    #[n(1)]
    pub(crate) nonce: u64,
    #[n(2)]
    pub(crate) name: Option<String>,
    #[n(3)]
    pub(crate) env: Vec<Variable>,
    #[n(4)]
    pub(crate) cwd: Option<Bytes>,
}

impl SessionRecord {
    pub(crate) fn new(id: String, nonce: u64, spec: &crate::SessionSpec) -> Self {
        use std::os::unix::ffi::OsStrExt;
        Self {
            id,
            nonce,
            name: spec.name.clone(),
            env: variables(&spec.env),
            cwd: spec.cwd.as_ref().map(|p| Bytes(p.as_os_str().as_bytes().to_vec())),
        }
    }
}
