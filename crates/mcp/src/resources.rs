//! Resources: the output of executions, and files.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use sandcrab_client::api::event::ProcessEvent;
use sandcrab_client::api::execute::Encoding;
use sandcrab_client::api::process::StreamName;
use sandcrab_client::{Client, ClientError, FollowOptions, ProcessFilter};
use serde_json::json;

use crate::cut;
use crate::failure::ToolError;
use crate::limits::{MAX_LISTED, MAX_RESOURCE_BYTES};
use crate::output::Output;
use crate::tools::exec::completed;

const OUTPUT_PREFIX: &str = "sandcrab://output/";
/// An absolute path follows.
const FILE_PREFIX: &str = "sandcrab://file";

/// The output of the newest executions.
pub(crate) async fn list(client: &Client) -> Result<Vec<Resource>, ErrorData> {
    let filter = ProcessFilter { all: true, ..ProcessFilter::default() };
    let processes = client.processes(&filter).await.map_err(failed)?.processes;
    let newest = processes.iter().rev().take(MAX_LISTED);
    let resource = newest.map(|process| {
        let command = cut::start(process.command.lines().next().unwrap_or_default(), 100);
        Resource::new(format!("{OUTPUT_PREFIX}{}", process.id), process.id.clone())
            .with_title(format!("Output of {command}"))
            .with_mime_type("text/plain")
    });
    Ok(resource.collect())
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{OUTPUT_PREFIX}{{id}}"), "output")
            .with_title("Output of an execution")
            .with_description(
                "Both streams in the order in which they were written; a long one without its middle.",
            )
            .with_mime_type("text/plain"),
        ResourceTemplate::new(format!("{FILE_PREFIX}{{+path}}"), "file")
            .with_title("A file of the sandbox")
            .with_description(
                "The absolute path begins with a slash. At most 1 MiB; file_read reads longer files.",
            ),
    ]
}

pub(crate) async fn read(client: &Client, uri: &str) -> Result<ReadResourceResponse, ErrorData> {
    let contents = if let Some(id) = uri.strip_prefix(OUTPUT_PREFIX) {
        let text = output(client, &decoded(id)?).await?;
        ResourceContents::text(text, uri)
    } else if let Some(path) = uri.strip_prefix(FILE_PREFIX).filter(|path| path.starts_with('/')) {
        file(client, &decoded(path)?, uri).await?
    } else {
        let message = format!("unknown resource {uri:?}; resources/templates/list lists the forms");
        return Err(ErrorData::resource_not_found(message, None));
    };
    Ok(ReadResourceResult::new(vec![contents]).into())
}

async fn output(client: &Client, id: &str) -> Result<String, ErrorData> {
    let options = FollowOptions { encoding: Some(Encoding::Base64), since: None, stop_when_caught_up: true };
    let mut events = client.follow(id, &options).await.map_err(failed)?;
    let mut output = Output::both_ends(MAX_RESOURCE_BYTES);
    while let Some(event) = events.next().await.map_err(failed)? {
        let (stream, event) = match event {
            ProcessEvent::Stdout(event) => (StreamName::Stdout, event),
            ProcessEvent::Stderr(event) => (StreamName::Stderr, event),
            ProcessEvent::Gap(gap) => {
                output.skip_to(gap.to);
                continue;
            }
            ProcessEvent::Error(error) => return Err(refused(ToolError::from(error))),
            _ => continue,
        };
        output.push(stream, &client.decode(&event.data).map_err(failed)?);
    }
    Ok(completed(&output.render(true), id))
}

async fn file(client: &Client, path: &str, uri: &str) -> Result<ResourceContents, ErrorData> {
    let mut file = client.get_file(path, None).await.map_err(failed)?;
    let mut bytes = Vec::new();
    while let Some(chunk) = file.chunk().await.map_err(failed)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_RESOURCE_BYTES {
            let message = format!("{path} has more than {MAX_RESOURCE_BYTES} bytes");
            return Err(refused(ToolError::new(
                "FILE_TOO_LARGE",
                message,
                "read it in parts with the tool file_read",
            )));
        }
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, uri),
        Err(binary) => ResourceContents::blob(BASE64_STANDARD.encode(binary.as_bytes()), uri)
            .with_mime_type("application/octet-stream"),
    })
}

fn failed(error: ClientError) -> ErrorData {
    let is_missing = error.code().is_some_and(|code| code.status() == 404);
    let error = ToolError::from(error);
    if is_missing {
        return ErrorData::resource_not_found(error.message, Some(json!({ "code": error.code })));
    }
    refused(error)
}

fn refused(error: ToolError) -> ErrorData {
    let ToolError { code, message, hint, .. } = error;
    ErrorData::internal_error(message, Some(json!({ "code": code, "hint": hint })))
}

/// Decodes `%20` and the like.
fn decoded(text: &str) -> Result<String, ErrorData> {
    let invalid = || ErrorData::invalid_params(format!("invalid escape in {text:?}"), None);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| str::from_utf8(digits).ok()).ok_or_else(invalid)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| invalid())?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(decoded("/a%20b%c3%A9é").unwrap(), "/a béé");
        for wrong in ["%", "%2", "%zz", "%ff"] {
            assert!(decoded(wrong).is_err(), "{wrong}");
        }
    }
}
