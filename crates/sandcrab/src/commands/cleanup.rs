//! `sandcrab cleanup`.

use clap::Args;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;

/// Remove the records of finished processes and ended terminals, and print how many.
///
/// Their output is removed with them. Records that a client is reading, and records of `run` and `exec`, are left to the
/// server's retention limits.
#[derive(Debug, Args)]
pub(crate) struct CleanupArgs {}

pub(crate) async fn run(global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let cleaned = global.client()?.clean_up().await?;
    if output.json {
        output.document(&cleaned)?;
    } else {
        output.line(cleaned.cleaned_count.to_string())?;
    }
    Ok(0)
}
