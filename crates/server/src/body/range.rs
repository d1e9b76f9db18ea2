//! The `Range` header.

use std::ops::Range;

use axum::http::HeaderValue;
use sandcrab_api::ErrorCode;

use crate::error::ApiError;

/// No byte of the range exists.
pub(crate) fn not_satisfiable(total: u64) -> ApiError {
    let message = format!("the range is outside of the {total} available bytes");
    ApiError::new(ErrorCode::RangeNotSatisfiable, message).with("size", total)
}

/// The `Content-Range` of an answer with these bytes, which are not empty.
pub(crate) fn content_range(given: &Range<u64>, total: u64) -> Result<HeaderValue, ApiError> {
    let text = format!("bytes {}-{}/{total}", given.start, given.end - 1);
    HeaderValue::from_str(&text).map_err(ApiError::internal)
}

/// A single range of `total` bytes. `None` if the header must be ignored: another unit, several ranges, invalid ones.
pub(crate) fn parse(value: &HeaderValue, total: u64) -> Option<Result<Range<u64>, ApiError>> {
    let (unit, ranges) = value.to_str().ok()?.trim().split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    // A list may have empty elements.
    let mut ranges = ranges.split(',').map(str::trim).filter(|range| !range.is_empty());
    let (from, to) = ranges.next()?.split_once('-')?;
    if ranges.next().is_some() {
        return None;
    }
    let range = match (number(from)?, number(to)?) {
        (Some(from), None) => from..total,
        (Some(from), Some(to)) if to >= from => from..to.saturating_add(1).min(total),
        (None, Some(last)) => total.saturating_sub(last)..total,
        _ => return None,
    };
    Some(if range.is_empty() { Err(not_satisfiable(total)) } else { Ok(range) })
}

/// A position in a range; `Some(None)` if it is left out. One that is too large for a number is beyond every content.
fn number(text: &str) -> Option<Option<u64>> {
    if text.is_empty() {
        return Some(None);
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Some(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every range is inside the content, and has the bytes that its header names.
        #[test]
        fn ranges_name_bytes(total in 0..20_u64, from in prop::option::of(0..25_u64), to in prop::option::of(0..25_u64)) {
            let text = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
            let header = HeaderValue::from_str(&format!("bytes={}-{}", text(from), text(to))).unwrap();
            let named: Option<Vec<u64>> = match (from, to) {
                (None, None) => None,
                (Some(from), Some(to)) if to < from => None,
                (None, Some(last)) => Some((0..total).filter(|at| at + last >= total).collect()),
                (Some(from), to) => Some((from..total).filter(|at| to.is_none_or(|to| *at <= to)).collect()),
            };
            let parsed = parse(&header, total).map(|range| range.map(Iterator::collect::<Vec<_>>));
            match (parsed, named) {
                (None, None) => {}
                (Some(Ok(parsed)), Some(named)) => prop_assert_eq!(parsed, named),
                (Some(Err(e)), Some(named)) => prop_assert!(named.is_empty() && e.code() == ErrorCode::RangeNotSatisfiable),
                (parsed, named) => prop_assert!(false, "{:?} {:?}", parsed.is_some(), named),
            }
        }

        #[test]
        fn any_text_is_a_range_inside_the_content_or_none(text in "(bytes=)?[ -~]{0,30}", total: u64) {
            if let Some(Ok(range)) = parse(&HeaderValue::from_str(&text).unwrap(), total) {
                prop_assert!(range.start < range.end && range.end <= total);
            }
        }
    }

    #[test]
    fn ranges() {
        let parse = |text: &'static str| {
            parse(&HeaderValue::from_static(text), 100).map(|range| range.map_err(|e| e.code()))
        };
        assert_eq!(parse("bytes=0-9"), Some(Ok(0..10)));
        assert_eq!(parse("bytes=90-"), Some(Ok(90..100)));
        assert_eq!(parse("bytes=90-1000"), Some(Ok(90..100)));
        assert_eq!(parse("bytes=-10"), Some(Ok(90..100)));
        assert_eq!(parse("bytes=-1000"), Some(Ok(0..100)));
        assert_eq!(parse("bytes=100-"), Some(Err(ErrorCode::RangeNotSatisfiable)));
        assert_eq!(parse("bytes=-0"), Some(Err(ErrorCode::RangeNotSatisfiable)));
        // Numbers that are too large, and a list with empty elements.
        assert_eq!(parse("bytes=90-99999999999999999999999"), Some(Ok(90..100)));
        assert_eq!(parse("bytes=90-18446744073709551615"), Some(Ok(90..100)));
        assert_eq!(parse("bytes=-99999999999999999999999"), Some(Ok(0..100)));
        assert_eq!(parse("bytes=99999999999999999999999-"), Some(Err(ErrorCode::RangeNotSatisfiable)));
        assert_eq!(parse("BYTES=0-9"), Some(Ok(0..10)));
        assert_eq!(parse("bytes=, 0-9 ,"), Some(Ok(0..10)));
        for passed_over in [
            "bytes=9-0",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=+0-9",
            "bytes=0-+9",
            "bytes=--9",
            "bytes 0-9",
            "lines=0-9",
            "bytes=0-1,5-6",
            "x",
        ] {
            assert_eq!(parse(passed_over), None, "{passed_over}");
        }
    }
}
