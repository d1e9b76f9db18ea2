//! [`Cli`]: the command line.

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::commands;

/// Runs commands in a sandbox: the server, and the command line to use it.
#[derive(Debug, Parser)]
#[command(name = "sandcrab", bin_name = "sandcrab", version)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct GlobalOptions {}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<commands::serve::ServeArgs>),
}

impl Cli {
    pub(crate) fn run(self) -> ExitCode {
        let Self { global: GlobalOptions {}, command } = self;
        match command {
            Command::Serve(args) => commands::serve::run(*args),
        }
    }
}
