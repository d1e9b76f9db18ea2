//! Encoding of values for which CBOR has no type, in the protocol and in journals.

/// A `Duration` as whole microseconds.
pub(crate) mod micros {
    use std::time::Duration;

    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};

    pub(crate) fn encode<C, W: Write>(
        value: &Duration,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        e.u64(u64::try_from(value.as_micros()).unwrap_or(u64::MAX))?.ok()
    }

    pub(crate) fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Duration, DecodeError> {
        d.u64().map(Duration::from_micros)
    }
}

/// An `Option<Duration>` as whole microseconds or null.
pub(crate) mod optional_micros {
    use std::time::Duration;

    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decode, Decoder, Encode, Encoder};

    #[expect(clippy::ref_option, reason = "minicbor calls it with a reference to the field")]
    pub(crate) fn encode<C, W: Write>(
        value: &Option<Duration>,
        e: &mut Encoder<W>,
        c: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        value.map(|d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX)).encode(e, c)
    }

    pub(crate) fn decode<'b, C>(d: &mut Decoder<'b>, c: &mut C) -> Result<Option<Duration>, DecodeError> {
        Ok(Option::<u64>::decode(d, c)?.map(Duration::from_micros))
    }

    pub(crate) fn nil() -> Option<Option<Duration>> {
        Some(None)
    }

    #[expect(clippy::ref_option, reason = "minicbor calls it with a reference to the field")]
    pub(crate) fn is_nil(value: &Option<Duration>) -> bool {
        value.is_none()
    }
}

/// Encodes a value, which cannot fail for our types.
pub(crate) fn to_bytes<T: minicbor::Encode<()>>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    // never fails: writing to a Vec cannot, and our types encode unconditionally.
    if minicbor::encode(value, &mut bytes).is_err() {
        bytes.clear();
    }
    bytes
}
