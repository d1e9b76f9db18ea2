//! [`Terminal`]: a pseudo-terminal with its screen.

use std::time::Duration;

use bytes::Bytes;
use sandcrab_api::ErrorCode;
use sandcrab_api::terminal::{
    ScreenResponse, Terminal as TerminalInfo, TerminalDeleted, TerminalInputRequest, TerminalRequest,
    TerminalWaitRequest, TerminalWaitResponse,
};

use super::command::whole_milliseconds;
use super::ending::{Ending, Started};
use super::scope::{Scope, bound, known};
use crate::key::new_id;
use crate::{AttachOptions, Attachment, Client, ClientError, Recording, ScreenOptions};

impl Scope {
    /// Creates a terminal, or returns the one that has the id of the request. A text is its command. Without one it runs an
    /// interactive bash: `terminal(TerminalRequest::default())`. If this future is dropped before it has returned, the terminal
    /// is deleted, unless the request has an id.
    pub async fn terminal(&self, request: impl Into<TerminalRequest>) -> Result<Terminal, ClientError> {
        let mut request = bound!(self, request => TerminalRequest);
        let chosen = request.id.is_none().then(|| new_id("t"));
        request.id = request.id.or_else(|| chosen.clone());
        let ending = Ending::new(self.client(), chosen.map(Started::Terminal));
        let created = ending.answered(self.client().create_terminal(&request).await)?;
        Ok(Terminal { client: self.client().clone(), id: created.id, is_new: created.created })
    }

    /// A terminal; `None` if it is unknown.
    pub async fn find_terminal(&self, id: &str) -> Result<Option<Terminal>, ClientError> {
        let found = known(self.client().terminal(id).await, ErrorCode::TerminalNotFound)?;
        Ok(found.map(|info| Terminal { client: self.client().clone(), id: info.id, is_new: false }))
    }

    /// The terminals, the oldest first.
    pub async fn list_terminals(&self) -> Result<Vec<TerminalInfo>, ClientError> {
        Ok(self.client().terminals().await?.terminals)
    }
}

/// A pseudo-terminal with its screen. The object is an id: dropping it ends nothing, [`Terminal::destroy`] does.
///
/// ```no_run
/// # use sandcrab_client::{ClientError, Sandbox};
/// # use sandcrab_client::api::terminal::TerminalInputRequest;
/// # async fn example(sandbox: Sandbox) -> Result<(), ClientError> {
/// let terminal = sandbox.terminal("vi notes.txt").await?;
/// terminal.send("ihello").await?;
/// let keys = Some(vec!["escape".to_owned(), "Z".to_owned(), "Z".to_owned()]);
/// terminal.send(TerminalInputRequest { text: None, keys }).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Terminal {
    client: Client,
    id: String,
    is_new: bool,
}

impl Terminal {
    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the terminal was created by the call that returned this object. If not, it existed before.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The present state.
    pub async fn info(&self) -> Result<TerminalInfo, ClientError> {
        self.client.terminal(&self.id).await
    }

    /// Attaches a viewer over a WebSocket. It reconnects, and continues with what it missed.
    pub async fn connect(&self, options: &AttachOptions) -> Result<Attachment, ClientError> {
        self.client.attach(&self.id, options).await
    }

    /// Types a text, or a text and then keys. Returns the number of bytes when the terminal has accepted them.
    pub async fn send(&self, input: impl Into<TerminalInputRequest>) -> Result<u64, ClientError> {
        Ok(self.client.type_into_terminal(&self.id, &input.into()).await?.written)
    }

    /// Writes raw bytes. If the program does not read, the error is [`ErrorCode::TerminalInputFull`].
    pub async fn write(&self, bytes: impl Into<Bytes>) -> Result<u64, ClientError> {
        Ok(self.client.write_terminal(&self.id, bytes).await?.written)
    }

    /// Changes the size.
    pub async fn resize(&self, cols: u16, rows: u16) -> Result<(), ClientError> {
        self.client.resize_terminal(&self.id, cols, rows).await.map(drop)
    }

    /// The screen as text, with cursor, size and title.
    pub async fn screen(&self) -> Result<ScreenResponse, ClientError> {
        self.screen_with(&ScreenOptions::default()).await
    }

    /// The same with colours and attributes, or with lines of the scrollback.
    pub async fn screen_with(&self, options: &ScreenOptions) -> Result<ScreenResponse, ClientError> {
        self.client.screen(&self.id, options).await
    }

    /// Waits until the screen has a text. After `limit` the error is [`ErrorCode::WaitTimeout`].
    pub async fn wait_for_text(
        &self,
        text: &str,
        limit: Option<Duration>,
    ) -> Result<TerminalWaitResponse, ClientError> {
        self.wait_for(text.into(), limit).await
    }

    /// Waits until a line of the screen matches a regular expression, in the syntax of the crate `regex`.
    pub async fn wait_for_regex(
        &self,
        regex: &str,
        limit: Option<Duration>,
    ) -> Result<TerminalWaitResponse, ClientError> {
        let request = TerminalWaitRequest { regex: Some(regex.to_owned()), ..TerminalWaitRequest::default() };
        self.wait_for(request, limit).await
    }

    /// Waits until nothing has changed for a time.
    pub async fn wait_for_idle(&self, idle: Duration, limit: Option<Duration>) -> Result<(), ClientError> {
        let idle_ms = Some(whole_milliseconds(idle));
        let request = TerminalWaitRequest { idle_ms, ..TerminalWaitRequest::default() };
        self.wait_for(request, limit).await.map(drop)
    }

    async fn wait_for(
        &self,
        mut request: TerminalWaitRequest,
        limit: Option<Duration>,
    ) -> Result<TerminalWaitResponse, ClientError> {
        request.timeout_ms = limit.map(whole_milliseconds);
        self.client.wait_for_screen(&self.id, &request).await
    }

    /// The output with its times, as an asciicast of version 2.
    pub async fn recording(&self) -> Result<Recording, ClientError> {
        self.client.terminal_recording(&self.id).await
    }

    /// Ends the program and everything it started. A terminal whose program has ended is removed.
    pub async fn destroy(&self) -> Result<TerminalDeleted, ClientError> {
        self.client.delete_terminal(&self.id).await
    }
}
