//! Running commands.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use sandcrab_api::IDEMPOTENCY_HEADER;
use sandcrab_api::event::ExecuteEvent;
use sandcrab_api::execute::{CommandRequest, ExecuteResult};

use crate::key::new_key;
use crate::{Client, ClientError, Events};

impl Client {
    /// Runs a command and waits for its end. A command that fails is not an error: the result has its exit code.
    pub async fn execute(&self, request: &CommandRequest) -> Result<ExecuteResult, ClientError> {
        self.post(&["api", "execute"], request).await
    }

    /// The same, and repeats the request after a lost connection. The command is started once.
    pub async fn execute_once(&self, request: &CommandRequest) -> Result<ExecuteResult, ClientError> {
        self.start_once(&["api", "execute"], request).await
    }

    /// Runs a command and streams its output. The command is started once, however often the connection is lost.
    pub async fn execute_stream(
        &self,
        request: &CommandRequest,
    ) -> Result<Events<ExecuteEvent>, ClientError> {
        let request = self
            .request(Method::POST, &["api", "execute", "stream"])?
            .header(IDEMPOTENCY_HEADER, new_key())
            .json(request);
        Events::open(self.clone(), request, None).await
    }

    /// Decodes the data of an output event with [`sandcrab_api::execute::Encoding::Base64`].
    pub fn decode(&self, data: &str) -> Result<Vec<u8>, ClientError> {
        BASE64_STANDARD
            .decode(data)
            .map_err(|e| self.invalid_response(format!("invalid base64 in the output: {e}")))
    }
}
