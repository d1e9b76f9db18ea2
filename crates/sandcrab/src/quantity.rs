//! [`DurationArg`] and [`ByteSize`]: parsed durations and sizes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// A duration: `500ms`, `10s`, `15m`, `24h`, `7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DurationArg(pub(crate) Duration);

/// A number of bytes: `1048576`, `512KiB`, `64MiB`, `4GiB`, or in powers of ten `1MB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

impl DurationArg {
    /// Milliseconds, as the wire has them; saturating.
    pub(crate) fn milliseconds(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Splits a number from its unit, and gives their product.
fn product(text: &str, factor: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    number.parse::<u64>().ok()?.checked_mul(factor(unit.trim_start())?)
}

impl FromStr for DurationArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let factor = |unit: &str| {
            Some(match unit {
                "ms" => 1,
                "s" => 1_000,
                "m" | "min" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return None,
            })
        };
        let millis = if text == "0" { Some(0) } else { product(text, factor) };
        let refused =
            || format!("{text:?} is not a duration; use a whole number with ms, s, m, h or d, as in 15m");
        millis.map(|millis| Self(Duration::from_millis(millis))).ok_or_else(refused)
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let factor = |unit: &str| {
            Some(match unit {
                "" | "B" => 1,
                "KiB" | "K" | "k" => 1 << 10,
                "MiB" | "M" | "m" => 1 << 20,
                "GiB" | "G" | "g" => 1 << 30,
                "TiB" | "T" => 1 << 40,
                "kB" | "KB" => 1_000,
                "MB" => 1_000_000,
                "GB" => 1_000_000_000,
                "TB" => 1_000_000_000_000,
                _ => return None,
            })
        };
        let refused = || {
            format!(
                "{text:?} is not a size; use a whole number of bytes, or with KiB, MiB or GiB, as in 64MiB"
            )
        };
        product(text, factor).map(Self).ok_or_else(refused)
    }
}

/// Reads a value of the configuration file: text, or for a size also a plain number.
struct ValueVisitor<T>(fn(&str) -> Result<T, String>);

impl<T> Visitor<'_> for ValueVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number with its unit, in quotes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        self.0(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.0(&number.to_string()).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for DurationArg {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor(str::parse))
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor(str::parse))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let millis = |text: &str| text.parse::<DurationArg>().map(|span| span.0.as_millis());
        for (text, expected) in [
            ("0", 0),
            ("0s", 0),
            ("500ms", 500),
            ("10s", 10_000),
            ("15m", 900_000),
            ("15 min", 900_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(millis(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "15",
            "m",
            "-1s",
            "1.5h",
            "1h30m",
            "99999999999999999999s",
            "18446744073709551615d",
            "5 parsecs",
        ] {
            let refused = millis(text).unwrap_err();
            assert!(refused.contains("as in 15m"), "{refused}");
        }
    }

    #[test]
    fn sizes() {
        let bytes = |text: &str| text.parse::<ByteSize>().map(|size| size.0);
        for (text, expected) in [
            ("0", 0),
            ("17", 17),
            ("1KiB", 1024),
            ("64MiB", 64 << 20),
            ("4 GiB", 4 << 30),
            ("2G", 2 << 30),
            ("512m", 512 << 20),
            ("1MB", 1_000_000),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5GiB", "1mib", "99999999999TiB", "0x10"] {
            assert!(bytes(text).unwrap_err().contains("as in 64MiB"), "{text}");
        }
    }
}
