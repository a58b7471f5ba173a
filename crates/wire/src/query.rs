//! The payload of `COM_QUERY` (manual: "COM_QUERY"): where its text begins after query attributes.

use crate::codec::{Malformed, Reader};
use crate::value::skip_value;

/// What comes between the command byte and the text if attributes were negotiated and there are none: no parameters,
/// one set of them.
pub const NO_ATTRIBUTES: [u8; 2] = [0, 1];

/// Length of the attributes before a statement's text; `payload` begins after the command byte.
///
/// Anything not written as the manual says is refused, even if a server might accept it: the server may read it
/// differently than we do, and would then run a text other than the one that was checked.
///
/// # Errors
/// If the attributes do not end within `payload`, or do not have the form that the manual gives.
pub fn attributes_length(payload: &[u8]) -> Result<usize, Malformed> {
    let mut reader = Reader::new(payload);
    let count = reader.lenenc_int()?;
    if reader.lenenc_int()? != 1 {
        return Err(Malformed("query attributes of other than one set"));
    }
    if count > 0 {
        let count = usize::try_from(count).map_err(|_| Malformed("too many attributes"))?;
        let nulls = reader.bytes(count.div_ceil(8))?;
        if reader.u8()? != 1 {
            return Err(Malformed("query attributes without types"));
        }
        let mut types = Vec::new();
        for _ in 0..count {
            types.push(reader.u16()?);
            reader.lenenc_bytes()?;
        }
        for (index, kind) in types.into_iter().enumerate() {
            if !is_null(nulls, index) {
                skip_value(&mut reader, kind)?;
            }
        }
    }
    Ok(payload.len() - reader.remaining())
}

/// Whether the parameter at `index` is NULL.
pub(crate) fn is_null(nulls: &[u8], index: usize) -> bool {
    nulls.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_text_behind_no_attributes() {
        assert_eq!(attributes_length(b"\x00\x01SELECT 1"), Ok(2));
    }

    #[test]
    fn finds_the_text_behind_two_attributes() {
        // Two parameters, one set; null map: the second is NULL; types follow: a string named "n", a LONGLONG named "m".
        let payload = b"\x02\x01\x02\x01\xfe\x00\x01n\x08\x00\x01m\x03valSELECT 1";
        let length = attributes_length(payload).unwrap();
        assert_eq!(&payload[length..], b"SELECT 1");
    }

    /// One attribute `n` of a type, and what follows it.
    fn attribute(kind: u16, rest: &[u8]) -> Result<usize, Malformed> {
        let head = [&b"\x01\x01\x00\x01"[..], &kind.to_le_bytes(), b"\x01n", rest].concat();
        attributes_length(&head)
    }

    #[test]
    fn ends_where_a_server_ends_a_value() {
        assert_eq!(attribute(0x0A, b"\x04\xE9\x07\x01\x02SELECT 1"), Ok(13));
        // For MySQL this is a length of three bytes, although no date is that long.
        assert_eq!(attribute(0x0A, b"\xFC\x01\x00aSELECT 1"), Ok(12));
        // The type is YEAR, INT24, NULL, or one with more than eight bits.
        for kind in [0x0D, 0x09, 0x06, 0x0103, 0x4003] {
            assert!(attribute(kind, b"\x10SELECT 1 -- aaaaaaaaaaaa").is_err(), "{kind:#x}");
        }
    }

    #[test]
    fn refuses_what_the_manual_does_not_write() {
        assert_eq!(
            attributes_length(b"\x00\x00SELECT 1"),
            Err(Malformed("query attributes of other than one set"))
        );
        assert!(attributes_length(b"\x00\x02SELECT 1").is_err());
        assert!(attributes_length(b"\x01\x01\x00\x02\x03\x00\x01n\x01\0\0\0SELECT 1").is_err());
        assert!(attributes_length(b"\x01\x01\x00\x00SELECT 1").is_err());
        assert!(attributes_length(b"\xFB\x01SELECT 1").is_err());
    }

    #[test]
    fn refuses_attributes_that_lie() {
        assert!(attributes_length(b"\x05\x01\x00\x01").is_err());
        assert!(attributes_length(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01").is_err());
    }
}
