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

/// A single range of `total` bytes. `None` if the header must be ignored, as HTTP requires for undefined units.
pub(crate) fn parse(value: &HeaderValue, total: u64) -> Option<Result<Range<u64>, ApiError>> {
    let (from, to) = value.to_str().ok()?.trim().strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| (!text.is_empty()).then(|| text.parse::<u64>().ok());
    let range = match (number(from), number(to)) {
        (Some(from), None) => from?..total,
        (Some(from), Some(to)) if to? >= from? => from?..to?.saturating_add(1).min(total),
        (None, Some(last)) => total.saturating_sub(last?)..total,
        _ => return None,
    };
    Some(if range.is_empty() { Err(not_satisfiable(total)) } else { Ok(range) })
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
        for passed_over in ["bytes=9-0", "bytes=", "bytes=-", "bytes=a-b", "lines=0-9", "bytes=0-1,5-6", "x"]
        {
            assert_eq!(parse(passed_over), None, "{passed_over}");
        }
    }
}
