//! [`Scene`]: an engine with everything around it that a test needs.

use std::path::PathBuf;
use std::time::Duration;

use sandcrab_engine::{CommandSpec, Engine, EngineConfig, Execution, Session};

use super::place::Place;
use super::processes::Seen;

/// An engine on a state directory of its own. Nothing outlives them.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) engine: Engine,
    pub(crate) place: Place,
}

impl Scene {
    pub(crate) async fn open() -> Self {
        Self::open_with(|_| ()).await
    }

    pub(crate) async fn open_with(change: impl FnOnce(&mut EngineConfig)) -> Self {
        let place = Place::new();
        let engine = place.open_with(|config| {
            config.ready_shells = 1;
            change(config);
        });
        Self { engine: engine.await, place }
    }

    /// A new folder to run a command in.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.place.file(name);
        std::fs::create_dir(&path).unwrap();
        path
    }

    /// Whether this machine lets us do this with a cgroup: `kill`, `memory limit` or `process limit`.
    pub(crate) fn has_cgroup(&self, purpose: &str) -> bool {
        let cgroups = self.engine.health().cgroups;
        cgroups.split("; ").any(|part| part.starts_with(purpose) && part.contains("cgroup v"))
    }

    /// Whether it does not. Then the test is noted as not run.
    pub(crate) fn lacks_cgroup(&self, purpose: &str) -> bool {
        let lacks = !self.has_cgroup(purpose);
        if lacks {
            super::not_run(&format!("no {purpose} through a cgroup"));
        }
        lacks
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

/// Both ways to run a command.
pub(crate) const BOTH: [Kind; 2] = [Kind::Run, Kind::Session];

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
            // It may have ended.
            None => drop(self.execution.kill(libc::SIGKILL, Duration::ZERO).await),
        }
    }

    /// Checks that the session takes its next command in the same shell, and ends it.
    pub(crate) async fn answers(self) {
        if let Some(session) = self.session {
            let next = session.run(CommandSpec::shell("echo next")).await.unwrap();
            assert_eq!((next.stdout().as_str(), next.end.restored), ("next\n", None));
            session.delete().await.unwrap();
        }
    }
}

/// The program of an execution that runs, or its session's shell.
pub(crate) fn process_of(execution: &Execution) -> Seen {
    Seen::of(execution.info().pid.unwrap()).unwrap()
}

/// The supervisor of an execution that runs.
pub(crate) fn supervisor_of(execution: &Execution) -> Seen {
    Seen::of(process_of(execution).parent().unwrap()).unwrap()
}
