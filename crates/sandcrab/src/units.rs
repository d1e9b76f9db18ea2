//! Durations, as people write and read them.

use std::time::Duration;

/// Reads `500ms`, `5s`, `1.5m`, `2h`, `1d`; a number alone is refused, since nobody knows of what.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration; write a number and ms, s, m, h or d, such as 5s");
    let at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(at);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let is_plain = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number: f64 = if is_plain { number.parse().map_err(|_| wrong())? } else { return Err(wrong()) };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| format!("{text} is too long"))
}

/// Milliseconds, as the wire has them; those that do not fit are as good as forever.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A duration in two digits or so: `12ms`, `3.4s`, `5m`, `2h`, `9d`.
pub(crate) fn show_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        let read = |text| parse_duration(text).unwrap();
        assert_eq!(read("500ms"), Duration::from_millis(500));
        assert_eq!(read("5s"), Duration::from_secs(5));
        assert_eq!(read("1.5m"), Duration::from_secs(90));
        assert_eq!(read("2h"), Duration::from_secs(7_200));
        assert_eq!(read("0s"), Duration::ZERO);
        for wrong in [
            "",
            "5",
            "s",
            "-1s",
            "5 s",
            "5sec",
            "1e3s",
            "inf",
            "nans",
            ".s",
            "1.2.3s",
            "99999999999999999999d",
        ] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_shown() {
        let show = |ms| show_duration(Duration::from_millis(ms));
        assert_eq!([show(0), show(999), show(1_500), show(60_000)], ["0ms", "999ms", "1.5s", "60s"]);
        assert_eq!([show(300_000), show(7_200_000), show(864_000_000)], ["5m", "2h", "10d"]);
    }
}
