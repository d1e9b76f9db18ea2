//! [`Origin`]: the request and execution of a body or a stream, for the log. A body may fail long after its handler
//! has returned.

use sandcrab_engine::{Execution, ExecutionId};

use crate::error::ApiError;
use crate::layer::RequestId;

/// The request that a body or a stream answers, and its execution.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    request: RequestId,
    execution: Option<ExecutionId>,
}

impl Origin {
    /// For a request without an execution.
    pub(crate) fn request(request: RequestId) -> Self {
        Self { request, execution: None }
    }

    /// For a request with this execution.
    pub(crate) fn execution(request: RequestId, execution: &Execution) -> Self {
        Self { request, execution: Some(execution.id().clone()) }
    }

    /// Logs why `what` failed, if it is an internal error.
    pub(crate) fn log(&self, what: &str, error: &ApiError) {
        if let Some(why) = error.internal_message() {
            let Self { request, execution } = self;
            let execution = execution.as_ref().map(ExecutionId::as_str);
            tracing::error!(request = request.as_str(), execution, why, "{what} failed");
        }
    }

    /// Logs why a response breaks off, which cannot be reported to its client.
    pub(crate) fn log_broken_off(&self, why: &dyn std::fmt::Display) {
        let Self { request, execution } = self;
        let execution = execution.as_ref().map(ExecutionId::as_str);
        tracing::warn!(request = request.as_str(), execution, %why, "a response was interrupted");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Some origin.
    pub(crate) fn origin() -> Origin {
        let request = RequestId(axum::http::HeaderValue::from_static("r-test"));
        Origin { request, execution: "x-test".parse().ok() }
    }

    /// What is logged on this thread while the guard is there.
    #[derive(Clone, Default)]
    pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

    impl Log {
        pub(crate) fn capture() -> (Self, tracing::subscriber::DefaultGuard) {
            let log = Self::default();
            let to = log.clone();
            let subscriber = tracing_subscriber::fmt().json().with_writer(move || to.clone()).finish();
            (log, tracing::subscriber::set_default(subscriber))
        }

        /// The fields of every line.
        pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
            let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            text.lines()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["fields"].take())
                .collect()
        }

        /// One line with the ids of [`origin`] was logged.
        #[track_caller]
        pub(crate) fn assert_named(&self) {
            let lines = self.lines();
            let [line] = &lines[..] else { panic!("{lines:?}") };
            assert_eq!(
                (&line["request"], &line["execution"]),
                (&"r-test".into(), &"x-test".into()),
                "{line}"
            );
        }
    }

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_internal_errors_are_logged() {
        let (log, _guard) = Log::capture();
        origin().log("a stream", &ApiError::no_process("x"));
        assert_eq!(log.lines().len(), 0);
        origin().log("a stream", &ApiError::internal("broken"));
        log.assert_named();
    }
}
