//! [`Outcome`]: a command's end together with what it wrote.

use std::sync::Arc;

use super::error::StartError;
use super::execution::Execution;
use super::output::Output;
use crate::end::End;

/// The most bytes of each stream in an [`Outcome`]; the journal has more.
pub const OUTCOME_BYTES: usize = 10 << 20;

/// A command's end together with what it wrote.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The execution, for everything else about it.
    pub execution: Execution,
    /// How it ended.
    pub end: Arc<End>,
    /// What it wrote: at most [`OUTCOME_BYTES`] of each stream, head and tail.
    pub output: Output,
}

impl Outcome {
    pub(super) async fn of(execution: Execution) -> Result<Self, StartError> {
        let _guard = execution.tracked.guard();
        let end = execution.wait().await?;
        // The position came with the end, so a silent command's journal need not be read.
        let output = match execution.tracked.position() {
            0 => Output::default(),
            _ => execution.output(OUTCOME_BYTES).unwrap_or_default(),
        };
        Ok(Self { execution, end, output })
    }

    /// The exit code; 255 if it is not known.
    pub fn exit_code(&self) -> i32 {
        self.end.exit_code.unwrap_or(255)
    }

    /// Standard output as text, with what is not UTF-8 replaced.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout.bytes).into_owned()
    }

    /// Standard error as text, with what is not UTF-8 replaced.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr.bytes).into_owned()
    }
}
