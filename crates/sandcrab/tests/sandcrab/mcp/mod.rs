//! `sandcrab mcp`, `/mcp` of a server, and `sandcrab tools`.

mod calls;
mod cancel;
mod http;
mod stdio;
mod tools;
