//! [`Measure`], an amount with its unit, and [`FigureLimit`], its limit.

use std::fmt;
use std::time::Duration;

/// An amount with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// A time.
    Time(Duration),
    /// A throughput in bytes.
    BytesPerSecond(f64),
    /// A throughput in operations.
    PerSecond(f64),
    /// A size.
    Bytes(f64),
    /// A plain number.
    Count(f64),
}

impl Measure {
    /// Returns the amount without its unit: seconds, bytes, or a number.
    pub fn amount(self) -> f64 {
        match self {
            Self::Time(time) => time.as_secs_f64(),
            Self::BytesPerSecond(amount)
            | Self::PerSecond(amount)
            | Self::Bytes(amount)
            | Self::Count(amount) => amount,
        }
    }
}

/// Formats an amount with three digits, in the largest unit for which it is at least one.
fn scaled(f: &mut fmt::Formatter<'_>, amount: f64, units: &[(f64, &str)]) -> fmt::Result {
    let smallest = units.last().copied().unwrap_or((1.0, ""));
    let (size, unit) = units.iter().copied().find(|unit| amount >= unit.0).unwrap_or(smallest);
    let value = amount / size;
    let digits = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    write!(f, "{value:.digits$} {unit}")
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Time(time) => scaled(f, time.as_secs_f64(), &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")]),
            Self::BytesPerSecond(rate) => scaled(f, rate, &[(1e9, "GB/s"), (1e6, "MB/s")]),
            Self::PerSecond(rate) => write!(f, "{rate:.0} /s"),
            Self::Bytes(size) => scaled(f, size, &[(1e9, "GB"), (1e6, "MB"), (1e3, "KB")]),
            Self::Count(count) => write!(f, "{count}"),
        }
    }
}

/// The limit of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FigureLimit {
    /// At most this.
    AtMost(Measure),
    /// At least this.
    AtLeast(Measure),
    /// At most this multiple of its floor.
    AtMostTimesFloor(f64),
    /// At least this multiple of its floor.
    AtLeastTimesFloor(f64),
}

impl FigureLimit {
    /// Returns whether a figure meets the limit, given its value and its ratio to its floor. Without a floor, a
    /// limit in floors is not met.
    pub fn holds(self, value: Measure, ratio: Option<f64>) -> bool {
        match self {
            Self::AtMost(limit) => value.amount() <= limit.amount(),
            Self::AtLeast(limit) => value.amount() >= limit.amount(),
            Self::AtMostTimesFloor(limit) => ratio.is_some_and(|ratio| ratio <= limit),
            Self::AtLeastTimesFloor(limit) => ratio.is_some_and(|ratio| ratio >= limit),
        }
    }
}

impl fmt::Display for FigureLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "≤ {limit}"),
            Self::AtLeast(limit) => write!(f, "≥ {limit}"),
            Self::AtMostTimesFloor(limit) => write!(f, "≤ {limit} × floor"),
            Self::AtLeastTimesFloor(limit) => write!(f, "≥ {limit} × floor"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits_and_a_fitting_unit() {
        let shown = |measure: Measure| measure.to_string();
        assert_eq!(shown(Measure::Time(Duration::from_nanos(71_240))), "71.2 µs");
        assert_eq!(shown(Measure::Time(Duration::from_nanos(120))), "0.12 µs");
        assert_eq!(shown(Measure::Time(Duration::from_micros(1_400))), "1.40 ms");
        assert_eq!(shown(Measure::BytesPerSecond(2.5e9)), "2.50 GB/s");
        assert_eq!(shown(Measure::Bytes(320e3)), "320 KB");
        assert_eq!(shown(Measure::PerSecond(8_000.4)), "8000 /s");
        assert_eq!(shown(Measure::Count(300.0)), "300");
    }

    #[test]
    fn bars_hold_against_values_and_floors() {
        let value = Measure::Time(Duration::from_micros(100));
        assert!(FigureLimit::AtMost(Measure::Time(Duration::from_micros(100))).holds(value, None));
        assert!(!FigureLimit::AtLeast(Measure::Time(Duration::from_millis(1))).holds(value, None));
        assert!(FigureLimit::AtMostTimesFloor(2.0).holds(value, Some(1.9)));
        assert!(!FigureLimit::AtLeastTimesFloor(0.5).holds(value, Some(0.4)));
        assert!(!FigureLimit::AtMostTimesFloor(2.0).holds(value, None));
    }
}
