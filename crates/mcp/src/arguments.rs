//! Arguments of tools: from JSON to types.

use sandcrab_client::api::JsonProblem;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::ToolError;

/// Reads the arguments of a tool. An error names the argument.
pub(crate) fn parse<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, ToolError> {
    // A model often sends null for an argument that it does not want to give.
    let given = arguments.into_iter().filter(|(_, value)| !value.is_null()).collect();
    serde_path_to_error::deserialize(Value::Object(given)).map_err(|error| {
        let path = error.path().to_string();
        let JsonProblem { field, message } = JsonProblem::new(error.inner(), false);
        let path = Some(path).filter(|path| path != ".");
        let name = path.into_iter().chain(field).collect::<Vec<_>>().join(".");
        ToolError::argument(if name.is_empty() {
            format!("invalid arguments: {message}")
        } else {
            format!("invalid argument `{name}`: {message}")
        })
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        command: String,
        count: Option<u64>,
    }

    fn message(arguments: Value) -> String {
        let Value::Object(arguments) = arguments else { panic!("not an object") };
        parse::<Arguments>(arguments).unwrap_err().message
    }

    #[test]
    fn errors_name_the_argument() {
        assert_eq!(message(json!({})), "invalid argument `command`: required, but not given");
        assert!(
            message(json!({"command": "x", "count": "y"}))
                .starts_with("invalid argument `count`: expected a whole number")
        );
        let unknown = message(json!({"comand": "x"}));
        assert!(unknown.contains("unknown field `comand`, expected `command` or `count`"), "{unknown}");
        let Value::Object(null) = json!({"command": "x", "count": null}) else { panic!("not an object") };
        let parsed: Arguments = parse(null).unwrap();
        assert_eq!((parsed.command.as_str(), parsed.count), ("x", None));
    }
}
