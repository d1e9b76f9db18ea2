//! `sandcrab play`.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::DurationArg;
use crate::terminal::{PlayOptions, play};

/// The range of speeds.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1_000_000.0;

/// Play a recording in this terminal.
///
/// Reads asciicasts of version 2 and 3, such as the files of `sandcrab record`. Ctrl-C ends it.
#[derive(Debug, Args)]
pub(crate) struct PlayArgs {
    /// File to play; - for standard input.
    file: PathBuf,
    /// Speed: 2 is twice as fast.
    #[arg(short, long, value_name = "FACTOR", default_value = "1", value_parser = parse_speed)]
    speed: f64,
    /// Shorten pauses to this time, such as 500ms or 2s.
    #[arg(short, long, value_name = "DURATION")]
    idle_limit: Option<DurationArg>,
}

pub(crate) async fn run(args: PlayArgs, output: Output) -> Result<u8, Failure> {
    let options = PlayOptions { speed: args.speed, idle_limit: args.idle_limit.map(|span| span.0) };
    play(args.file, options, output).await
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed| SPEEDS.contains(speed));
    speed.ok_or_else(|| {
        format!("expected a number from {} to {}, such as 2 or 0.5", SPEEDS.start(), SPEEDS.end())
    })
}
