//! The first record of a journal: the execution or the session that the journal belongs to.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

use crate::command::{CommandSpec, LeftoverPolicy, Overflow, Program, SessionEndPolicy};
use crate::protocol::{Bytes, Variable, variables};
use crate::terminal::TerminalSize;
use crate::user::User;
use crate::wire;

/// Bytes of the caller, shared between all copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note(pub(crate) Arc<[u8]>);

impl Note {
    fn of(bytes: Option<&Vec<u8>>) -> Option<Self> {
        bytes.map(|bytes| Self(bytes.as_slice().into()))
    }
}

impl<C> Encode<C> for Note {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.bytes(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Note {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        d.bytes().map(|bytes| Self(bytes.into()))
    }
}

/// The first record of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Record {
    #[n(0)]
    Execution(#[n(0)] ExecutionRecord),
    #[n(1)]
    Session(#[n(0)] SessionRecord),
}

/// Data of an execution that is known before it starts.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct ExecutionRecord {
    #[n(0)]
    pub(crate) id: String,
    /// The supervisor to which it was sent.
    #[n(1)]
    pub(crate) nonce: u64,
    #[n(2)]
    pub(crate) session: Option<String>,
    /// The text, or the elements of an argv.
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
    /// Whether its leftovers become executions.
    #[n(9)]
    pub(crate) adopt: Option<bool>,
    #[n(10)]
    pub(crate) note: Option<Note>,
    /// Whether it waits for its reader instead of dropping unread output. Since version 4 of the protocol.
    #[n(11)]
    pub(crate) waits_for_reader: Option<bool>,
    /// Set if it is a terminal. Since version 5 of the protocol.
    #[n(12)]
    pub(crate) terminal: Option<TerminalRecord>,
}

/// Data of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct TerminalRecord {
    /// Its first size.
    #[n(0)]
    pub(crate) size: TerminalSize,
    /// The value of `TERM`.
    #[n(1)]
    pub(crate) term: String,
    /// Whether an interactive shell runs; `command` is then empty.
    #[n(2)]
    pub(crate) interactive_shell: bool,
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
            note: Note::of(spec.note.as_ref()),
            waits_for_reader: (spec.overflow == Overflow::Wait).then_some(true),
            terminal: None,
        }
    }
}

/// Data of a session.
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
    #[n(5)]
    pub(crate) note: Option<Note>,
    /// Time of the session's creation, since 1970: its record is written again when it gets another supervisor.
    #[cbor(n(6), with = "wire::optional_micros", has_nil)]
    pub(crate) created: Option<Duration>,
    /// User of its shell; the engine's own user if `None`.
    #[n(90)]
    pub(crate) user: Option<User>,
}

impl SessionRecord {
    /// Time of the session's creation; in an earlier version the time of the record.
    pub(crate) fn created_at(&self, filed: SystemTime) -> SystemTime {
        self.created.and_then(|since| UNIX_EPOCH.checked_add(since)).unwrap_or(filed)
    }

    pub(crate) fn new(id: String, nonce: u64, spec: &crate::SessionSpec) -> Self {
        use std::os::unix::ffi::OsStrExt;
        Self {
            id,
            nonce,
            name: spec.name.clone(),
            env: variables(&spec.env),
            cwd: spec.cwd.as_ref().map(|p| Bytes(p.as_os_str().as_bytes().to_vec())),
            note: Note::of(spec.note.as_ref()),
            created: Some(since_epoch()),
            user: spec.user.clone(),
        }
    }
}

/// The time since 1970, in whole microseconds as in a record.
fn since_epoch() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionSpec;

    /// A session's record as written by the version before notes.
    #[derive(Encode)]
    struct EarlierSession {
        #[n(0)]
        id: String,
        #[n(1)]
        nonce: u64,
        #[n(2)]
        name: Option<String>,
        #[n(3)]
        env: Vec<Variable>,
        #[n(4)]
        cwd: Option<Bytes>,
    }

    #[test]
    fn a_record_of_an_earlier_version_is_read() {
        let earlier = EarlierSession {
            id: "s".into(),
            nonce: 7,
            name: None,
            env: Vec::new(),
            cwd: Some(Bytes::default()),
        };
        let read: SessionRecord = minicbor::decode(&wire::to_bytes(&earlier)).unwrap();
        assert_eq!((read.id.as_str(), read.nonce, read.note.clone(), read.created), ("s", 7, None, None));
        let filed = UNIX_EPOCH + Duration::from_secs(5);
        assert_eq!(read.created_at(filed), filed);
    }

    #[test]
    fn record_without_a_note_has_the_old_format() {
        let spec = CommandSpec::shell("true");
        let record = ExecutionRecord::new("e".into(), 7, None, &spec);
        let noted = ExecutionRecord::new("e".into(), 7, None, &spec.note("n"));
        // One byte for the length of the array, which both have; two for the note.
        assert_eq!(wire::to_bytes(&record).len() + 2, wire::to_bytes(&noted).len());
        for record in [record, noted] {
            assert_eq!(minicbor::decode::<ExecutionRecord>(&wire::to_bytes(&record)).unwrap(), record);
        }
        let record = SessionRecord::new("s".into(), 7, &SessionSpec::new().note([0, 255]));
        let read: SessionRecord = minicbor::decode(&wire::to_bytes(&record)).unwrap();
        assert_eq!(read.note, record.note);
        assert_eq!(read.created_at(UNIX_EPOCH), record.created_at(UNIX_EPOCH));
    }
}
