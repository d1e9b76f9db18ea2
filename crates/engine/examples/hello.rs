//! Runs a command, and a session that survives the death of its shell.
#![expect(clippy::print_stdout, reason = "it is an example")]

use sandcrab_engine::{CommandSpec, Engine, EngineConfig, SessionSpec};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First, because the engine starts this program again as its supervisors.
    sandcrab_engine::init();

    tokio::runtime::Runtime::new()?.block_on(async {
        let engine = Engine::open(EngineConfig::new(std::env::temp_dir().join("sandcrab-state"))).await?;

        let outcome = engine.run(CommandSpec::shell("echo hello; echo oops >&2; exit 3")).await?;
        println!("{:?} {:?} {}", outcome.stdout(), outcome.stderr(), outcome.exit_code());

        let session = engine.create_session(SessionSpec::new().cwd("/tmp")).await?;
        session.run(CommandSpec::shell("greet() { echo \"hello $1 from $PWD\"; }")).await?;
        session.run(CommandSpec::shell("kill -9 $$")).await?;
        let outcome = session.run(CommandSpec::shell("greet you")).await?;
        println!("{:?} restored: {}", outcome.stdout(), outcome.end.restored.is_some());
        session.delete().await?;
        Ok(())
    })
}
