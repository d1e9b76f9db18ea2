//! `sandcrab terminal`: one file per command that does more than one request.

mod list;
mod screen;
mod send;
mod wait;

use clap::{Args, Subcommand};
use sandcrab_api::terminal::TerminalRequest;
use sandcrab_client::Client;
use serde_json::json;

use super::kill::{self, Receipt};
use crate::batch::BatchResults;
use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::TerminalSize;
use crate::terminal_args::{NewTerminalArgs, ProgramWords};

/// Manage terminals: programs with a screen. Scripts can read the screen, wait for text on it, and type.
#[derive(Debug, Args)]
pub(crate) struct TerminalArgs {
    #[command(subcommand)]
    command: TerminalCommand,
}

#[derive(Debug, Subcommand)]
enum TerminalCommand {
    Create(Box<CreateArgs>),
    List(list::ListArgs),
    Send(send::SendArgs),
    Screen(screen::ScreenArgs),
    Wait(wait::WaitArgs),
    Resize(ResizeArgs),
    Delete(DeleteArgs),
}

/// Create a terminal and print its id.
///
/// The terminal runs until its program ends or it is deleted. If a terminal with the given id is running, nothing is created.
#[derive(Debug, Args)]
struct CreateArgs {
    /// Size of the terminal, as COLUMNSxROWS.
    #[arg(long, value_name = "SIZE", default_value = "80x24")]
    size: TerminalSize,
    #[command(flatten)]
    terminal: NewTerminalArgs,
    #[command(flatten)]
    words: ProgramWords,
}

/// Change the size of a terminal.
#[derive(Debug, Args)]
struct ResizeArgs {
    /// Id of the terminal.
    id: String,
    /// New size, as COLUMNSxROWS.
    size: TerminalSize,
}

/// Delete terminals with everything that they started, and print the processes that were ended.
///
/// The record and the last screen stay, as of a terminal that has ended, until a second delete, `sandcrab cleanup` or the
/// server's retention limits remove them, or the id is used again.
#[derive(Debug, Args)]
struct DeleteArgs {
    /// Ids of the terminals.
    #[arg(required = true)]
    ids: Vec<String>,
}

pub(crate) async fn run(args: TerminalArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    match args.command {
        TerminalCommand::Create(args) => create(*args, &client, output).await,
        TerminalCommand::List(args) => list::run(&args, &client, output).await,
        TerminalCommand::Send(args) => send::run(args, &client, output).await,
        TerminalCommand::Screen(args) => screen::run(args, &client, output).await,
        TerminalCommand::Wait(args) => wait::run(args, &client, output).await,
        TerminalCommand::Resize(args) => {
            let resized = client.resize_terminal(&args.id, args.size.cols, args.size.rows).await?;
            if output.json {
                output.document(&json!({ "id": args.id, "cols": resized.cols, "rows": resized.rows }))?;
            }
            Ok(0)
        }
        TerminalCommand::Delete(args) => delete(&args.ids, &client, output).await,
    }
}

async fn create(args: CreateArgs, client: &Client, output: Output) -> Result<u8, Failure> {
    let TerminalSize { cols, rows } = args.size;
    let request = args.terminal.request(args.words, client)?;
    let request = TerminalRequest { cols: Some(cols), rows: Some(rows), ..request };
    let created = client.create_terminal(&request).await?;
    if output.json {
        output.document(&created)?;
        return Ok(0);
    }
    output.line(&created.id)?;
    if !created.created {
        output.note(&format!("terminal {} is already running; nothing was created", created.id));
    }
    Ok(0)
}

async fn delete(ids: &[String], client: &Client, output: Output) -> Result<u8, Failure> {
    let mut results = BatchResults::new(output, ids);
    let mut receipt = Receipt::default();
    for id in ids {
        let Some(deleted) = results.check(id, client.delete_terminal(id).await)? else { continue };
        results.note_exit_code(kill::exit_code(&deleted.survivors));
        if output.json {
            results.document(&deleted)?;
        } else {
            receipt.add(id, &deleted.killed, &deleted.survivors);
        }
    }
    if !output.json && (results.exit_code() == 0 || !receipt.is_empty()) {
        receipt.print(output)?;
    }
    Ok(results.exit_code())
}
