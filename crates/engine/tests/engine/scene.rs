//! An engine with everything around it that a test must not disturb, and that ends with the test.

use std::path::PathBuf;

use sandcrab_engine::{CommandSpec, Engine, EngineConfig, Execution, Session, Status};
use tempfile::TempDir;

use crate::processes::{Seen, Sweep};
use crate::support;

/// An engine, a folder to work in, and the promise that nothing outlives them.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) engine: Engine,
    _sweep: Sweep,
    _state: TempDir,
    work: TempDir,
}

impl Scene {
    pub(crate) async fn open() -> Self {
        Self::open_with(|_| ()).await
    }

    pub(crate) async fn open_with(change: impl FnOnce(&mut EngineConfig)) -> Self {
        let (state, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut config = support::config(state.path());
        config.ready_shells = 1;
        change(&mut config);
        let engine = Engine::open(config).await.unwrap();
        Self { engine, _sweep: Sweep(state.path().to_owned()), _state: state, work }
    }

    /// A new folder to run a command in.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.work.path().canonicalize().unwrap().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    }

    pub(crate) async fn session(&self) -> Session {
        self.engine.create_session(Default::default()).await.unwrap()
    }

    pub(crate) async fn start(&self, kind: Kind, spec: CommandSpec) -> Running {
        match kind {
            Kind::Run => Running { execution: self.engine.start(spec).await.unwrap(), session: None },
            Kind::Session => {
                let session = self.session().await;
                let execution = session.start(spec).await.unwrap();
                execution.wait_started().await.unwrap();
                Running { execution, session: Some(session) }
            }
        }
    }
}

/// Without a session, or in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Run,
    Session,
}

/// A command that was started, in a session of its own if in one.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) execution: Execution,
    pub(crate) session: Option<Session>,
}

impl Running {
    /// Ends what is still there.
    pub(crate) async fn close(self) {
        match self.session {
            Some(session) => drop(session.delete().await.unwrap()),
            None => drop(self.execution.kill(libc::SIGKILL, std::time::Duration::ZERO).await.unwrap()),
        }
    }
}

/// The process of an execution: its program, or its session's shell.
pub(crate) fn process_of(execution: &Execution) -> Seen {
    let Status::Running { pid } = execution.status() else { panic!("{:?}", execution.status()) };
    Seen::of(pid).unwrap()
}
