//! [`Output`]: everything that is written to standard output and standard error goes through here.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::json;

use crate::failure::Failure;

const RED: &str = "\x1b[1;31m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

/// How to say things.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// To programs, as JSON.
    pub(crate) json: bool,
    /// Whether standard output is a terminal.
    pub(crate) is_terminal: bool,
    /// Whether colours may be used there.
    pub(crate) colour: bool,
    error_colour: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let may_colour = !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let is_terminal = io::stdout().is_terminal();
        Self {
            json,
            is_terminal,
            colour: may_colour && is_terminal,
            error_colour: may_colour && io::stderr().is_terminal(),
        }
    }

    /// One JSON document: indented for people, one line for programs.
    pub(crate) fn document(self, value: &impl Serialize) -> Result<(), Failure> {
        let text =
            if self.is_terminal { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        // Never fails: the wire's types have string keys only.
        self.line(text.unwrap_or_default())
    }

    /// One JSON document of a stream of them, on a line of its own.
    pub(crate) fn json_line(self, value: &impl Serialize) -> Result<(), Failure> {
        self.line(serde_json::to_string(value).unwrap_or_default())
    }

    /// One line.
    pub(crate) fn line(self, line: impl AsRef<str>) -> Result<(), Failure> {
        self.bytes(format!("{}\n", line.as_ref()).as_bytes())
    }

    /// Bytes as they are.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()?;
        Ok(())
    }

    /// Bytes as they are, to standard error.
    pub(crate) fn error_bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(io::stderr().lock().write_all(bytes)?)
    }

    /// Something that people should know, and that is no part of the result.
    pub(crate) fn note(self, text: &str) {
        self.complain(CYAN, "note", text);
    }

    /// What went wrong, and what may help.
    pub(crate) fn failure(self, failure: &Failure) {
        if matches!(failure, Failure::BrokenPipe) {
            return;
        }
        let (message, hint) = (failure.message(), failure.hint());
        if self.json {
            let code = failure.word();
            let error =
                json!({ "code": code, "message": message, "hint": hint, "exitCode": failure.exit_code() });
            drop(self.error_bytes(format!("{}\n", json!({ "error": error })).as_bytes()));
            return;
        }
        self.complain(RED, "error", &message);
        if let Some(hint) = hint {
            self.complain(CYAN, "hint", &hint);
        }
    }

    fn complain(self, colour: &str, word: &str, text: &str) {
        let (colour, plain) = if self.error_colour { (colour, PLAIN) } else { ("", "") };
        // There is nobody left to tell that nobody listens.
        drop(self.error_bytes(format!("{colour}{word}:{plain} {text}\n").as_bytes()));
    }
}
