//! `sandcrab service logs`.

use clap::Args;
use sandcrab_api::execute::Encoding;
use sandcrab_api::service::ServiceEvent;
use sandcrab_client::{Client, FollowOptions, LogOptions};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::relay::{gap_note, write};

/// Print the output of a service: of its current or last execution.
///
/// Standard output goes to standard output and standard error to standard error. With --follow, the output of later executions
/// follows, and a note names each. With --json, each event is one line with the cursor after it, for --since.
#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// Id of the service.
    id: String,
    /// Follow the output across restarts, until the service is stopped or fails.
    #[arg(short, long)]
    follow: bool,
    /// Only print output after this cursor.
    #[arg(long, value_name = "CURSOR")]
    since: Option<String>,
    /// Only print the last lines of each stream.
    #[arg(short = 'n', long, value_name = "LINES", conflicts_with_all = ["follow", "since"])]
    tail: Option<u64>,
}

/// An event, and the cursor after it.
#[derive(Serialize)]
struct Line<'a> {
    cursor: Option<&'a str>,
    event: &'a ServiceEvent,
}

pub(super) async fn run(args: &LogsArgs, client: &Client, output: Output) -> Result<u8, Failure> {
    let encoding = Some(if output.json { Encoding::Utf8 } else { Encoding::Base64 });
    if let Some(lines) = args.tail {
        let options = LogOptions { encoding, tail: Some(lines), since: None };
        let logs = client.service_logs(&args.id, &options).await?;
        if output.json {
            output.document(&logs)?;
        } else {
            let (stdout, stderr) = (client.decode(&logs.stdout)?, client.decode(&logs.stderr)?);
            write(move || output.bytes(&stdout)).await?;
            write(move || output.error_bytes(&stderr)).await?;
        }
        return if logs.tail_is_incomplete { Err(Failure::incomplete_tail(&args.id)) } else { Ok(0) };
    }
    let options = FollowOptions { encoding, since: args.since.clone(), stop_when_caught_up: !args.follow };
    let mut events = client.follow_service(&args.id, &options).await?;
    let mut missing = 0;
    let mut is_first = args.since.is_none();
    while let Some(event) = events.next().await? {
        if output.json {
            output.json_line(&Line { cursor: events.cursor(), event: &event })?;
        }
        if let ServiceEvent::Gap(gap) = &event {
            missing += gap.to.saturating_sub(gap.from);
        }
        match event {
            ServiceEvent::Error(error) => return Err(Failure::Event(error)),
            _ if output.json => {}
            ServiceEvent::Stdout(event) => {
                let bytes = client.decode(&event.data)?;
                write(move || output.bytes(&bytes)).await?;
            }
            ServiceEvent::Stderr(event) => {
                let bytes = client.decode(&event.data)?;
                write(move || output.error_bytes(&bytes)).await?;
            }
            ServiceEvent::Gap(gap) => output.note(&gap_note(gap.from, gap.to)),
            ServiceEvent::Execution(event) => {
                if !is_first {
                    output.note(&format!("execution {}", event.execution_id));
                }
                is_first = false;
            }
            ServiceEvent::Exit(_) | ServiceEvent::End(_) | ServiceEvent::CaughtUp(_) => {}
        }
    }
    if missing > 0 { Err(Failure::dropped(&args.id, missing)) } else { Ok(0) }
}
