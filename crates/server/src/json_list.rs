//! [`JsonList`]: a response with a long list, which is serialized as its items are found.

use serde::Serialize;
use serde_json::Value;

/// A JSON object that begins with a list.
pub(crate) struct JsonList {
    field: &'static str,
    json: Vec<u8>,
    /// Where the list begins.
    start: usize,
}

impl JsonList {
    pub(crate) fn new(field: &'static str) -> Self {
        let json = format!("{{\"{field}\":[").into_bytes();
        Self { field, start: json.len(), json }
    }

    /// Adds an item. Returns the size of all items.
    pub(crate) fn push(&mut self, item: &impl Serialize) -> usize {
        if self.json.len() > self.start {
            self.json.push(b',');
        }
        // Never fails: the types of the API have string keys only, and writing to a Vec cannot fail.
        drop(serde_json::to_writer(&mut self.json, item));
        self.json.len() - self.start
    }

    /// Adds the other fields of the response, whose own list is empty.
    pub(crate) fn finish(mut self, response: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
        self.json.push(b']');
        if let Value::Object(mut others) = serde_json::to_value(response)? {
            others.remove(self.field);
            for (name, value) in others {
                self.json.push(b',');
                serde_json::to_writer(&mut self.json, &name)?;
                self.json.push(b':');
                serde_json::to_writer(&mut self.json, &value)?;
            }
        }
        self.json.push(b'}');
        Ok(self.json)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_and_other_fields_are_one_object() {
        let response = json!({"items": [], "count": 2, "path": "\"items\":[]"});
        let mut list = JsonList::new("items");
        assert_eq!(list.push(&1), 1);
        assert_eq!(list.push(&"x"), 5);
        let json: Value = serde_json::from_slice(&list.finish(&response).unwrap()).unwrap();
        assert_eq!(json, json!({"items": [1, "x"], "count": 2, "path": "\"items\":[]"}));
        let empty = JsonList::new("items").finish(&response).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&empty).unwrap(), response);
        assert_eq!(JsonList::new("items").finish(&json!({"items": []})).unwrap(), b"{\"items\":[]}");
    }
}
