//! The `sandcrab` program: the server, and the command line to use it. One file per subcommand.

mod cli;
mod commands;
mod serve;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // First of all: the zygote is this program, started again.
    sandcrab_engine::init();
    cli::Cli::parse().run()
}
