//! [`Text`] and [`Flag`]: parts of an answer that may only be known while it is written.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

type Writer = dyn Fn(&mut dyn fmt::Write) -> fmt::Result + Send + Sync;

/// A string on the wire. One that is too long to be held in memory writes itself, piece by piece, when it is
/// serialised.
#[derive(Clone)]
pub struct Text(Repr);

#[derive(Clone)]
enum Repr {
    Held(String),
    Written(Arc<Writer>),
}

impl Text {
    /// A text that writes itself. It must write the same each time, or fail.
    pub fn written(by: impl Fn(&mut dyn fmt::Write) -> fmt::Result + Send + Sync + 'static) -> Self {
        Self(Repr::Written(Arc::new(by)))
    }

    /// The text; empty for one that writes itself, which only a server has.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Held(text) => text,
            Repr::Written(_) => "",
        }
    }
}

impl Default for Text {
    fn default() -> Self {
        String::new().into()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Repr::Held(text))
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Held(text) => f.write_str(text),
            Repr::Written(by) => by(f),
        }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Held(text) => fmt::Debug::fmt(text, f),
            Repr::Written(_) => f.write_str("(written later)"),
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Repr::Held(text) => serializer.serialize_str(text),
            Repr::Written(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// A yes or no that is settled by the time it is serialised. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Flag(Arc<AtomicBool>);

impl Flag {
    /// Says yes.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody has said yes.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn is_down(&self) -> bool {
        !self.is_raised()
    }
}

impl Serialize for Flag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(self.is_raised())
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bool::deserialize(deserializer).map(|raised| Self(Arc::new(raised.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_text_is_escaped_like_a_held_one() {
        let written = Text::written(|to| {
            to.write_str("a\"\n")?;
            to.write_str("\u{1}ü")
        });
        let held = Text::from("a\"\n\u{1}ü".to_owned());
        assert_eq!(serde_json::to_string(&written).unwrap(), serde_json::to_string(&held).unwrap());
    }
}
