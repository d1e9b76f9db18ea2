//! `sandcrab stdin`.

use clap::Args;
use serde_json::json;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::relay::Stdin;

/// Write to the standard input of a process.
///
/// Everything on standard input is passed on, as in `echo hello | sandcrab stdin ID`; on a terminal line by line, until
/// Ctrl-D. The process must have been started with `start -i`, and its standard input stays open without --close.
#[derive(Debug, Args)]
pub(crate) struct StdinArgs {
    /// Id of the process.
    id: String,
    /// Close the standard input of the process afterwards.
    #[arg(long)]
    close: bool,
}

pub(crate) async fn run(args: StdinArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let stdin = Stdin::open();
    let mut written = 0;
    loop {
        let bytes = stdin.read().await?;
        let is_end = bytes.is_empty();
        // Also without bytes: a process whose standard input is closed is an error.
        written += client.write_stdin(&args.id, bytes, is_end && args.close).await?.written;
        if is_end {
            break;
        }
    }
    if output.json {
        output.document(&json!({ "processId": args.id, "written": written, "closed": args.close }))?;
    }
    Ok(0)
}
