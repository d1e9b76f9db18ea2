//! [`Output`]: the only writer to standard output and standard error.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::json;

use crate::failure::Failure;
use crate::table;

const RED: &str = "\x1b[1;31m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

/// How results and errors are printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// As JSON.
    pub(crate) json: bool,
    /// Whether standard output is a terminal.
    pub(crate) is_terminal: bool,
    /// Whether standard output gets colours.
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

    /// One JSON document: indented on a terminal, else on one line.
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

    /// A name from the sandbox: on a terminal without control characters.
    pub(crate) fn name(self, name: &str) -> Cow<'_, str> {
        if self.is_terminal { Cow::Owned(table::plain(name)) } else { Cow::Borrowed(name) }
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

    /// Information for the user that is not part of the result, on standard error.
    pub(crate) fn note(self, text: &str) {
        if self.json {
            // There is no reader left to report a failure to.
            drop(self.error_bytes(format!("{}\n", json!({ "note": text })).as_bytes()));
            return;
        }
        self.diagnostic(CYAN, "note", text);
    }

    /// An error, and what to do about it.
    pub(crate) fn failure(self, failure: &Failure) {
        if matches!(failure, Failure::BrokenPipe) {
            return;
        }
        let (message, hint) = (failure.message(), failure.hint());
        if self.json {
            let code = failure.code();
            let error =
                json!({ "code": code, "message": message, "hint": hint, "exitCode": failure.exit_code() });
            drop(self.error_bytes(format!("{}\n", json!({ "error": error })).as_bytes()));
            return;
        }
        self.diagnostic(RED, "error", &message);
        if let Some(hint) = hint {
            self.diagnostic(CYAN, "hint", &hint);
        }
    }

    fn diagnostic(self, colour: &str, word: &str, text: &str) {
        let (colour, plain) = if self.error_colour { (colour, PLAIN) } else { ("", "") };
        // There is no reader left to report a failure to.
        drop(self.error_bytes(format!("{colour}{word}:{plain} {text}\n").as_bytes()));
    }
}
