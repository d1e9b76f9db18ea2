//! What the tests share: an engine on a state directory of its own.

use std::path::PathBuf;

use sandcrab_engine::{Engine, EngineConfig, SupervisorProgram};

/// The supervisor program of this build.
pub(crate) fn supervisor() -> SupervisorProgram {
    SupervisorProgram::At(PathBuf::from(env!("CARGO_BIN_EXE_sandcrab-supervisor")))
}

/// An engine on a state directory that is removed with it.
pub(crate) struct Fixture {
    pub(crate) engine: Engine,
    pub(crate) dir: tempfile::TempDir,
}

/// A configuration for tests, on this state directory.
pub(crate) fn config(dir: &std::path::Path) -> EngineConfig {
    let mut config = EngineConfig::new(dir);
    config.supervisor = supervisor();
    config
}

/// Opens an engine with the defaults.
pub(crate) async fn open() -> Fixture {
    open_with(|_| ()).await
}

/// Opens an engine with changes to the defaults.
pub(crate) async fn open_with(change: impl FnOnce(&mut EngineConfig)) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    change(&mut config);
    Fixture { engine: Engine::open(config).await.unwrap(), dir }
}
