//! `sandcrab logs`.

mod prefix;

use clap::Args;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use sandcrab_api::event::ProcessEvent;
use sandcrab_api::execute::Encoding;
use sandcrab_api::process::ProcessLogs;
use sandcrab_client::{Client, FollowOptions, LogOptions};
use serde::Serialize;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::relay::{gap_note, write};
use prefix::{Prefix, Stream};

/// Print the output of processes.
///
/// Standard output goes to standard output and standard error to standard error, byte by byte and in the order in which they
/// were written. With several ids, each line begins with the id of its process; with --follow their lines are mixed as they
/// arrive.
///
/// With --json, each event is one line with the cursor after it, for --since; output is text, and bytes that are not UTF-8
/// are replaced. With --tail, the last lines come first: standard output, then standard error; with --json as one document.
///
/// If the server has dropped some of the output, a note says where, and the exit code is 74.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Ids of the processes.
    #[arg(required = true)]
    ids: Vec<String>,
    /// Follow the output until the processes end.
    #[arg(short, long)]
    follow: bool,
    /// Only print output after this cursor. For one id.
    #[arg(long, value_name = "CURSOR", conflicts_with = "tail")]
    since: Option<String>,
    /// Only print the last lines of each stream.
    #[arg(short = 'n', long, value_name = "LINES")]
    tail: Option<u64>,
    /// Only print standard output.
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Only print standard error.
    #[arg(long)]
    stderr: bool,
}

/// An event, its process, and the cursor after it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    process_id: &'a str,
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

    fn selects(&self, event: &ProcessEvent) -> bool {
        match event {
            ProcessEvent::Stdout(_) => self.wants_stdout(),
            ProcessEvent::Stderr(_) => self.wants_stderr(),
            _ => true,
        }
    }
}

pub(crate) async fn run(args: LogsArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    if let [id] = args.ids.as_slice() {
        return Printer { args: &args, client: &client, output, prefix: Prefix::none() }
            .print(id)
            .await
            .map(|()| 0);
    }
    if args.since.is_some() {
        return Err(Failure::usage(
            "--since requires exactly one id",
            "a cursor belongs to one process; run the command once for each",
        ));
    }
    let width = args.ids.iter().map(String::len).max().unwrap_or_default();
    let one = |id| {
        let mut printer = Printer { args: &args, client: &client, output, prefix: Prefix::new(id, width) };
        async move { printer.print(id).await }
    };
    let mut exit_code = 0;
    let mut note = |printed: Result<(), Failure>| match printed {
        Err(Failure::BrokenPipe) => Err(Failure::BrokenPipe),
        Err(failure) => {
            output.failure(&failure);
            exit_code = if exit_code == 0 { failure.exit_code() } else { exit_code };
            Ok(())
        }
        Ok(()) => Ok(()),
    };
    if args.follow {
        let mut all: FuturesUnordered<_> = args.ids.iter().map(|id| one(id.as_str())).collect();
        while let Some(printed) = all.next().await {
            note(printed)?;
        }
    } else {
        for id in &args.ids {
            note(one(id).await)?;
        }
    }
    Ok(exit_code)
}

/// Prints the output of one process.
struct Printer<'a> {
    args: &'a LogsArgs,
    client: &'a Client,
    output: Output,
    prefix: Prefix,
}

impl Printer<'_> {
    async fn print(&mut self, id: &str) -> Result<(), Failure> {
        let mut since = self.args.since.clone();
        let mut tail = Ok(());
        if let Some(lines) = self.args.tail {
            let logs = self.last_lines(id, lines).await?;
            since = Some(logs.cursor.to_string());
            if logs.tail_is_incomplete {
                tail = Err(Failure::incomplete_tail(id));
            }
            if !self.args.follow {
                self.finish().await?;
                return tail;
            }
        }
        let options =
            FollowOptions { encoding: Some(self.encoding()), since, stop_when_caught_up: !self.args.follow };
        let mut events = self.client.follow(id, &options).await?;
        let mut missing = 0;
        while let Some(event) = events.next().await? {
            if !self.args.selects(&event) {
                continue;
            }
            if self.output.json {
                self.output.json_line(&Line { process_id: id, cursor: events.cursor(), event: &event })?;
            }
            if let ProcessEvent::Gap(gap) = &event {
                missing += gap.to.saturating_sub(gap.from);
            }
            match event {
                ProcessEvent::Error(error) => return Err(Failure::Event(error)),
                _ if self.output.json => (),
                ProcessEvent::Stdout(event) => self.bytes(Stream::Stdout, &event.data).await?,
                ProcessEvent::Stderr(event) => self.bytes(Stream::Stderr, &event.data).await?,
                ProcessEvent::Gap(gap) => self.output.note(&gap_note(gap.from, gap.to)),
                ProcessEvent::ProcessInfo(_) | ProcessEvent::Exit(_) | ProcessEvent::CaughtUp(_) => (),
            }
        }
        self.finish().await?;
        if missing > 0 { Err(Failure::dropped(id, missing)) } else { tail }
    }

    fn encoding(&self) -> Encoding {
        if self.output.json { Encoding::Utf8 } else { Encoding::Base64 }
    }

    /// Prints the last lines.
    async fn last_lines(&mut self, id: &str, tail: u64) -> Result<ProcessLogs, Failure> {
        let options = LogOptions { encoding: Some(self.encoding()), tail: Some(tail), since: None };
        let mut logs = self.client.logs(id, &options).await?;
        if !self.args.wants_stdout() {
            logs.stdout.clear();
        }
        if !self.args.wants_stderr() {
            logs.stderr.clear();
        }
        if self.output.json {
            self.output.json_line(&logs)?;
        } else {
            self.bytes(Stream::Stdout, &logs.stdout).await?;
            self.bytes(Stream::Stderr, &logs.stderr).await?;
        }
        Ok(logs)
    }

    async fn bytes(&mut self, stream: Stream, data: &str) -> Result<(), Failure> {
        let bytes = self.prefix.lines(stream, self.client.decode(data)?);
        self.write(stream, bytes).await
    }

    /// Prints what remains of unfinished lines.
    async fn finish(&mut self) -> Result<(), Failure> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let bytes = self.prefix.finish(stream);
            self.write(stream, bytes).await?;
        }
        Ok(())
    }

    async fn write(&self, stream: Stream, bytes: Vec<u8>) -> Result<(), Failure> {
        let output = self.output;
        match stream {
            _ if bytes.is_empty() => Ok(()),
            Stream::Stdout => write(move || output.bytes(&bytes)).await,
            Stream::Stderr => write(move || output.error_bytes(&bytes)).await,
        }
    }
}
