//! `sandcrab signal`.

use clap::Args;

use crate::batch::BatchResults;
use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;

/// Send a signal to processes.
///
/// Every process of the tree gets the signal. Nothing else happens: use `kill` to end a process.
#[derive(Debug, Args)]
pub(crate) struct SignalArgs {
    /// Signal, by name or number: HUP, SIGUSR1, 10.
    signal: String,
    /// Ids of the processes.
    #[arg(required = true)]
    ids: Vec<String>,
}

pub(crate) async fn run(args: SignalArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let mut results = BatchResults::new(output, &args.ids);
    for id in &args.ids {
        let sent = client.signal(id, &args.signal).await;
        if let Some(done) = results.check(id, sent)?
            && output.json
        {
            results.document(&done)?;
        }
    }
    Ok(results.exit_code())
}
