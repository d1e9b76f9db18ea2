//! The routes of terminals.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use sandcrab_api::terminal::{
    ResizeRequest, ResizeResponse, ScreenFormat, ScreenResponse, Terminal, TerminalCreated, TerminalDeleted,
    TerminalInputRequest, TerminalInputResponse, TerminalList, TerminalRequest, TerminalResponse,
    TerminalWaitRequest, TerminalWaitResponse,
};

use crate::connections::ResponseGuard;
use crate::key::new_id;
use crate::process::{checked, word};
use crate::{Client, ClientError};

/// Names of routes, which are not ids.
const RESERVED: [&str; 2] = ["list", "create"];

/// Which part of a screen to return, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScreenOptions {
    /// Text only, or cells with colours and attributes.
    pub format: Option<ScreenFormat>,
    /// Lines of the scrollback before the screen.
    pub scrollback: Option<u32>,
}

/// A recording, as it is received.
#[derive(Debug)]
pub struct Recording {
    client: Client,
    response: ResponseGuard,
}

impl Recording {
    /// The next bytes; `None` after the last.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ClientError> {
        self.response.chunk().await.map_err(|e| self.client.failed(&e))
    }
}

pub(super) fn checked_terminal(id: &str) -> Result<&str, ClientError> {
    if RESERVED.contains(&id) { Err(ClientError::Id(id.to_owned())) } else { Ok(id) }
}

impl Client {
    /// Creates a terminal; returns when its program runs. If a terminal with the id of the request is running, returns that
    /// one. The request is not repeated: the id of a terminal that has ended starts another one, so its command could run
    /// twice.
    pub async fn create_terminal(&self, request: &TerminalRequest) -> Result<TerminalCreated, ClientError> {
        let id = request.id.clone().unwrap_or_else(|| new_id("t"));
        let request = TerminalRequest { id: Some(id), ..request.clone() };
        self.post(&["api", "terminal", "create"], &request).await
    }

    /// Lists terminals, the oldest first.
    pub async fn terminals(&self) -> Result<TerminalList, ClientError> {
        self.get(&["api", "terminal", "list"]).await
    }

    /// One terminal.
    pub async fn terminal(&self, id: &str) -> Result<Terminal, ClientError> {
        let answer: TerminalResponse = self.get(&["api", "terminal", checked_terminal(id)?]).await?;
        Ok(answer.terminal)
    }

    /// Deletes a terminal with everything that it started.
    pub async fn delete_terminal(&self, id: &str) -> Result<TerminalDeleted, ClientError> {
        self.call_urgent(self.request(Method::DELETE, &["api", "terminal", checked_terminal(id)?])?).await
    }

    /// Changes the size of a terminal.
    pub async fn resize_terminal(
        &self,
        id: &str,
        cols: u16,
        rows: u16,
    ) -> Result<ResizeResponse, ClientError> {
        let body = ResizeRequest { cols, rows };
        self.post(&["api", "terminal", checked_terminal(id)?, "resize"], &body).await
    }

    /// Types text and then keys, given by name.
    pub async fn type_into_terminal(
        &self,
        id: &str,
        input: &TerminalInputRequest,
    ) -> Result<TerminalInputResponse, ClientError> {
        self.post_urgent(&["api", "terminal", checked_terminal(id)?, "input"], input).await
    }

    /// Writes raw bytes. If the program does not read, the error is
    /// [`sandcrab_api::ErrorCode::TerminalInputFull`], and its context has the number of accepted bytes (`written`).
    pub async fn write_terminal(
        &self,
        id: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<TerminalInputResponse, ClientError> {
        let request = self.request(Method::POST, &["api", "terminal", checked_terminal(id)?, "input"])?;
        let request = request.header(reqwest::header::CONTENT_TYPE, "application/octet-stream");
        self.call_urgent(request.body(bytes.into())).await
    }

    /// The present screen of a terminal.
    pub async fn screen(&self, id: &str, options: &ScreenOptions) -> Result<ScreenResponse, ClientError> {
        let query = [
            ("format", options.format.and_then(word)),
            ("scrollback", options.scrollback.map(|lines| lines.to_string())),
        ];
        self.call_read(self.query(
            Method::GET,
            &["api", "terminal", checked_terminal(id)?, "screen"],
            &query,
        )?)
        .await
    }

    /// Waits for something on the screen, also across a restart of the server. After the timeout the error is
    /// [`sandcrab_api::ErrorCode::WaitTimeout`].
    pub async fn wait_for_screen(
        &self,
        id: &str,
        request: &TerminalWaitRequest,
    ) -> Result<TerminalWaitResponse, ClientError> {
        let timeout = request.timeout_ms.map(Duration::from_millis);
        self.wait_until("the screen", timeout, |left| {
            let timeout_ms = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
            let request = TerminalWaitRequest { timeout_ms, ..request.clone() };
            let path = ["api", "terminal", checked_terminal(id)?, "wait"];
            Ok(self.request(Method::POST, &path)?.json(&request))
        })
        .await
    }

    /// The recording of a terminal as asciicast, version 2: what its journal still has.
    pub async fn terminal_recording(&self, id: &str) -> Result<Recording, ClientError> {
        self.recording(&["api", "terminal", checked_terminal(id)?, "recording"]).await
    }

    /// The recording of a process as asciicast, version 2: what its journal still has.
    pub async fn process_recording(&self, id: &str) -> Result<Recording, ClientError> {
        self.recording(&["api", "process", checked(id)?, "recording"]).await
    }

    async fn recording(&self, path: &[&str]) -> Result<Recording, ClientError> {
        let response = self.send(self.request(Method::GET, path)?).await?;
        Ok(Recording { client: self.clone(), response })
    }
}
