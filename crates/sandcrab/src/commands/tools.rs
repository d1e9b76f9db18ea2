//! `sandcrab tools`.

use clap::{Args, ValueEnum};
use sandcrab_mcp::{ToolFormat, definitions};

use crate::failure::Failure;
use crate::output::Output;

/// Print the tools for language models as JSON Schema.
///
/// For programs that call a model themselves. They are the tools of `sandcrab mcp`, which runs them.
#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Shape of the definitions.
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Functions of OpenAI's chat completions.
    Openai,
    /// Tools of Anthropic's messages.
    Anthropic,
    /// Tools of the Model Context Protocol.
    Json,
}

pub(crate) fn run(args: &ToolsArgs, output: Output) -> Result<u8, Failure> {
    let format = match args.format {
        Format::Openai => ToolFormat::OpenAi,
        Format::Anthropic => ToolFormat::Anthropic,
        Format::Json => ToolFormat::Json,
    };
    output.document(&definitions(format))?;
    Ok(0)
}
