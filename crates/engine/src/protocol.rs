//! What engine, zygote and supervisors say to each other.
//!
//! Frames over unix stream sockets: a little-endian `u32` length, then one CBOR value. Every field and
//! variant has a number that is never used again for something else. A newer side leaves out nothing
//! an older one needs, and an older side skips fields it does not know; what it cannot read at all it
//! answers with [`Answer::Refused`]. `Hello` settles the version: the lower of the two sides' speaks.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use minicbor::{Decode, Encode};

use crate::command::{CommandSpec, LeftoverPolicy, Limits, Program, Stdin};
use crate::end::{End, KillReceipt, Usage};
use crate::wire;

/// The version this code speaks.
pub(crate) const VERSION: u16 = 2;
/// The oldest supervisor this engine can serve.
pub(crate) const OLDEST: u16 = 1;
/// The longest frame: a command, its environment and its standard input at their limits.
pub(crate) const MAX_FRAME: usize = 96 << 20;

/// A number that names a supervisor: its socket, its cgroup and the tags of its processes.
pub(crate) type Nonce = u64;

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

/// What the program is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum WireProgram {
    #[n(0)]
    Shell(#[n(0)] Bytes),
    #[n(1)]
    Argv(#[n(0)] Vec<Bytes>),
}

/// Where standard input comes from.
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

/// A command for a supervisor: what to run, and the journal slot that has been claimed for it.
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
    /// Whether to record that it was taken before anything is done with it, so that a command that nobody ever had
    /// can be told from one that is lost.
    #[n(11)]
    pub(crate) record_taken: Option<bool>,
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
        }
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

/// What a session is opened with.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct OpenSession {
    /// The slot that holds the session's record; its snapshots are filed under the same number.
    #[n(0)]
    pub(crate) slot: u32,
    #[n(1)]
    pub(crate) env: Vec<Variable>,
    #[n(2)]
    pub(crate) cwd: Option<Bytes>,
    /// Shell text that brings the shell to an earlier state.
    #[n(3)]
    pub(crate) snapshot: Option<Bytes>,
    /// How old that state is.
    #[cbor(n(4), with = "wire::optional_micros", has_nil)]
    pub(crate) snapshot_age: Option<Duration>,
}

/// From engine to supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Request {
    /// The first request of a connection. Answered by `Welcome`.
    #[n(0)]
    Hello(#[n(0)] u16),
    /// Run this command: at once in a run, in its turn in a session. Answered by `Accepted` when it is
    /// queued; then come `Started` or `NotStarted`, `Ended` and `Closed`.
    #[n(1)]
    Start(#[n(0)] Box<Command>),
    /// Become a session. Answered by `Done` or `Refused`.
    #[n(2)]
    OpenSession(#[n(0)] Box<OpenSession>),
    /// End an execution's processes. Answered by `Receipt`.
    #[n(3)]
    Kill {
        #[n(0)]
        slot: u32,
        #[n(1)]
        signal: i32,
        #[cbor(n(2), with = "wire::micros")]
        grace: Duration,
    },
    /// Send a signal and nothing more. Answered by `Done`.
    #[n(4)]
    Signal {
        #[n(0)]
        slot: u32,
        #[n(1)]
        signal: i32,
    },
    /// Write to standard input, then close it if asked. Answered by `Done` when all is written.
    #[n(5)]
    WriteStdin {
        #[n(0)]
        slot: u32,
        #[n(1)]
        bytes: Bytes,
        #[n(2)]
        close: bool,
    },
    /// Say `Grew` once when the journal goes beyond this position.
    #[n(6)]
    Follow {
        #[n(0)]
        slot: u32,
        #[n(1)]
        position: u64,
    },
    /// Answered by `Inspected`.
    #[n(7)]
    Inspect(#[n(0)] u32),
    /// Take a snapshot now. Answered by `Snapshot`.
    #[n(8)]
    Snapshot,
    /// End everything and go. Answered by `Receipt`.
    #[n(9)]
    Quit,
    /// Replace the session's shell, with or without its state. Answered by `Done`.
    #[n(10)]
    Reset(#[n(0)] bool),
    /// Make this process of an ended execution an execution of its own. Answered by `Done`.
    #[n(11)]
    Adopt {
        #[n(0)]
        slot: u32,
        #[n(1)]
        pid: u32,
    },
    /// Change the session's environment, in its turn. Answered by `Done`.
    #[n(12)]
    SetEnv(#[n(0)] Vec<Variable>),
    /// End the command that the session runs, if one does. Answered by `Receipt`.
    #[n(13)]
    Interrupt {
        #[n(0)]
        signal: i32,
        #[cbor(n(1), with = "wire::micros")]
        grace: Duration,
    },
}

/// Where an execution stands with its supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum Stage {
    #[n(0)]
    Queued,
    #[n(1)]
    Running,
    #[n(2)]
    Ended,
}

/// An execution a supervisor holds.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Held {
    #[n(0)]
    pub(crate) slot: u32,
    #[n(1)]
    pub(crate) stage: Stage,
    #[n(2)]
    pub(crate) pid: Option<u32>,
}

/// What a supervisor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Role {
    #[n(0)]
    Ready,
    #[n(1)]
    Run,
    /// A session, whose record is in this slot.
    #[n(2)]
    Session(#[n(0)] u32),
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Refusal {
    /// A call of the kernel failed.
    #[n(0)]
    Os {
        #[n(0)]
        errno: i32,
        /// What was being done, as in "failed to …".
        #[n(1)]
        doing: String,
    },
    #[n(1)]
    BadCwd(#[n(0)] i32),
    #[n(2)]
    BadProgram(#[n(0)] i32),
    #[n(3)]
    NoSuchExecution,
    #[n(4)]
    StdinNotOpen,
    #[n(5)]
    NotASession,
    #[n(6)]
    QueueFull,
    #[n(7)]
    Unsupported,
    #[n(8)]
    Limit(#[n(0)] String),
    #[n(9)]
    NoShell(#[n(0)] String),
    #[n(10)]
    ArgumentsTooLong,
}

impl Refusal {
    /// A failed call of the kernel, and what it was for.
    pub(crate) fn os(error: &std::io::Error, doing: &str) -> Self {
        Self::Os { errno: error.raw_os_error().unwrap_or(libc::EIO), doing: doing.into() }
    }
}

/// From supervisor to engine: answers to requests, and events (with request number 0).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Answer {
    #[n(0)]
    Welcome {
        #[n(0)]
        version: u16,
        #[n(1)]
        pid: u32,
        #[n(2)]
        role: Role,
        #[n(3)]
        held: Vec<Held>,
    },
    #[n(1)]
    Accepted,
    #[n(2)]
    Done,
    #[n(3)]
    Refused(#[n(0)] Refusal),
    #[n(4)]
    Receipt(#[n(0)] KillReceipt),
    #[n(5)]
    Inspected(#[n(0)] Inspection),
    /// The state as shell text; `None` if the shell could not give it.
    #[n(6)]
    Snapshot(#[n(0)] Option<Bytes>),
    /// The shell of a supervisor kept ready is up.
    #[n(7)]
    Ready,
    #[n(8)]
    Started {
        #[n(0)]
        slot: u32,
        #[n(1)]
        pid: u32,
    },
    /// It could not be started; its journal is ended.
    #[n(9)]
    NotStarted {
        #[n(0)]
        slot: u32,
        #[n(1)]
        why: Refusal,
    },
    #[n(10)]
    Ended {
        #[n(0)]
        slot: u32,
        #[n(1)]
        end: End,
        /// The position after its last byte.
        #[n(2)]
        position: u64,
    },
    /// Nothing more will come; the supervisor has let go of the journal.
    #[n(11)]
    Closed {
        #[n(0)]
        slot: u32,
        #[n(1)]
        position: u64,
    },
    #[n(12)]
    Grew {
        #[n(0)]
        slot: u32,
        #[n(1)]
        position: u64,
    },
    /// A session's shell was replaced.
    #[n(13)]
    Restarted(#[n(0)] u32),
    /// The run is over and nothing is left of it; another shell is up, for another run. Since version 2.
    #[n(14)]
    Renewed,
}

/// A look at a running execution or session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Inspection {
    /// Whether it waits for input; `None` if that may not be read.
    #[n(0)]
    pub(crate) waiting_for_input: Option<bool>,
    /// The processes it has.
    #[n(1)]
    pub(crate) pids: Vec<u32>,
    /// The session's working directory.
    #[n(2)]
    pub(crate) cwd: Option<Bytes>,
    /// Commands of the session that wait for their turn.
    #[n(3)]
    pub(crate) queued: u32,
    /// How often the session's shell was replaced.
    #[n(4)]
    pub(crate) restarts: u32,
    /// Whether a command of the session runs.
    #[n(5)]
    pub(crate) busy: bool,
    /// What its processes have used so far. Since version 2.
    #[n(6)]
    pub(crate) usage: Option<Usage>,
    /// Whether the session's last command ended its shell, and none has run in another since. Of version 2,
    /// though not of its first supervisors.
    #[n(7)]
    pub(crate) shell_ended: Option<bool>,
}

/// From engine to zygote.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum ZygoteRequest {
    /// What supervisors forked from now on start from. Answered by `Configured`.
    #[n(0)]
    Configure(#[n(0)] Box<Settings>),
    /// Fork a supervisor that listens under this nonce. Answered by `Forked` or `Refused`.
    #[n(1)]
    Fork(#[n(0)] Nonce),
}

/// Which way of driving bash to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum DriverChoice {
    #[n(0)]
    Auto,
    #[n(1)]
    Loaded,
    #[n(2)]
    Portable,
}

/// Which cgroups to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum CgroupSetting {
    #[n(0)]
    Auto,
    #[n(1)]
    Off,
    #[n(2)]
    V1,
    #[n(3)]
    V2,
}

/// What supervisors start from.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Settings {
    #[n(0)]
    pub(crate) env: Vec<Variable>,
    #[n(1)]
    pub(crate) cwd: Bytes,
    #[n(2)]
    pub(crate) driver: DriverChoice,
    #[n(3)]
    pub(crate) cgroups: CgroupSetting,
    /// The limit of open files that commands get (the engine raises its own).
    #[n(4)]
    pub(crate) open_files: Option<u64>,
}

/// From zygote to engine.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum ZygoteAnswer {
    #[n(0)]
    Configured(#[n(0)] Capabilities),
    #[n(1)]
    Forked(#[n(0)] u32),
    #[n(2)]
    Refused(#[n(0)] Refusal),
}

/// What this machine offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Capabilities {
    /// The path of bash, if there is one.
    #[n(0)]
    pub(crate) bash: Option<Bytes>,
    /// The driver in use: `loaded`, `portable`, or `none`.
    #[n(1)]
    pub(crate) driver: String,
    /// Why it is not the loaded one.
    #[n(2)]
    pub(crate) driver_reason: Option<String>,
    /// What cgroups are used for.
    #[n(3)]
    pub(crate) cgroups: String,
}

/// One frame: a request number (0 for events) and what is said.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Envelope<T> {
    #[n(0)]
    pub(crate) request: u64,
    #[n(1)]
    pub(crate) body: T,
}

/// What can be read of an envelope whose body cannot.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct EnvelopeHead {
    #[n(0)]
    request: u64,
}

/// A frame that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame of {0} bytes is longer than the protocol allows")]
    TooLong(usize),
    /// The body is of a kind this side does not know; the request number could be read.
    #[error("a frame holds something this version does not know")]
    Unknown(u64),
    #[error("a frame is not what the protocol says")]
    Malformed,
}

/// The bytes of a frame.
pub(crate) fn frame<T: Encode<()>>(request: u64, body: &T) -> Vec<u8> {
    #[derive(Encode)]
    struct Borrowed<'a, T>(#[n(0)] u64, #[n(1)] &'a T);
    let mut bytes = vec![0; 4];
    // never fails: writing to a Vec cannot, and our types encode unconditionally.
    drop(minicbor::encode(Borrowed(request, body), &mut bytes));
    let length = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Collects bytes from a socket and hands out whole frames.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
    taken: usize,
}

impl FrameBuffer {
    /// Adds what was read.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        if self.taken > 0 && (self.taken == self.bytes.len() || self.taken > 64 << 10) {
            self.bytes.drain(..self.taken);
            self.taken = 0;
            if self.bytes.is_empty() && self.bytes.capacity() > 1 << 20 {
                self.bytes = Vec::new();
            }
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one.
    pub(crate) fn next<T>(&mut self) -> Result<Option<Envelope<T>>, FrameError>
    where
        T: for<'b> Decode<'b, ()>,
    {
        let rest = &self.bytes[self.taken..];
        let Some((head, body)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*head) as usize;
        if length > MAX_FRAME {
            return Err(FrameError::TooLong(length));
        }
        let Some(body) = body.get(..length) else {
            return Ok(None);
        };
        self.taken += 4 + length;
        minicbor::decode::<Envelope<T>>(body).map(Some).map_err(|_| {
            match minicbor::decode::<EnvelopeHead>(body) {
                Ok(head) => FrameError::Unknown(head.request),
                Err(_) => FrameError::Malformed,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_split() {
        let request = Request::WriteStdin { slot: 7, bytes: Bytes(vec![0, 255, 10]), close: true };
        let bytes = [frame(1, &request), frame(2, &Request::Snapshot)].concat();
        for cut in 0..bytes.len() {
            let mut buffer = FrameBuffer::default();
            let mut seen = Vec::new();
            for part in [&bytes[..cut], &bytes[cut..]] {
                buffer.extend(part);
                while let Some(envelope) = buffer.next::<Request>().unwrap() {
                    seen.push(envelope);
                }
            }
            assert_eq!(seen.len(), 2);
            assert_eq!((seen[0].request, &seen[0].body), (1, &request));
        }
    }

    #[test]
    fn an_unknown_request_can_still_be_refused() {
        #[derive(Encode)]
        enum Future {
            #[n(99)]
            Teleport(#[n(0)] u32),
        }
        let mut buffer = FrameBuffer::default();
        buffer.extend(&frame(42, &Future::Teleport(1)));
        buffer.extend(&frame(43, &Request::Snapshot));
        assert_eq!(buffer.next::<Request>(), Err(FrameError::Unknown(42)));
        assert_eq!(buffer.next::<Request>().unwrap().unwrap().request, 43);
    }

    #[test]
    fn a_field_of_a_newer_version_is_skipped() {
        #[derive(Encode)]
        enum Future {
            #[n(4)]
            Signal(#[n(0)] u32, #[n(1)] i32, #[n(2)] &'static str),
        }
        let mut buffer = FrameBuffer::default();
        buffer.extend(&frame(5, &Future::Signal(3, 15, "new")));
        let envelope = buffer.next::<Request>().unwrap().unwrap();
        assert_eq!(envelope.body, Request::Signal { slot: 3, signal: 15 });
    }

    #[test]
    fn a_frame_longer_than_the_limit_is_refused_before_it_is_read() {
        let mut buffer = FrameBuffer::default();
        buffer.extend(&u32::MAX.to_le_bytes());
        assert!(matches!(buffer.next::<Request>(), Err(FrameError::TooLong(_))));
    }
}
