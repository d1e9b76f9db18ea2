//! Previews: a reverse proxy from a host name to a port of this machine (`docs/design/workspace.md`).
//!
//! - [`settings`]: the name of the sandbox and the host of preview addresses.
//! - [`label`]: `{port}-{name}-{token}`, the first label of a host name.
//! - [`exposures`]: which ports are exposed, and their file ([`store`]).
//! - [`proxy`]: a request to a preview, with [`headers`], [`upstream`], [`body`], [`tunnel`] and [`page`].

mod body;
mod exposures;
mod headers;
mod label;
mod own_listener;
mod page;
mod proxy;
mod settings;
mod store;
mod tunnel;
mod upstream;

pub(crate) use exposures::{Exposed, Previews, adopt};
pub(crate) use label::is_valid_token;
pub(crate) use proxy::{answer, refuse_loop};
pub use settings::{PreviewScheme, PreviewSettings, PreviewSettingsError};

pub(crate) use page::refuse;
