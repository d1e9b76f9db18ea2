//! [`Progress`]: a bar on standard error while something is copied.

use std::io::{self, IsTerminal as _};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::Output;

/// Shows how much is copied, if standard error is a terminal and the output is not JSON. A handle.
#[derive(Debug, Clone)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Begins a copy of this size, if it is known.
    pub(crate) fn new(output: Output, name: &str, size: Option<u64>) -> Self {
        let is_shown = io::stderr().is_terminal() && !output.json;
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(size, target);
        let template = match size {
            Some(_) => "{msg} {bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec}",
            None => "{msg} {spinner} {bytes} {binary_bytes_per_sec}",
        };
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.set_message(crate::table::plain(name));
        Self(bar)
    }

    /// Counts bytes.
    pub(crate) fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }

    /// Counts the bytes of a stream.
    pub(crate) fn of<S>(&self, stream: S) -> impl Stream<Item = io::Result<Bytes>> + Send + use<S>
    where
        S: Stream<Item = io::Result<Bytes>> + Send,
    {
        let progress = self.clone();
        stream.inspect(move |piece| progress.advance(piece.as_ref().map_or(0, |bytes| bytes.len() as u64)))
    }
}
