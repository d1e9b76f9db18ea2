//! [`wire_enum!`]: string enums whose schema describes each value.

/// Defines an enum that is a string on the wire.
///
/// `pub enum Name = Default { … }` sets a default. `Variant = "word" | "alias"` accepts both spellings. With
/// `else Unknown`, an unknown value is read as `Unknown`. Use this for enums in responses, because a server
/// may be newer than its client.
macro_rules! wire_enum {
    (@other $name:ident, $error:ident, $word:ident, [$($known:literal),+]) => {
        Err($error::unknown_variant($word, &[$($known),+]))
    };
    (@other $name:ident, $error:ident, $word:ident, [$($known:literal),+], $unknown:ident) => {{
        let _: &str = $word;
        Ok($name::$unknown)
    }};
    (
        $(#[doc = $about:literal])+
        pub enum $name:ident $(= $default:ident)? {
            $($(#[doc = $doc:literal])+ $variant:ident = $word:literal $(| $alias:literal)*,)+
            $(else $unknown:ident)?
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $doc])+ $variant,)+
            $(
                /// A value that this version does not know, sent by a newer server.
                $unknown,
            )?
        }

        impl $name {
            /// Returns the value on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                    $(Self::$unknown => "unknown",)?
                }
            }
        }

        $(impl Default for $name {
            fn default() -> Self {
                Self::$default
            }
        })?

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Word;

                impl serde::de::Visitor<'_> for Word {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("one of" $(, " `", $word, "`")+))
                    }

                    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<$name, E> {
                        match word {
                            $($word $(| $alias)* => Ok($name::$variant),)+
                            other => wire_enum!(@other $name, E, other, [$($word),+] $(, $unknown)?),
                        }
                    }
                }

                deserializer.deserialize_str(Word)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                let values = [$(($word, concat!($($doc),+))),+];
                crate::wire_enum::schema(concat!($($about),+), &values)
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}

pub(crate) use wire_enum;

/// Returns the schema of a string enum, with the meaning of each value in the description.
pub(crate) fn schema(
    about: &str,
    values: &[(&str, &str)],
) -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    let lines = values.iter().map(|(word, meaning)| format!("\n- `{word}`: {}", meaning.trim()));
    let description = std::iter::once(format!("{}\n", about.trim())).chain(lines).collect::<String>();
    utoipa::openapi::ObjectBuilder::new()
        .schema_type(utoipa::openapi::Type::String)
        .enum_values(Some(values.iter().map(|(word, _)| *word)))
        .description(Some(description))
        .into()
}
