//! The `sandcrab` program: the server, and the command line to use it.
//!
//! # Theory of operation
//!
//! `cli` defines the command line. Each command, or group of commands, is a file of [`commands`] with its arguments and one
//! function; doc comments of the arguments are the help, the man pages and `docs/cli.md`. A command finds its server
//! through `connection`, uses it through `sandcrab-client`, and prints through `output`: tables, or JSON. An error is a
//! `failure::Failure`, which becomes a message, a hint and an exit code (`exit_code`) here.
//!
//! `run`, `exec` and `session exec` share `relay`: output, standard input, signals and the exit code of a command pass
//! through this program as if the command ran here. `embedded` is the temporary server of `run`.
//!
//! `shell`, `exec -t`, `run -t` and `record` share `tty`, which shows a terminal of the server in the local one through
//! `terminal`.
//!
//! A client uses one thread; only an embedded server gets more.

mod address_file;
mod batch;
mod cli;
mod command_line;
mod commands;
mod connection;
mod default_paths;
mod embedded;
mod end;
mod end_signals;
mod exit_code;
mod failure;
mod folder;
mod interactive;
mod limit;
mod output;
mod progress;
mod quantity;
mod relay;
mod runtime;
mod serve;
mod table;
mod terminal;
mod terminal_args;
mod transfer;
mod tty;
mod walk_args;

use std::process::ExitCode;

use tokio::runtime::Builder;

use cli::{Cli, Command, GlobalOptions};
use failure::Failure;
use output::Output;

/// Threads of an embedded server and of the command that uses it.
const EMBEDDED_THREADS: usize = 2;

fn main() -> ExitCode {
    // First: the engine starts this program again as its zygote.
    sandcrab_engine::init();
    if let Some(words) = commands::completions::ids::requested() {
        commands::completions::ids::complete(&words);
        return ExitCode::SUCCESS;
    }
    let Cli { global, command } = match cli::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let output = Output::new(global.json);
    // It starts its own processes and threads.
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
    builder.worker_threads(EMBEDDED_THREADS);
    let runtime =
        runtime::start(&mut builder, exit_code::FAILED, move || output.failure(&Failure::no_thread()))?;
    let ended = runtime.block_on(dispatch(command, global, output));
    // A read of standard input, or a write to a full pipe, may never return.
    runtime.shutdown_background();
    ended
}

async fn dispatch(command: Command, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    match command {
        Command::Run(args) => commands::run::run(args, global, output).await,
        Command::Exec(args) => commands::exec::run(args, global, output).await,
        Command::Start(args) => commands::start::run(args, global, output).await,
        Command::Ps(args) => commands::ps::run(args, global, output).await,
        Command::Inspect(args) => commands::inspect::run(args, global, output).await,
        Command::Logs(args) => commands::logs::run(args, global, output).await,
        Command::Wait(args) => commands::wait::run(args, global, output).await,
        Command::Kill(args) => commands::kill::run(args, global, output).await,
        Command::Signal(args) => commands::signal::run(args, global, output).await,
        Command::Stdin(args) => commands::stdin::run(args, global, output).await,
        Command::Cleanup(_) => commands::cleanup::run(global, output).await,
        Command::Session(args) => commands::session::run(args, global, output).await,
        Command::Shell(args) => commands::shell::run(args, global, output).await,
        Command::Attach(args) => commands::attach::run(args, global, output).await,
        Command::Service(args) => commands::service::run(args, global, output).await,
        Command::Terminal(args) => commands::terminal::run(args, global, output).await,
        Command::Record(args) => commands::record::run(args, global, output).await,
        Command::Play(args) => commands::play::run(args, output).await,
        Command::Grep(args) => commands::grep::run(args, global, output).await,
        Command::Replace(args) => commands::replace::run(args, global, output).await,
        Command::Edit(args) => commands::edit::run(args, global, output).await,
        Command::Find(args) => commands::find::run(args, global, output).await,
        Command::Watch(args) => commands::watch::run(args, global, output).await,
        Command::Env(args) => commands::env::run(args, global, output).await,
        Command::Mcp(_) => commands::mcp::run(global).await,
        Command::Tools(args) => commands::tools::run(&args, output),
        // Handled before.
        Command::Serve(_) => Ok(0),
        Command::Health(_) => commands::health::run(global, output).await,
        Command::Ls(args) => commands::ls::run(args, global, output).await,
        Command::Cat(args) => commands::cat::run(args, global, output).await,
        Command::Write(args) => commands::write::run(args, global, output).await,
        Command::Backup(args) => commands::backup::run(args, global, output).await,
        Command::Cp(args) => commands::cp::run(args, global, output).await,
        Command::Mv(args) => commands::mv::run(args, global, output).await,
        Command::Rm(args) => commands::rm::run(args, global, output).await,
        Command::Mkdir(args) => commands::mkdir::run(args, global, output).await,
        Command::Chmod(args) => commands::chmod::run(args, global, output).await,
        Command::Stat(args) => commands::stat::run(args, global, output).await,
        Command::Git(args) => commands::git::run(args, global, output).await,
        Command::Ports(args) => commands::ports::run(args, global, output).await,
        Command::Expose(args) => commands::expose::run(args, global, output).await,
        Command::Events(_) => commands::events::run(global, output).await,
        Command::Completions(args) => commands::completions::run(&args, output),
        Command::Man(args) => commands::man::run(&args, output),
    }
}
