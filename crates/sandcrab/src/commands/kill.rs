//! `sandcrab kill`.

use std::collections::HashSet;

use clap::{ArgGroup, Args};
use futures_util::StreamExt;
use sandcrab_api::ErrorCode;
use sandcrab_api::execute::ProcessName;
use sandcrab_api::process::KilledProcess;
use sandcrab_api::signal;
use sandcrab_client::{Client, KillOptions, ProcessFilter};

use super::ps;
use crate::batch::BatchResults;
use crate::cli::GlobalOptions;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::DurationArg;
use crate::table;

/// The most kills at the same time.
const CONCURRENT_KILLS: usize = 32;

/// End processes with everything they started.
///
/// The whole process tree gets the signal and, after the grace period, SIGKILL. Prints the processes that were ended and the
/// signal that ended each. For a process that has ended, the processes that it left running are ended. The exit code is 1 if
/// a process could not be ended.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("targets").required(true).args(["ids", "all"]))]
pub(crate) struct KillArgs {
    /// Ids of the processes.
    ids: Vec<String>,
    /// End everything that `sandcrab ps` lists.
    #[arg(short, long)]
    all: bool,
    /// With --all: only processes of this session.
    #[arg(long, value_name = "ID", requires = "all", conflicts_with = "ids")]
    session: Option<String>,
    /// Signal to send first, by name or number.
    #[arg(short, long, value_name = "SIGNAL", default_value = "SIGTERM")]
    signal: String,
    /// Grace period before SIGKILL, such as 500ms or 5s.
    #[arg(short, long, value_name = "DURATION", default_value = "5s")]
    grace: DurationArg,
}

pub(crate) async fn run(args: KillArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let options = KillOptions { signal: Some(args.signal), grace: Some(args.grace.0) };
    let mut ids = if args.all { running(&client, args.session).await? } else { args.ids };
    let mut seen = HashSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    let mut results = BatchResults::new(output, if args.all { &[] } else { &ids });
    let (client, options) = (&client, &options);
    let kills = ids.iter().map(|id| async move { (id, client.kill(id, options).await) });
    let mut answers = futures_util::stream::iter(kills).buffered(CONCURRENT_KILLS);
    let mut receipt = Receipt::default();
    while let Some((id, killed)) = answers.next().await {
        // Its record was removed after it was listed.
        if args.all && killed.as_ref().is_err_and(|e| e.code() == Some(ErrorCode::ProcessNotFound)) {
            continue;
        }
        let Some(answer) = results.check(id, killed)? else { continue };
        results.note_exit_code(exit_code(&answer.survivors));
        if output.json {
            results.document(&answer)?;
        } else {
            receipt.add(id, &answer.killed, &answer.survivors);
        }
    }
    // Only failures, which have been printed.
    if !output.json && (results.exit_code() == 0 || !receipt.is_empty()) {
        receipt.print(output)?;
    }
    Ok(results.exit_code())
}

/// The ids that `ps` lists.
async fn running(client: &Client, session_id: Option<String>) -> Result<Vec<String>, Failure> {
    let filter = ProcessFilter { all: true, status: None, session_id };
    let list = client.processes(&filter).await?.processes;
    Ok(list.into_iter().filter(ps::is_live).map(|process| process.id).collect())
}

/// The exit code of a command that ends processes.
pub(crate) fn exit_code(survivors: &[ProcessName]) -> u8 {
    if survivors.is_empty() { 0 } else { exit_code::SURVIVORS }
}

/// The processes that were ended, and those that could not be.
#[derive(Debug, Default)]
pub(crate) struct Receipt {
    rows: Vec<[String; 4]>,
}

impl Receipt {
    pub(crate) fn add(&mut self, id: &str, killed: &[KilledProcess], survivors: &[ProcessName]) {
        let row = |pid: u32, signal: String, command: &str| {
            [id.to_owned(), pid.to_string(), signal, table::plain(command)]
        };
        self.rows.extend(killed.iter().map(|one| row(one.pid, signal::name(one.signal), &one.command)));
        self.rows.extend(survivors.iter().map(|one| row(one.pid, "still running".to_owned(), &one.command)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn print(self, output: Output) -> Result<(), Failure> {
        if self.is_empty() {
            return output.line("nothing was running");
        }
        let mut table = table::table(output, &["ID", "PID", "SIGNAL", "COMMAND"]);
        for row in self.rows {
            table.add_row(row);
        }
        table::print(output, &mut table)
    }
}
