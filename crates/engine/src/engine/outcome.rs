//! [`Outcome`]: the end and the output of a command.

use std::sync::Arc;

use super::error::StartError;
use super::execution::Execution;
use super::output::Output;
use crate::end::End;

/// Maximum number of bytes per stream in an [`Outcome`]; the journal has more.
pub const OUTCOME_BYTES: usize = 10 << 20;

/// The end and the output of a command.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The execution.
    pub execution: Execution,
    /// The end.
    pub end: Arc<End>,
    /// The output: at most [`OUTCOME_BYTES`] per stream, head and tail.
    pub output: Output,
}

impl Outcome {
    pub(super) async fn of(execution: Execution) -> Result<Self, StartError> {
        let _guard = execution.tracked.guard();
        let end = execution.wait().await?;
        // The end includes the position, so the journal of a command without output is not read.
        let output = match execution.tracked.position() {
            0 => Output::default(),
            _ => execution.output(OUTCOME_BYTES).unwrap_or_default(),
        };
        Ok(Self { execution, end, output })
    }

    /// The exit code; 255 if unknown.
    pub fn exit_code(&self) -> i32 {
        self.end.exit_code.unwrap_or(255)
    }

    /// Standard output as text; invalid UTF-8 is replaced.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout.bytes).into_owned()
    }

    /// Standard error as text; invalid UTF-8 is replaced.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr.bytes).into_owned()
    }
}
