//! The `sandcrab` program: the server, and the command line to use it. One file per subcommand.
//!
//! # Theory of operation
//!
//! `cli` is what can be written on the command line; its doc comments are the help, and `docs/cli.md` is made of them. A
//! subcommand is a file of [`commands`] with its arguments and one function. It finds its server through `connection`,
//! talks to it through `sandcrab-client`, and says what it has to say through `output`, as tables for people or as JSON.
//! What goes wrong is a `failure::Failure`, which becomes a line, a hint and an exit code in one place, here.
//!
//! `run`, `exec` and `session exec` are one thing, `relay`: a command whose output, standard input, signals and exit code
//! pass through this program as if it ran here. `embedded` is the server that `run` starts where there is none.
//!
//! Talking to a server takes one thread; only an embedded server gets more.

mod address_file;
mod cli;
mod command_line;
mod commands;
mod connection;
mod embedded;
mod failure;
mod output;
mod places;
mod quantity;
mod relay;
mod serve;
mod table;

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Builder;

use cli::{Cli, Command, GlobalOptions};
use failure::Failure;
use output::Output;

/// The threads of an embedded server and of the command that uses it.
const EMBEDDED_THREADS: usize = 2;

fn main() -> ExitCode {
    // First of all: the zygote is this program, started again.
    sandcrab_engine::init();
    let Cli { global, command } = Cli::parse();
    let output = Output::new(global.json);
    // It has processes and threads of its own.
    let command = match command {
        Command::Serve(args) => return commands::serve::run(*args),
        other => other,
    };
    match start(command, &global, output) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output.failure(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

fn start(command: Command, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let mut builder = match command {
        Command::Run(_) => Builder::new_multi_thread(),
        _ => Builder::new_current_thread(),
    };
    let runtime = builder.worker_threads(EMBEDDED_THREADS).enable_all().build()?;
    let ended = runtime.block_on(dispatch(command, global, output));
    // A read of standard input, or a write that nobody takes, may never return.
    runtime.shutdown_background();
    ended
}

async fn dispatch(command: Command, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    match command {
        Command::Serve(_) => Ok(0),
        Command::Run(args) => commands::run::run(args, global, output).await,
        Command::Exec(args) => commands::exec::run(args, global, output).await,
        Command::Ps(args) => commands::ps::run(args, global, output).await,
        Command::Logs(args) => commands::logs::run(args, global, output).await,
        Command::Kill(args) => commands::kill::run(args, global, output).await,
        Command::Wait(args) => commands::wait::run(args, global, output).await,
        Command::Session(args) => commands::session::run(args, global, output).await,
        Command::Health(_) => commands::health::run(global, output).await,
        Command::Completions(args) => commands::completions::run(&args, output),
    }
}
