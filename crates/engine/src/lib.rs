//! Runs commands in supervised processes, with persistent shells, a complete record of output, and reliable
//! termination.
//!
//! # Overview
//!
//! An [`Engine`] runs stateless commands, background processes and the commands of persistent shell [`Session`]s, on
//! a Linux machine or in a container. Each of them is an [`Execution`]: it has an id, a status, one [`End`], and a
//! journal on disk. The journal contains every byte of both streams, in order.
//!
//! Executions do not depend on the engine. A small supervisor process owns each run and each session. The engine can
//! be dropped, crash or be killed at any instant. The next engine on the same state directory adopts everything:
//! output, exit codes, deadlines, the state of shells.
//!
//! # Usage
//!
//! ```
//! use sandcrab_engine::{CommandSpec, Engine, EngineConfig};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // First, because the engine starts this program again as its supervisors.
//!     sandcrab_engine::init();
//!
//!     let state = tempfile::tempdir()?;
//!     tokio::runtime::Runtime::new()?.block_on(async {
//!         let engine = Engine::open(EngineConfig::new(state.path())).await?;
//!
//!         let outcome = engine.run(CommandSpec::shell("echo hello; echo oops >&2; exit 3")).await?;
//!         assert_eq!(outcome.stdout(), "hello\n");
//!         assert_eq!(outcome.stderr(), "oops\n");
//!         assert_eq!(outcome.exit_code(), 3);
//!         Ok(())
//!     })
//! }
//! ```
//!
//! A session is a shell that keeps its state:
//!
//! ```
//! # use sandcrab_engine::{CommandSpec, Engine, EngineConfig, SessionSpec};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! #     sandcrab_engine::init();
//! #     let state = tempfile::tempdir()?;
//! #     tokio::runtime::Runtime::new()?.block_on(async {
//! # let engine = Engine::open(EngineConfig::new(state.path())).await?;
//! let session = engine.create_session(SessionSpec::new().cwd("/tmp")).await?;
//! session.run(CommandSpec::shell("greet() { echo \"hello $1 from $PWD\"; }")).await?;
//! let outcome = session.run(CommandSpec::shell("greet you")).await?;
//! assert_eq!(outcome.stdout(), "hello you from /tmp\n");
//!
//! // The session is restored after any end of its shell.
//! session.run(CommandSpec::shell("kill -9 $$")).await?;
//! let outcome = session.run(CommandSpec::shell("greet again")).await?;
//! assert_eq!(outcome.stdout(), "hello again from /tmp\n");
//! assert!(outcome.end.restored.is_some());
//! session.delete().await?;
//! # Ok(()) }) }
//! ```
//!
//! A background process is started, followed and ended:
//!
//! ```
//! # use sandcrab_engine::{CommandSpec, Engine, EngineConfig, Event};
//! # use std::time::Duration;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! #     sandcrab_engine::init();
//! #     let state = tempfile::tempdir()?;
//! #     tokio::runtime::Runtime::new()?.block_on(async {
//! # let engine = Engine::open(EngineConfig::new(state.path())).await?;
//! let server = engine.start(CommandSpec::shell("sleep 600 & echo ready; sleep 600").background()).await?;
//! let mut follower = server.follow(0)?;
//! while let Some(entry) = follower.next().await? {
//!     if let Event::Output { bytes, .. } = entry.event {
//!         assert_eq!(bytes, b"ready\n");
//!         break;
//!     }
//! }
//! // Ends the whole process tree and returns the list of processes.
//! let receipt = server.kill(15, Duration::from_secs(5)).await?;
//! assert!(receipt.killed.len() >= 2 && receipt.survivors.is_empty());
//! # Ok(()) }) }
//! ```
//!
//! # Theory of operation
//!
//! **Three kinds of process.** The engine is a library in your process. [`Engine::open`] starts your program a second
//! time as the *zygote*. [`init`] turns that process into a small single-threaded one that only forks *supervisors*.
//! A supervisor owns one run or one session: the program or shell, its pipes, its journal, its deadlines, its exit
//! status. It listens on a socket in the state directory. The engine sends requests and receives events. When the
//! engine exits, the supervisor continues.
//!
//! **A command.** The engine reserves the id and claims a journal, which ensures that the command runs at most once.
//! It then sends the command to a supervisor that has a shell ready. The shell gets the text and three descriptors.
//! The supervisor reads the pipes and writes the journal, so readers do not block the command. The command ends when
//! the program or the shell reports its end, not when its pipes close. The supervisor first reads the output that is
//! still in the pipes. Output that leftovers write later is added to the same journal.
//!
//! **Sessions.** A session's supervisor runs one command at a time, in order of arrival. It saves the state of the
//! shell after changes. So a shell that dies is restored with its directory, variables, functions, aliases, options
//! and traps. See [`Session`].
//!
//! **Terminals.** A terminal is an execution with a pseudo-terminal. Its journal has one stream, and records its sizes.
//! The supervisor saves its screen before the journal drops the output that led to it. See [`Terminal`].
//!
//! **Ending.** A supervisor is a subreaper: all descendants of its commands stay below it, daemons included. It
//! signals through pidfds, verifies each process first, and repeats until none is left. [`Execution::kill`] returns
//! the list.
//!
//! **Reading.** A cursor is a number of output bytes. Readers start at any cursor, at any time, and can follow live
//! output. They get a gap with its bounds where bytes were dropped to keep the bound of the journal.
//!
//! **Restart.** An engine that opens a state directory reads the journals and connects to the live supervisors.
//! Unfinished executions without a supervisor end as [`EndReason::Lost`]. After a reboot or in another pid namespace
//! it connects to no supervisor and signals no process.
//!
//! # Limits
//!
//! | what | limit |
//! |---|---|
//! | text or argv of a command | [`MAX_COMMAND_BYTES`] |
//! | what [`ExecutionInfo::command`] shows of it | [`MAX_SHOWN_COMMAND_BYTES`] |
//! | its environment | [`MAX_ENV_BYTES`] (the kernel accepts less for executed programs) |
//! | given standard input | [`MAX_STDIN_BYTES`] |
//! | an id | [`MAX_ID_BYTES`] |
//! | a note | [`MAX_NOTE_BYTES`] |
//! | a journal on disk | [`EngineConfig::journal_bytes`], at least [`MIN_JOURNAL_BYTES`] |
//! | output in an [`Outcome`] | [`OUTCOME_BYTES`] per stream |
//! | leftovers listed in an [`End`] | [`MAX_LEFTOVERS`] |
//! | unfinished executions, sessions | [`EngineConfig::max_executions`], [`EngineConfig::max_sessions`] |
//! | unfinished terminals | [`EngineConfig::max_terminals`] |
//! | columns and rows of a terminal, its unread input | [`MAX_TERMINAL_SIDE`], [`MAX_TERMINAL_INPUT_BYTES`] |
//! | commands waiting in a session | 1,000 |
//! | unread events of a watcher | [`MAX_UNREAD_EVENTS`] |
//!
//! Commands run as the engine's own user unless [`EngineConfig::run_as`] names another one. As the same user they can
//! signal the supervisors and read the state directory. Linux only; sessions require bash.

mod command;
mod descriptors;
mod end;
mod engine;
mod id;
mod journal;
mod layout;
mod memory_file;
#[cfg(test)]
#[path = "../tests/engine/support/not_run.rs"]
mod not_run;
mod peer;
mod process_tree;
mod procfs;
mod protocol;
mod record;
mod shell;
mod spawn;
mod supervisor;
mod sys;
mod terminal;
pub mod trusted;
mod user;
mod wire;

pub use command::{
    CommandSpec, DEFAULT_TIMEOUT_GRACE, LeftoverPolicy, Limits, MAX_COMMAND_BYTES, MAX_ENV_BYTES,
    MAX_NOTE_BYTES, MAX_SHOWN_COMMAND_BYTES, MAX_STDIN_BYTES, Overflow, Program, READER_GRACE,
    SessionEndPolicy, Stdin,
};
pub use end::{End, EndReason, KillReceipt, Killed, Leftover, MAX_LEFTOVERS, StateSource, Usage};
pub use engine::{
    CgroupUse, ControlError, CreatedTerminal, DEFAULT_GRACE, DEFAULT_RETENTION_GRACE, DEFAULT_TERM, Engine,
    EngineConfig, EngineEvent, Entry, Event, EventStream, Execution, ExecutionInfo, Follower, Health,
    InputError, InputTurn, Inspection, KeysGuard, LOW_DISK_BYTES, ListeningPort, MAX_ENTRY_BYTES,
    MAX_OPEN_FILES, MAX_RECORDS_IN_GRACE, MAX_UNREAD_EVENTS, OUTCOME_BYTES, OpenError, Outcome, Output,
    OutputReader, Problem, ReadAt, ReadError, ReaderRole, Retention, SavedScreen, ScreenSource, Session,
    SessionError, SessionInfo, SessionSpec, ShellDriver, StartError, Status, StopSummary, Stream,
    StreamOutput, StreamPlan, SupervisorProgram, Terminal, TerminalError, TerminalSpec, TreeMetrics,
};
pub use id::{ExecutionId, IdError, MAX_ID_BYTES, SessionId};
pub use journal::MIN_JOURNAL_BYTES;
pub use layout::MAX_SAVED_SCREEN_BYTES;
pub use peer::PeerSilence;
pub use shell::quoted;
pub use terminal::{MAX_TERM_BYTES, MAX_TERMINAL_INPUT_BYTES, MAX_TERMINAL_SIDE, TerminalSize};
pub use user::{User, UserError};

/// Turns this process into a zygote if an engine started it as one; otherwise does nothing.
///
/// Call it first in `main`, before any thread is started and anything is printed. If you cannot change `main`, name
/// another program: [`SupervisorProgram::At`].
pub fn init() {
    supervisor::zygote::enter_if_asked();
}

/// Returns unused memory to the system; for long-lived programs that have just freed a lot.
pub fn release_memory() {
    sys::release_memory();
}

/// Returns to the system what only the start of a program needed: unused memory, and pages of its code. Code that runs
/// later is mapped again, from the kernel's cache of the file. From then on, large buffers are returned when they are
/// freed.
pub fn release_start() {
    sys::return_large_buffers();
    sys::release_memory();
    sys::release_code();
}

/// Random bytes from the kernel, for secrets.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    id::random()
}

/// Maximum number of open descriptors of this process.
pub fn descriptor_limit() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}
