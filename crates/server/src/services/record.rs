//! [`Record`]: the record of a service in the state directory, and [`Store`], the directory of records.
//!
//! A record is replaced atomically, and is on the disk before the change that it describes is made. So the next server
//! finishes what this one began.

use std::collections::VecDeque;
use std::fmt::Write;
use std::io;
use std::path::PathBuf;

use sandcrab_api::execute::{End, EndReason};
use sandcrab_api::service::{ServiceExecution, ServiceRequest};
use sandcrab_api::{ErrorCode, Timestamp};
use sandcrab_engine::ExecutionId;
use sandcrab_engine::trusted::TrustedDir;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ending::AfterEnd;
use crate::error::ApiError;

/// The directory of records, in the state directory.
const FOLDER: &str = "services";
/// The end of the name of a record.
const SUFFIX: &str = ".json";
/// Maximum size of a record. Commands that are longer belong into a file.
pub(super) const MAX_RECORD_BYTES: usize = 1 << 20;
/// Number of earlier executions that a service lists.
pub(super) const MAX_LISTED_EXECUTIONS: usize = 10;
/// Space for the earlier executions in a record.
const HISTORY_BYTES: usize = MAX_LISTED_EXECUTIONS * (8 << 10);
/// Maximum size of an error in a record.
const MAX_ERROR_BYTES: usize = 4 << 10;

/// What a service does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub(super) enum Phase {
    /// The current execution is to be started, and may have been.
    Starting,
    /// The current execution was started.
    Running {
        /// Time of the start.
        started_at: Timestamp,
    },
    /// The current execution is to be ended, and may have been.
    Ending {
        /// What follows.
        then: AfterEnd,
    },
    /// The current execution has ended; the next one is to be started.
    Waiting {
        /// Time of the next start.
        until: Timestamp,
    },
    /// The service was stopped, or its program ended with exit code 0.
    Stopped,
    /// The program failed, and is not started again.
    Failed,
}

/// The record of a service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) id: String,
    /// The request, whose environment may contain secrets. Records are private to the user of the server.
    pub(super) request: ServiceRequest,
    /// Digest of the idempotency key and the body of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
    /// Distinguishes the executions of services with the same id.
    pub(super) incarnation: String,
    pub(super) created_at: Timestamp,
    /// Number of the current execution, from 1 on. Its id follows from it, so the next server finds it.
    pub(super) attempt: u64,
    pub(super) phase: Phase,
    /// Number of the last execution whose end is in the history.
    pub(super) noted: u64,
    /// Restarts in a row.
    pub(super) in_a_row: u32,
    /// All restarts by the policy.
    pub(super) restarts: u64,
    /// Why the service does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// Earlier executions, the newest first.
    pub(super) history: VecDeque<ServiceExecution>,
}

impl Record {
    pub(super) fn new(id: String, request: ServiceRequest, digest: Option<String>) -> Self {
        let random = ExecutionId::random();
        let incarnation = random.as_str()[random.as_str().len() - 8..].to_owned();
        Self {
            id,
            request,
            digest,
            incarnation,
            created_at: Timestamp::now(),
            attempt: 1,
            phase: Phase::Starting,
            noted: 0,
            in_a_row: 0,
            restarts: 0,
            error: None,
            history: VecDeque::new(),
        }
    }

    /// The id of an execution. `None` never happens: all its characters are valid, and it is short enough.
    pub(super) fn execution_id(&self, attempt: u64) -> Option<ExecutionId> {
        execution_id(&self.id, &self.incarnation, attempt)
    }

    /// Digest of the current execution. The engine starts nothing twice that has the same id and digest.
    pub(super) fn execution_digest(&self) -> Vec<u8> {
        Sha256::digest(format!("service {} {} {}", self.id, self.incarnation, self.attempt)).to_vec()
    }

    /// Notes the end of the current execution, once.
    pub(super) fn note_end(&mut self, execution: ServiceExecution) {
        if self.noted == self.attempt {
            return;
        }
        self.noted = self.attempt;
        self.history.push_front(execution);
        self.history.truncate(MAX_LISTED_EXECUTIONS);
    }

    /// The entry of an execution of which nothing is known but that it does not run.
    pub(super) fn lost(&self, execution_id: String, start_time: Timestamp) -> ServiceExecution {
        ServiceExecution {
            execution_id,
            start_time,
            end_time: Timestamp::now(),
            exit_code: None,
            end: Some(End { reason: EndReason::Lost, signal: None }),
            error: None,
        }
    }

    /// Sets the reason why the service does not run, at most [`MAX_ERROR_BYTES`] of it.
    pub(super) fn set_error(&mut self, error: Option<String>) {
        self.error = error.map(|mut text| {
            text.truncate(text.floor_char_boundary(MAX_ERROR_BYTES));
            text
        });
    }

    /// Refuses a record that is too large.
    pub(super) fn check_size(&self) -> Result<(), ApiError> {
        let bytes = serde_json::to_vec(self).map_err(ApiError::internal)?.len();
        if bytes + HISTORY_BYTES <= MAX_RECORD_BYTES {
            return Ok(());
        }
        let message = format!(
            "the service takes {bytes} bytes, at most {} are allowed; put the command into a file",
            MAX_RECORD_BYTES - HISTORY_BYTES
        );
        Err(ApiError::new(ErrorCode::BodyTooLarge, message))
    }
}

/// The id of an execution of a service.
pub(super) fn execution_id(service: &str, incarnation: &str, attempt: u64) -> Option<ExecutionId> {
    format!("{service}.{incarnation}.{attempt}").parse().ok()
}

/// The directory of records.
#[derive(Debug, Clone)]
pub(super) struct Store {
    state_dir: PathBuf,
}

impl Store {
    pub(super) fn new(state_dir: PathBuf) -> Self {
        Self { state_dir }
    }

    fn open(&self) -> io::Result<TrustedDir> {
        Ok(TrustedDir::open(&self.state_dir)?.folder(FOLDER)?)
    }

    /// All records. One that cannot be read is logged and left alone.
    pub(super) fn read(&self) -> io::Result<Vec<Record>> {
        let folder = self.open()?;
        let mut records = Vec::new();
        for name in folder.file_names()?.iter().filter(|name| name.ends_with(SUFFIX)) {
            let read = folder.read(name, MAX_RECORD_BYTES as u64).map_err(io::Error::from);
            let parsed = read.and_then(|bytes| {
                // Not the text of the error, which may contain a secret.
                serde_json::from_slice::<Record>(&bytes.unwrap_or_default())
                    .map_err(|e| io::Error::other(format!("line {}, column {}", e.line(), e.column())))
            });
            match parsed {
                Ok(record) => records.push(record),
                Err(error) => {
                    let file = folder.path().join(name);
                    tracing::error!(file = %file.display(), %error, "the record of a service cannot be read");
                }
            }
        }
        Ok(records)
    }

    /// Writes a record to the disk.
    pub(super) fn write(&self, record: &Record) -> io::Result<()> {
        let bytes = serde_json::to_vec(record)?;
        Ok(self.open()?.replace(&name(&record.id), &bytes)?)
    }

    /// Removes a record.
    pub(super) fn remove(&self, id: &str) -> io::Result<()> {
        Ok(self.open()?.remove(&name(id))?)
    }
}

/// The name of a record. Ids do not become names of files.
fn name(id: &str) -> String {
    let mut name = String::new();
    for byte in Sha256::digest(id).iter().take(16) {
        // Never fails: writing to a String cannot.
        let _ = write!(name, "{byte:02x}");
    }
    name + SUFFIX
}

/// The error of a record that cannot be written.
pub(super) fn failed(error: &io::Error) -> ApiError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ApiError::new(
            ErrorCode::NoSpace,
            "the disk of the state directory is full, so the service cannot be recorded; free space, and try again",
        ),
        io::ErrorKind::NotFound => {
            ApiError::new(ErrorCode::StateDirMissing, "the state directory was removed; restart the server")
        }
        _ => ApiError::internal(format!("the record of a service cannot be written: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str) -> Record {
        let request = ServiceRequest { command: "true".into(), ..ServiceRequest::default() };
        Record::new(id.into(), request, None)
    }

    #[test]
    fn records_are_written_and_read() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path().to_owned());
        for id in ["a", "b:..x"] {
            store.write(&record(id)).unwrap();
        }
        let mut changed = record("a");
        changed.phase = Phase::Ending { then: AfterEnd::Stop };
        store.write(&changed).unwrap();
        std::fs::write(dir.path().join(FOLDER).join("broken.json"), "{").unwrap();
        std::fs::write(dir.path().join(FOLDER).join("draft.json.new"), "{").unwrap();
        let mut found = store.read().unwrap();
        found.sort_by(|one, other| one.id.cmp(&other.id));
        let phases: Vec<_> = found.iter().map(|record| (record.id.as_str(), record.phase)).collect();
        assert_eq!(phases, [("a", Phase::Ending { then: AfterEnd::Stop }), ("b:..x", Phase::Starting)]);
        store.remove("a").unwrap();
        store.remove("a").unwrap();
        assert_eq!(store.read().unwrap().len(), 1);
    }

    #[test]
    fn the_history_is_bounded_and_has_each_end_once() {
        let mut record = record("a");
        for attempt in 1..=(1 << 12) {
            record.attempt = attempt;
            let id = record.execution_id(attempt).unwrap().to_string();
            for _ in 0..2 {
                record.note_end(record.lost(id.clone(), Timestamp::now()));
            }
        }
        assert_eq!(record.history.len(), MAX_LISTED_EXECUTIONS);
        let newest = record.execution_id(1 << 12).unwrap();
        assert_eq!(record.history[0].execution_id, newest.as_str());
        assert_ne!(record.history[1].execution_id, record.history[0].execution_id);
    }

    #[test]
    fn the_longest_id_has_executions() {
        let id = "s".repeat(super::super::definition::MAX_SERVICE_ID_BYTES);
        assert!(record(&id).execution_id(u64::MAX).is_some());
    }
}
