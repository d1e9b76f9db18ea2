//! `sandcrab mcp`.

use clap::Args;

use crate::cli::GlobalOptions;
use crate::failure::Failure;

/// Offer the server to a language model, as tools of the Model Context Protocol.
///
/// An MCP client, such as an editor or an agent, starts this command and talks to it over standard input and output. The
/// same tools are at the path /mcp of the server. A command that the model runs with the tool `exec` is ended when the client
/// cancels the call or this program exits; processes, sessions and terminals stay.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct McpArgs {}

const EXAMPLE: &str = r#"Configuration of an MCP client:
  {"mcpServers": {"sandcrab": {"command": "sandcrab", "args": ["mcp"]}}}"#;

pub(crate) async fn run(global: &GlobalOptions) -> Result<u8, Failure> {
    // One connection for each call: a call that waits must not keep others waiting.
    let client = global.connection().client_with(sandcrab_mcp::MAX_CALLS)?;
    sandcrab_mcp::serve_stdio(client).await.map_err(Failure::mcp)?;
    Ok(0)
}
