//! `sandcrab service`: one file per command that does more than one request.

mod logs;
mod show;
mod start;

use clap::{Args, Subcommand};
use sandcrab_client::{Client, KillOptions};

use super::kill::{self, Receipt};
use crate::batch::BatchResults;
use crate::cli::GlobalOptions;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::DurationArg;
use crate::table;

/// Manage services: programs that the server keeps running, with health checks and restarts.
#[derive(Debug, Args)]
pub(crate) struct ServiceArgs {
    #[command(subcommand)]
    command: ServiceCommand,
}

#[derive(Debug, Subcommand)]
enum ServiceCommand {
    Start(Box<start::StartArgs>),
    List(show::ListArgs),
    Status(show::StatusArgs),
    Health(HealthArgs),
    Logs(logs::LogsArgs),
    /// End services with everything they started.
    ///
    /// They stay stopped, even after a restart of the server; `service restart` starts them.
    Stop(EndArgs),
    /// Restart services, and print the ids of the new executions.
    ///
    /// The current execution is ended with everything it started. A service that was stopped or has failed is started.
    Restart(EndArgs),
    Delete(DeleteArgs),
}

/// Print the health of services: state, time of the last check, and error.
///
/// The exit code is 0 if all of them can be used, and 1 otherwise.
#[derive(Debug, Args)]
struct HealthArgs {
    /// Ids of the services.
    #[arg(required = true)]
    ids: Vec<String>,
}

#[derive(Debug, Args)]
struct EndArgs {
    /// Ids of the services.
    #[arg(required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    signal: SignalArgs,
}

/// End services with everything they started, and remove them.
///
/// The records of their executions stay until the server's retention limits or `cleanup` remove them.
#[derive(Debug, Args)]
struct DeleteArgs {
    /// Ids of the services.
    #[arg(required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    signal: SignalArgs,
}

#[derive(Debug, Args)]
struct SignalArgs {
    /// Signal to send first, by name or number.
    #[arg(short, long, value_name = "SIGNAL", default_value = "SIGTERM")]
    signal: String,
    /// Grace period before SIGKILL, such as 500ms or 5s.
    #[arg(short, long, value_name = "DURATION", default_value = "5s")]
    grace: DurationArg,
}

impl SignalArgs {
    fn options(self) -> KillOptions {
        KillOptions { signal: Some(self.signal), grace: Some(self.grace.0) }
    }
}

pub(crate) async fn run(args: ServiceArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    match args.command {
        ServiceCommand::Start(args) => start::run(*args, &client, output).await,
        ServiceCommand::List(args) => show::list(&args, &client, output).await,
        ServiceCommand::Status(args) => show::status(&args, &client, output).await,
        ServiceCommand::Health(args) => health(&args.ids, &client, output).await,
        ServiceCommand::Logs(args) => logs::run(&args, &client, output).await,
        ServiceCommand::Stop(args) => end(Ending::Stop, &args.ids, args.signal, &client, output).await,
        ServiceCommand::Restart(args) => restart(args, &client, output).await,
        ServiceCommand::Delete(args) => end(Ending::Delete, &args.ids, args.signal, &client, output).await,
    }
}

async fn health(ids: &[String], client: &Client, output: Output) -> Result<u8, Failure> {
    let mut results = BatchResults::new(output, ids);
    for id in ids {
        let Some(health) = results.check(id, client.service_health(id).await)? else { continue };
        results.note_exit_code(if health.success { 0 } else { exit_code::NOT_HEALTHY });
        if output.json {
            results.document(&health)?;
            continue;
        }
        let error = health.error.map(|error| format!(": {}", table::plain(&error))).unwrap_or_default();
        output.line(format!("{id} {}{error}", health.status.as_str()))?;
    }
    Ok(results.exit_code())
}

#[derive(Debug, Clone, Copy)]
enum Ending {
    Stop,
    Delete,
}

async fn end(
    ending: Ending,
    ids: &[String],
    signal: SignalArgs,
    client: &Client,
    output: Output,
) -> Result<u8, Failure> {
    let options = signal.options();
    let mut results = BatchResults::new(output, ids);
    let mut receipt = Receipt::default();
    for id in ids {
        let ended = match ending {
            Ending::Stop => client.stop_service(id, &options).await,
            Ending::Delete => client.delete_service(id, &options).await,
        };
        let Some(ended) = results.check(id, ended)? else { continue };
        results.note_exit_code(kill::exit_code(&ended.survivors));
        if output.json {
            results.document(&ended)?;
        } else {
            receipt.add(id, &ended.killed, &ended.survivors);
        }
    }
    if !output.json && (results.exit_code() == 0 || !receipt.is_empty()) {
        receipt.print(output)?;
    }
    Ok(results.exit_code())
}

async fn restart(args: EndArgs, client: &Client, output: Output) -> Result<u8, Failure> {
    let options = args.signal.options();
    let mut results = BatchResults::new(output, &args.ids);
    for id in &args.ids {
        let Some(started) = results.check(id, client.restart_service(id, &options).await)? else { continue };
        if output.json {
            results.document(&started)?;
        } else {
            output.line(&started.execution_id)?;
        }
    }
    Ok(results.exit_code())
}
