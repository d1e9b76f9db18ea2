//! Records of POSIX extension headers: `LENGTH NAME=VALUE\n`.

use super::entry::Time;
use super::error::ArchiveError;

/// Prefix of records with an extended attribute.
pub(super) const XATTR: &[u8] = b"SCHILY.xattr.";

/// Name and value.
pub(super) type Record<'a> = (&'a [u8], &'a [u8]);

/// Appends a record. Its length counts its own digits.
pub(super) fn append(records: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let rest = name.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + digits(length) {
        length = rest + digits(length);
    }
    records.extend_from_slice(length.to_string().as_bytes());
    records.push(b' ');
    records.extend_from_slice(name);
    records.push(b'=');
    records.extend_from_slice(value);
    records.push(b'\n');
}

fn digits(number: usize) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// The records of an extension header. Values may contain any byte, so records are found by their lengths.
pub(super) fn parse(mut bytes: &[u8]) -> Result<Vec<Record<'_>>, ArchiveError> {
    let invalid = || ArchiveError::Invalid("an extension header is malformed".into());
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().take(20).position(|byte| *byte == b' ').ok_or_else(invalid)?;
        let length: usize = number(&bytes[..space]).ok_or_else(invalid)?;
        let record = bytes.get(..length).and_then(|record| record.get(space + 1..)).ok_or_else(invalid)?;
        let record = record.strip_suffix(b"\n").ok_or_else(invalid)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(invalid)?;
        records.push((&record[..equals], &record[equals + 1..]));
        bytes = &bytes[length..];
    }
    Ok(records)
}

/// A decimal number without a sign.
pub(super) fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A time in seconds, as a decimal fraction.
pub(super) fn format_time(time: Time) -> String {
    let Time { seconds, nanoseconds } = time;
    if seconds < 0 && nanoseconds > 0 {
        // -2 s and 500,000,000 ns are -1.5 s.
        return format!("-{}.{:09}", (seconds + 1).unsigned_abs(), 1_000_000_000 - nanoseconds);
    }
    format!("{seconds}.{nanoseconds:09}")
}

/// See [`format_time`].
pub(super) fn parse_time(text: &[u8]) -> Option<Time> {
    let (is_negative, text) = text.strip_prefix(b"-").map_or((false, text), |text| (true, text));
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let seconds: i64 = number(parts.next()?)?;
    let fraction = parts.next().unwrap_or(b"0");
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |index| fraction.get(index).map_or(0, |digit| u32::from(digit - b'0'));
    let nanoseconds = (0..9).fold(0, |sum, index| sum * 10 + digit(index));
    Some(match (is_negative, nanoseconds) {
        (false, nanoseconds) => Time { seconds, nanoseconds },
        (true, 0) => Time { seconds: -seconds, nanoseconds },
        (true, nanoseconds) => Time { seconds: -seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_their_digits() {
        for length in [0, 1, 80, 85, 86, 87, 88, 89, 90, 980, 985, 990, 995, 1000, 70_000] {
            let value = vec![b'\n'; length];
            let mut records = Vec::new();
            append(&mut records, b"name", &value);
            append(&mut records, b"SCHILY.xattr.user.a", b"=1\n2 x=");
            let parsed = parse(&records).unwrap();
            assert_eq!(parsed[0], (b"name".as_slice(), value.as_slice()));
            assert_eq!(parsed[1].1, b"=1\n2 x=");
        }
        for malformed in
            ["x", "5", "5 a\n", "9 a=b\n", "6 a=b\n\n", "4 a=b\n", "99999999999999999999 a=b\n", "+6 a=b\n"]
        {
            assert!(parse(malformed.as_bytes()).is_err(), "{malformed:?}");
        }
    }

    #[test]
    fn times() {
        for (seconds, nanoseconds, text) in [
            (0, 0, "0.000000000"),
            (1, 5, "1.000000005"),
            (-1, 0, "-1.000000000"),
            (-2, 500_000_000, "-1.500000000"),
            (-1, 999_999_999, "-0.000000001"),
            (1 << 40, 1, "1099511627776.000000001"),
        ] {
            let time = Time { seconds, nanoseconds };
            assert_eq!(format_time(time), text);
            assert_eq!(parse_time(text.as_bytes()), Some(time));
        }
        assert_eq!(parse_time(b"3"), Some(Time { seconds: 3, nanoseconds: 0 }));
        assert_eq!(parse_time(b"3.1234567899"), Some(Time { seconds: 3, nanoseconds: 123_456_789 }));
        for invalid in ["", "-", "x", "1.x", "--1", "1e5"] {
            assert_eq!(parse_time(invalid.as_bytes()), None, "{invalid}");
        }
    }
}
