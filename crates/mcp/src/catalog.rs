//! The catalog: every tool with its definition and its function.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use rmcp::model::{CallToolResult, ContentBlock, Tool, ToolAnnotations};
use sandcrab_client::{Client, Sandbox};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::ToolError;
use crate::progress::Progress;
use crate::{arguments, schema, tools};

/// What a tool gets besides its arguments.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) client: Client,
    pub(crate) progress: Progress,
}

impl Call {
    /// For starts: a cancelled call leaves nothing behind whose id the model does not know.
    pub(crate) fn sandbox(&self) -> Sandbox {
        self.client.clone().into()
    }
}

/// The result of a tool.
#[derive(Debug)]
pub(crate) struct ToolResult {
    /// For the model.
    pub(crate) text: String,
    /// For programs.
    pub(crate) fields: Value,
}

impl ToolResult {
    pub(crate) fn new(text: impl Into<String>, fields: Value) -> Self {
        Self { text: text.into(), fields }
    }

    pub(crate) fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.structured_content = Some(self.fields);
        result
    }
}

/// What a tool does to the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It changes nothing.
    Reads,
    /// It creates something.
    Adds,
    /// It changes or ends something.
    Changes,
    /// It runs any program, which may use the network.
    Runs,
}

type Handler =
    Arc<dyn Fn(Call, Map<String, Value>) -> BoxFuture<'static, Result<ToolResult, ToolError>> + Send + Sync>;

/// A tool.
pub(crate) struct Entry {
    pub(crate) tool: Tool,
    handler: Handler,
}

impl Entry {
    /// Calls the tool.
    pub(crate) async fn call(
        &self,
        call: Call,
        arguments: Map<String, Value>,
    ) -> Result<ToolResult, ToolError> {
        (self.handler)(call, arguments).await
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// Defines a tool.
pub(crate) fn entry<A, F, R>(
    name: &'static str,
    title: &'static str,
    effect: Effect,
    description: &'static str,
    function: F,
) -> Entry
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(Call, A) -> R + Copy + Send + Sync + 'static,
    R: Future<Output = Result<ToolResult, ToolError>> + Send + 'static,
{
    let annotations = ToolAnnotations::with_title(title)
        .read_only(effect == Effect::Reads)
        .destructive(matches!(effect, Effect::Changes | Effect::Runs))
        .open_world(effect == Effect::Runs);
    let tool =
        Tool::new(name, description, schema::of::<A>()).with_title(title).with_annotations(annotations);
    let handler: Handler =
        Arc::new(move |call, given| Box::pin(async move { function(call, arguments::parse(given)?).await }));
    Entry { tool, handler }
}

/// All tools, in the order in which they are listed.
pub(crate) fn catalog() -> &'static [Entry] {
    static CATALOG: OnceLock<Vec<Entry>> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let groups = [
            tools::exec::entries(),
            tools::session::entries(),
            tools::process::entries(),
            tools::file::entries(),
            tools::search::entries(),
            tools::terminal::entries(),
            tools::port::entries(),
        ];
        groups.into_iter().flatten().collect()
    })
}

/// The tool with a name.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    catalog().iter().find(|entry| entry.tool.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_complete() {
        let mut names = std::collections::HashSet::new();
        for Entry { tool, .. } in catalog() {
            assert!(names.insert(tool.name.clone()), "{}", tool.name);
            assert!(
                tool.name.len() <= 64
                    && tool.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            );
            assert!(tool.description.as_ref().is_some_and(|text| text.ends_with('.')), "{}", tool.name);
            let text = serde_json::to_string(&tool.input_schema).unwrap();
            for refused in ["$ref", "$schema", "\"null\"", "anyOf", "oneOf", "\"title\""] {
                assert!(!text.contains(refused), "{}: {refused} in {text}", tool.name);
            }
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
            let Value::Object(properties) = &tool.input_schema["properties"] else { panic!("{text}") };
            for (name, property) in properties {
                assert!(property["description"].is_string(), "{}: {name} has no description", tool.name);
                assert!(property["type"].is_string(), "{}: {name} has no type: {property}", tool.name);
            }
        }
    }
}
