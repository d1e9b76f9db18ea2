//! `sandcrab terminal send`.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;
use sandcrab_api::ErrorCode;
use sandcrab_api::terminal::TerminalInputRequest;
use sandcrab_client::{Client, ClientError};
use serde_json::json;

use crate::failure::Failure;
use crate::output::Output;
use crate::relay::Stdin;

/// The largest piece of standard input.
const PIECE_BYTES: usize = 16 << 10;
/// How long a program may not read before this fails.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Type into a terminal: first the text, then the keys.
///
/// As in `sandcrab terminal send ID 'ls -l' -k enter`. Without text and keys, standard input is sent as it is.
#[derive(Debug, Args)]
pub(super) struct SendArgs {
    /// Id of the terminal.
    id: String,
    /// Text to type. It is not followed by Enter.
    text: Option<String>,
    /// Key to press: enter, tab, escape, backspace, delete, space, up, down, left, right, home, end, pageup, pagedown, f1 to
    /// f12, or a character; with modifiers such as ctrl-c, alt-x or shift-tab. Can be repeated.
    #[arg(short, long = "key", value_name = "KEY")]
    keys: Vec<String>,
}

pub(super) async fn run(args: SendArgs, client: &Client, output: Output) -> Result<u8, Failure> {
    let written = if args.text.is_none() && args.keys.is_empty() {
        if std::io::stdin().is_terminal() {
            return Err(Failure::usage(
                "there is nothing to send: give a text, keys or standard input",
                "`sandcrab attach` passes keys on as they are typed",
            ));
        }
        send_stdin(&args.id, client).await?
    } else {
        let keys = Some(args.keys).filter(|keys| !keys.is_empty());
        client.type_into_terminal(&args.id, &TerminalInputRequest { text: args.text, keys }).await?.written
    };
    if output.json {
        output.document(&json!({ "id": args.id, "written": written }))?;
    }
    Ok(0)
}

/// Sends standard input until its end, as fast as the program reads it.
async fn send_stdin(id: &str, client: &Client) -> Result<u64, Failure> {
    let stdin = Stdin::open();
    let mut total = 0;
    loop {
        let bytes = stdin.read().await?;
        if bytes.is_empty() {
            return Ok(total);
        }
        for piece in bytes.chunks(PIECE_BYTES) {
            total += send_piece(id, client, piece).await?;
        }
    }
}

async fn send_piece(id: &str, client: &Client, mut piece: &[u8]) -> Result<u64, Failure> {
    let mut total = 0;
    let mut deadline = Instant::now() + READ_TIMEOUT;
    loop {
        match client.write_terminal(id, piece.to_vec()).await {
            Ok(answer) => return Ok(total + answer.written),
            Err(ClientError::Api(body))
                if body.code == ErrorCode::TerminalInputFull && Instant::now() < deadline =>
            {
                let written = body.context.get("written").and_then(serde_json::Value::as_u64).unwrap_or(0);
                if written > 0 {
                    total += written;
                    deadline = Instant::now() + READ_TIMEOUT;
                    piece = piece.get(usize::try_from(written).unwrap_or(usize::MAX)..).unwrap_or_default();
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
