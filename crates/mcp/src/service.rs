//! [`Service`]: the tools and resources behind the protocol.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use sandcrab_client::Client;
use tokio::sync::Semaphore;

use crate::catalog::{self, Call, catalog};
use crate::failure::ToolError;
use crate::limits::MAX_CALLS;
use crate::progress::Progress;
use crate::resources;

/// What the model is told about the server.
const INSTRUCTIONS: &str = "\
Tools of a Sandcrab sandbox. `exec` runs a command and returns its output; without `sessionId` each command starts in the \
workspace, in a fresh shell. Create a session with `session_create` to keep the working directory, variables and functions \
between commands. Start servers and other long work with `process_start`, and read their output with `process_output`. Use \
a terminal (`terminal_open`, `terminal_send`, `terminal_screen`) for interactive programs. Long output is cut; the result \
then names the tool and the cursor that continue it.";

/// The handler of clients: all state is in the server. Clones share the limit of calls.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    client: Client,
    calls: Arc<Semaphore>,
}

impl Service {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, calls: Arc::new(Semaphore::new(MAX_CALLS)) }
    }
}

impl ServerHandler for Service {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let implementation =
            Implementation::new("sandcrab", env!("CARGO_PKG_VERSION")).with_title("Sandcrab");
        ServerConfig::new(capabilities).with_server_info(implementation).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(catalog().iter().map(|entry| entry.tool.clone()).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        catalog::find(name).map(|entry| entry.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(entry) = catalog::find(&request.name) else {
            return Err(ErrorData::invalid_params(
                format!("unknown tool {:?}; tools/list lists them", request.name),
                None,
            ));
        };
        let Ok(_permit) = self.calls.try_acquire() else {
            let message = format!("{MAX_CALLS} calls are running");
            let error =
                ToolError::new("LIMIT_EXCEEDED", message, "wait until some have ended, or cancel some");
            return Ok(error.into_result().into());
        };
        let token = context.meta.get_progress_token();
        let progress = Progress::new(token.map(|token| (context.peer.clone(), token)));
        let call = Call { client: self.client.clone(), progress };
        let called = entry.call(call, request.arguments.unwrap_or_default());
        tokio::select! {
            biased;
            // Dropping the call closes its connection, and the server ends the command. There is no response.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
            result = called => Ok(result.map_or_else(|error| error.into_result(), |answer| answer.into_result()).into()),
        }
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::list(&self.client).await?))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        tokio::select! {
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the request was cancelled", None)),
            result = resources::read(&self.client, &request.uri) => result,
        }
    }
}
