//! [`BatchResults`]: one command for several ids. A failure of one is reported, and the others continue.

use sandcrab_client::ClientError;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;

/// The results of a command for several ids.
#[derive(Debug)]
pub(crate) struct BatchResults {
    output: Output,
    is_one: bool,
    exit_code: u8,
}

impl BatchResults {
    pub(crate) fn new(output: Output, ids: &[String]) -> Self {
        Self { output, is_one: ids.len() == 1, exit_code: 0 }
    }

    /// The result for one id or path. An error is returned for a single one, and printed for one of several.
    pub(crate) fn check<T>(
        &mut self,
        id: &str,
        result: Result<T, ClientError>,
    ) -> Result<Option<T>, Failure> {
        self.check_with_hint(id, result, None)
    }

    /// The same with a hint in place of that of the error.
    pub(crate) fn check_with_hint<T>(
        &mut self,
        id: &str,
        result: Result<T, ClientError>,
        hint: Option<&str>,
    ) -> Result<Option<T>, Failure> {
        let failure = |error| match hint {
            Some(hint) => Failure::from(error).with_hint(hint.to_owned()),
            None => Failure::from(error),
        };
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if self.is_one => Err(failure(error)),
            Err(error) => {
                let failure = failure(error).about(id);
                self.output.failure(&failure);
                self.note_exit_code(failure.exit_code());
                Ok(None)
            }
        }
    }

    /// Prints a JSON document: one for a single id, else one on each line.
    pub(crate) fn document(&self, value: &impl Serialize) -> Result<(), Failure> {
        if self.is_one { self.output.document(value) } else { self.output.json_line(value) }
    }

    /// Notes an exit code: the first one that is not 0 counts.
    pub(crate) fn note_exit_code(&mut self, exit_code: u8) {
        if self.exit_code == 0 {
            self.exit_code = exit_code;
        }
    }

    /// The exit code of this program.
    pub(crate) fn exit_code(&self) -> u8 {
        self.exit_code
    }
}
