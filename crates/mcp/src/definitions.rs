//! The tools as JSON Schema, for frameworks that call tools themselves.

use serde_json::{Value, json};

use crate::catalog::catalog;

/// The shape of tool definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolFormat {
    /// Functions of OpenAI's chat completions: `{"type": "function", "function": {"name", "description", "parameters"}}`.
    OpenAi,
    /// Tools of Anthropic's messages: `{"name", "description", "input_schema"}`.
    Anthropic,
    /// Tools of the Model Context Protocol: `{"name", "title", "description", "inputSchema", "annotations"}`.
    Json,
}

/// The definitions of all tools, as an array.
pub fn definitions(format: ToolFormat) -> Value {
    let tools = catalog().iter().map(|entry| &entry.tool);
    let shaped = tools.map(|tool| {
        let (name, description, schema) = (&tool.name, &tool.description, &tool.input_schema);
        match format {
            ToolFormat::OpenAi => json!({
                "type": "function",
                "function": { "name": name, "description": description, "parameters": schema },
            }),
            ToolFormat::Anthropic => {
                json!({ "name": name, "description": description, "input_schema": schema })
            }
            ToolFormat::Json => json!(tool),
        }
    });
    Value::Array(shaped.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_every_tool() {
        for (format, name, schema) in [
            (ToolFormat::OpenAi, "/function/name", "/function/parameters"),
            (ToolFormat::Anthropic, "/name", "/input_schema"),
            (ToolFormat::Json, "/name", "/inputSchema"),
        ] {
            let Value::Array(tools) = definitions(format) else { panic!("not an array") };
            assert_eq!(tools.len(), catalog().len());
            for (tool, entry) in tools.iter().zip(catalog()) {
                assert_eq!(tool.pointer(name), Some(&json!(entry.tool.name)));
                assert_eq!(tool.pointer(schema), Some(&json!(entry.tool.input_schema)));
            }
        }
    }
}
