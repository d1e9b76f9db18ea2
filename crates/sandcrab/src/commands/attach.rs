//! `sandcrab attach`.

use clap::Args;

use crate::cli::GlobalOptions;
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::{LocalScreen, View};
use crate::terminal_args::DetachKeysArg;
use crate::tty::{Finished, lost};

/// Show a terminal that is running, and type into it.
///
/// The screen is repainted as it is. Several viewers may be attached: the size is that of the viewer that typed or changed its
/// size last. When the program ends, the exit code is that of the program. The terminal is not deleted.
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// Id of the terminal.
    id: String,
    /// Only watch: keys and the size of the window are not passed on. Ctrl-C ends the view.
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    detach: DetachKeysArg,
}

pub(crate) async fn run(args: AttachArgs, global: &GlobalOptions, output: Output) -> Result<u8, Failure> {
    let client = global.client()?;
    let mut screen = LocalScreen::open("`sandcrab attach`", output.json)?;
    let view = View {
        client: &client,
        id: &args.id,
        detach_keys: args.detach.detach_keys,
        since: None,
        read_only: args.read_only,
    };
    let outcome = screen.show(view).await.map_err(|failure| lost(&args.id, failure))?;
    Finished { id: args.id, is_own: false, outcome }.report(output)
}
