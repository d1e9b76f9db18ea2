//! [`ToolError`]: why a tool failed, for the model.

use std::fmt::Write;

use rmcp::model::{CallToolResult, ContentBlock};
use sandcrab_client::ClientError;
use sandcrab_client::api::event::ErrorEvent;
use sandcrab_client::api::{ErrorCode, without_error_number};
use serde_json::{Value, json};

/// Why a tool failed: a code, a message, and what to do.
#[derive(Debug)]
pub(crate) struct ToolError {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Output or a screen that helps to understand the error.
    pub(crate) details: Option<String>,
}

impl ToolError {
    pub(crate) fn new(code: &str, message: impl Into<String>, hint: &str) -> Self {
        let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
        Self { code: code.to_owned(), message: message.into(), hint, details: None }
    }

    /// An argument that the tool cannot use.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(
            ErrorCode::ValidationFailed.as_str(),
            message,
            "correct the arguments and call the tool again",
        )
    }

    pub(crate) fn with_details(self, details: String) -> Self {
        Self { details: Some(details).filter(|details| !details.is_empty()), ..self }
    }

    /// The result of the call.
    pub(crate) fn into_result(self) -> CallToolResult {
        let Self { code, message, hint, details } = self;
        let mut text = format!("{code}: {message}");
        if let Some(hint) = &hint {
            let _ = write!(text, "\nWhat to do: {hint}");
        }
        if let Some(details) = &details {
            let _ = write!(text, "\n\n{details}");
        }
        let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
        let mut error = json!({ "code": code, "message": message });
        let mut put = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                error[name] = Value::String(value);
            }
        };
        put("hint", hint);
        put("details", details);
        result.structured_content = Some(json!({ "error": error }));
        result
    }
}

impl From<ClientError> for ToolError {
    fn from(error: ClientError) -> Self {
        let code = match &error {
            ClientError::Api(body) => body.code.as_str(),
            ClientError::Unreachable { .. } => "UNREACHABLE",
            ClientError::ConnectionLost { .. } => "CONNECTION_LOST",
            ClientError::InvalidResponse { .. } => "INVALID_RESPONSE",
            _ => ErrorCode::ValidationFailed.as_str(),
        };
        let hint = error.code().and_then(hint_of).map(str::to_owned).or_else(|| error.hint_without_routes());
        let message = without_error_number(error.to_string());
        Self { code: code.to_owned(), message, hint, details: None }
    }
}

impl From<ErrorEvent> for ToolError {
    fn from(event: ErrorEvent) -> Self {
        let hint = hint_of(event.code).map(str::to_owned);
        let (code, message) = (event.code.as_str().to_owned(), without_error_number(event.error));
        Self { code, message, hint, details: None }
    }
}

/// What a model can do about an error of the API.
fn hint_of(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::SessionNotFound => {
            "create a session with session_create; session_list lists those that exist"
        }
        ErrorCode::ProcessNotFound => "process_list with all=true lists every execution",
        ErrorCode::TerminalNotFound => "open a terminal with terminal_open",
        ErrorCode::SessionAlreadyExists => "use the existing session, or choose another id",
        ErrorCode::SessionTerminated => {
            "the command has ended the shell of the session; the next command gets a restored shell"
        }
        ErrorCode::StdinNotOpen => "start the process with keepStdinOpen=true",
        ErrorCode::TerminalInputFull => {
            "the program does not read its input; look at terminal_screen, and try again later"
        }
        ErrorCode::WaitTimeout => {
            "the condition was not met in time; wait again, or look at the present state"
        }
        ErrorCode::PortAlreadyExposed => "port_list shows its address; port_unexpose ends the exposure",
        ErrorCode::PortNotExposed => "port_list shows which ports are exposed",
        ErrorCode::IsDirectory => "list a directory with file_list; delete one with recursive=true",
        ErrorCode::Unauthorized => {
            "the user must give `sandcrab mcp` the token of the server with --token-file or SANDCRAB_TOKEN"
        }
        _ => return None,
    })
}
