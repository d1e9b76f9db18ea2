//! Structs that are only read from JSON objects.
//!
//! The implementation that serde derives for a struct also accepts an array with the fields in order. For a
//! request such as `["echo hi"]` that is a mistake, so it is refused.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A struct that is only read from a JSON object.
#[derive(Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// Like [`Object`], for a field that may be missing or `null`.
pub(crate) fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Object<T>>::deserialize(deserializer)?.map(|Object(value)| value))
}

/// Like [`Object`], for a list of structs.
pub(crate) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Vec::<Object<T>>::deserialize(deserializer)?.into_iter().map(|Object(value)| value).collect())
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::CommandRequest;

    #[test]
    fn array_is_not_a_request() {
        let read = |text| serde_json::from_str::<Object<CommandRequest>>(text).map(|Object(request)| request);
        assert_eq!(read(r#"{"command":"true"}"#).unwrap().command, "true");
        assert!(read(r#"["true"]"#).unwrap_err().to_string().contains("expected an object"));
        assert!(
            read(r#"{"command":"true","limits":[1]}"#)
                .unwrap_err()
                .to_string()
                .contains("expected an object")
        );
        let part = serde_json::from_str::<crate::backup::UploadPartsRequest>(r#"{"parts":[[1,"x",2,3]]}"#);
        assert!(part.unwrap_err().to_string().contains("expected an object"));
        assert!(read(r#"{"command":"true","limits":null}"#).unwrap().limits.is_none());
    }
}
