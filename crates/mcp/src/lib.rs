//! The tools of a Sandcrab server for language models, over the Model Context Protocol (MCP).
//!
//! # Usage
//!
//! [`serve_stdio`] serves one client over standard input and output. [`router`] is the same as an HTTP application.
//! [`definitions`] returns the tools as JSON Schema, for frameworks that call tools themselves.
//!
//! # Theory of operation
//!
//! A tool is an entry of `catalog`: a name, a description, a schema that is generated from the type of its arguments, and
//! a function. The functions, one file of `tools` for each resource, call the API through `sandcrab-client` and return an
//! `ToolResult`: text for the model, and the same as fields. `Service` connects them with the protocol. `Output` cuts output to
//! a size that a model can use. `docs/design/mcp.md` describes ownership, cancellation and bounds.
//!
//! # Limits
//!
//! See `limits`.

mod arguments;
mod calls;
mod catalog;
mod cut;
mod definitions;
mod failure;
mod http;
mod limits;
mod output;
mod progress;
mod resources;
mod schema;
mod service;
mod stdio;
mod streams;
mod tools;

pub use definitions::{ToolFormat, definitions};
pub use http::router;
pub use limits::{
    DEFAULT_OUTPUT_BYTES, MAX_CALLS, MAX_MCP_SESSIONS, MAX_MESSAGE_BYTES, MAX_OUTPUT_BYTES,
    MAX_RESOURCE_BYTES,
};
pub use stdio::{StdioError, serve_stdio};
