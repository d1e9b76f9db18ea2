//! `sandcrab logs`.

use clap::Args;
use sandcrab_api::event::ProcessEvent;
use sandcrab_api::execute::Encoding;
use sandcrab_client::{Client, FollowOptions, LogOptions};
use serde::Serialize;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::relay::{gap_note, write};

/// Show what a process has written.
///
/// Its standard output goes to standard output, its standard error to standard error, byte by byte and in the order in which
/// they were written. With --json every event is a line of its own with the cursor after it, which --since takes; output is
/// text there, and what is not UTF-8 is replaced. The last lines (--tail) come first and all together: standard output, then
/// standard error; with --json as one document.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The process, or any execution.
    id: String,
    /// Go on until it ends.
    #[arg(short, long)]
    follow: bool,
    /// Only what comes after this cursor.
    #[arg(long, value_name = "CURSOR", conflicts_with = "tail")]
    since: Option<String>,
    /// Only the last lines of each stream.
    #[arg(short = 'n', long, value_name = "LINES")]
    tail: Option<u64>,
    /// Only its standard output.
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Only its standard error.
    #[arg(long)]
    stderr: bool,
}

/// An event and where it leaves off.
#[derive(Serialize)]
struct Line<'a> {
    cursor: Option<&'a str>,
    event: &'a ProcessEvent,
}

impl LogsArgs {
    fn wants_stdout(&self) -> bool {
        !self.stderr
    }

    fn wants_stderr(&self) -> bool {
        !self.stdout
    }

    fn wants(&self, event: &ProcessEvent) -> bool {
        match event {
            ProcessEvent::Stdout(_) => self.wants_stdout(),
            ProcessEvent::Stderr(_) => self.wants_stderr(),
            _ => true,
        }
    }
}

pub(crate) async fn run(args: LogsArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let mut since = args.since.clone();
    if let Some(tail) = args.tail {
        since = Some(last_lines(&args, tail, &client, output).await?);
        if !args.follow {
            return Ok(0);
        }
    }
    let encoding = if output.json { Encoding::Utf8 } else { Encoding::Base64 };
    let stop_when_caught_up = !args.follow;
    let options = FollowOptions { encoding: Some(encoding), since, stop_when_caught_up };
    let mut events = client.follow(&args.id, &options).await?;
    while let Some(event) = events.next().await? {
        if !args.wants(&event) {
            continue;
        }
        if output.json {
            output.json_line(&Line { cursor: events.cursor(), event: &event })?;
        }
        match event {
            ProcessEvent::Error(error) => return Err(Failure::Event(error)),
            _ if output.json => (),
            ProcessEvent::Stdout(event) => {
                let bytes = client.decode(&event.data)?;
                write(move || output.bytes(&bytes)).await?;
            }
            ProcessEvent::Stderr(event) => {
                let bytes = client.decode(&event.data)?;
                write(move || output.error_bytes(&bytes)).await?;
            }
            ProcessEvent::Gap(gap) => output.note(&gap_note(gap.from, gap.to)),
            ProcessEvent::ProcessInfo(_) | ProcessEvent::Exit(_) | ProcessEvent::CaughtUp(_) => (),
        }
    }
    Ok(0)
}

/// Shows the last lines; returns the cursor after them.
async fn last_lines(args: &LogsArgs, tail: u64, client: &Client, output: Output) -> Result<String, Failure> {
    let encoding = if output.json { Encoding::Utf8 } else { Encoding::Base64 };
    let options = LogOptions { encoding: Some(encoding), tail: Some(tail), since: None };
    let mut logs = client.logs(&args.id, &options).await?;
    if !args.wants_stdout() {
        logs.stdout.clear();
    }
    if !args.wants_stderr() {
        logs.stderr.clear();
    }
    if output.json {
        output.json_line(&logs)?;
    } else {
        let (stdout, stderr) = (client.decode(&logs.stdout)?, client.decode(&logs.stderr)?);
        write(move || output.bytes(&stdout)).await?;
        write(move || output.error_bytes(&stderr)).await?;
    }
    Ok(logs.cursor.to_string())
}
