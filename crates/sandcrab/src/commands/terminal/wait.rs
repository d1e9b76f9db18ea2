//! `sandcrab terminal wait`.

use clap::{ArgGroup, Args};
use sandcrab_api::ErrorCode;
use sandcrab_api::terminal::TerminalWaitRequest;
use sandcrab_client::Client;

use crate::exit_code;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::DurationArg;

/// Wait until a text is on the screen, or until the screen stops changing.
///
/// With --regex, the text that matches is printed.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("condition").required(true).args(["text", "regex", "idle"]))]
pub(super) struct WaitArgs {
    /// Id of the terminal.
    id: String,
    /// Text that must be on the screen.
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Regular expression that must match on the screen; ^ and $ match at lines.
    #[arg(long, value_name = "REGEX")]
    regex: Option<String>,
    /// Time without a change of the screen, such as 500ms.
    #[arg(long, value_name = "DURATION")]
    idle: Option<DurationArg>,
    /// Maximum time to wait, such as 5s. Then the exit code is 75 [default: no limit].
    #[arg(long, value_name = "DURATION")]
    timeout: Option<DurationArg>,
}

pub(super) async fn run(args: WaitArgs, client: &Client, output: Output) -> Result<u8, Failure> {
    let is_regex = args.regex.is_some();
    let request = TerminalWaitRequest {
        text: args.text,
        regex: args.regex,
        idle_ms: args.idle.map(DurationArg::milliseconds),
        timeout_ms: args.timeout.map(DurationArg::milliseconds),
    };
    let found = client.wait_for_screen(&args.id, &request).await;
    let found = found.map_err(|error| match error.code() {
        // The hint for processes does not apply.
        Some(code @ ErrorCode::WaitTimeout) => Failure::Local {
            code: code.as_str(),
            message: error.to_string(),
            hint: Some(format!("`sandcrab terminal screen {}` shows the screen", args.id)),
            exit_code: exit_code::of_error(code, false),
        },
        _ => Failure::from(error),
    })?;
    if output.json {
        output.document(&found)?;
    } else if let Some(text) = found.text.filter(|_| is_regex) {
        output.line(text)?;
    }
    Ok(0)
}
