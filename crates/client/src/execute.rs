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
    /// Runs a command and waits for its end. A command that fails is no error: the result has its exit code.
    pub async fn execute(&self, request: &CommandRequest) -> Result<ExecuteResult, ClientError> {
        self.post(&["api", "execute"], request).await
    }

    /// Runs a command and follows it. The command is started once, however often the connection is cut.
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

    /// The bytes of an output event that was asked for in base64.
    pub fn decode(&self, data: &str) -> Result<Vec<u8>, ClientError> {
        BASE64_STANDARD.decode(data).map_err(|e| self.nonsense(format!("output is no base64: {e}")))
    }
}
