//! Terminals: a real bash, real programs, a real line discipline.

mod cost;
mod creation;
mod direct_input;
mod ends;
mod input;
mod job_control;
pub(crate) mod screens;
mod session_state;
mod sizes;

use std::time::Duration;

use sandcrab_engine::{CommandSpec, Engine, Event, Follower, Terminal, TerminalSpec};

use crate::support::TEST_TIMEOUT;

/// A terminal, and what it has printed so far.
pub(crate) struct Seen {
    pub(crate) terminal: Terminal,
    follower: Follower,
    pub(crate) text: String,
}

impl Seen {
    pub(crate) fn new(terminal: Terminal) -> Self {
        let follower = terminal.execution().follow(0).unwrap();
        Self { terminal, follower, text: String::new() }
    }

    /// An interactive bash without the files of this machine's user, with a prompt that is easy to find.
    pub(crate) async fn shell(engine: &Engine) -> Self {
        let command = CommandSpec::argv(["bash", "--norc", "--noprofile", "-i"]).env("PS1", "[$?]> ");
        let mut seen = Self::new(create(engine, TerminalSpec::command(command)).await);
        seen.wait_for("> ").await;
        seen
    }

    /// Types a line.
    pub(crate) async fn type_line(&self, line: &str) {
        self.terminal.write(format!("{line}\r").as_bytes()).await.unwrap();
    }

    /// Types bytes.
    pub(crate) async fn press(&self, keys: &[u8]) {
        self.terminal.write(keys).await.unwrap();
    }

    /// Waits until this text was printed; forgets everything up to it.
    pub(crate) async fn wait_for(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.text.find(text) {
                let rest = self.text.split_off(at + text.len());
                return std::mem::replace(&mut self.text, rest);
            }
            let next = tokio::time::timeout(TEST_TIMEOUT, self.follower.next()).await;
            let next = next.unwrap_or_else(|_| panic!("waiting for {text:?} after {:?}", self.text));
            match next.unwrap().unwrap_or_else(|| panic!("it ended before {text:?}: {:?}", self.text)).event {
                Event::Output { bytes, .. } => self.text.push_str(&String::from_utf8_lossy(&bytes)),
                Event::Ended(end) => panic!("it ended before {text:?}: {end:?} after {:?}", self.text),
                _ => {}
            }
        }
    }

    /// Runs a line and waits for its output, which must contain a text that is not in the line.
    pub(crate) async fn run(&mut self, line: &str, text: &str) {
        self.type_line(line).await;
        self.wait_for(text).await;
    }
}

pub(crate) async fn create(engine: &Engine, spec: TerminalSpec) -> Terminal {
    let created = engine.create_terminal(spec).await.unwrap();
    assert!(created.created);
    created.terminal
}

/// Everything that a terminal has printed, after its end.
pub(crate) async fn whole_text(terminal: &Terminal) -> String {
    tokio::time::timeout(TEST_TIMEOUT, terminal.execution().wait()).await.unwrap().unwrap();
    let output = terminal.execution().output(1 << 20).unwrap();
    String::from_utf8_lossy(&output.stdout.bytes).into_owned()
}

/// Grace period in tests that expect it not to be needed.
pub(crate) const GRACE: Duration = Duration::from_secs(20);
