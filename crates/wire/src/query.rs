//! The payload of `COM_QUERY` (manual: "COM_QUERY"): where its text begins behind query attributes.

use crate::codec::{Malformed, Reader};

/// What stands between the command byte and the text when attributes were negotiated and there are none:
/// no parameters, one set of them.
pub const NO_ATTRIBUTES: [u8; 2] = [0, 1];

/// Bytes of the attributes in front of a statement's text; `payload` begins behind the command byte.
///
/// # Errors
/// When the attributes do not end within `payload`.
pub fn attributes_length(payload: &[u8]) -> Result<usize, Malformed> {
    let mut reader = Reader::new(payload);
    let count = reader.lenenc_int()?;
    let _sets = reader.lenenc_int()?;
    if count > 0 {
        let count = usize::try_from(count).map_err(|_| Malformed("too many attributes"))?;
        let nulls = reader.bytes(count.div_ceil(8))?;
        if reader.u8()? != 1 {
            return Err(Malformed("query attributes without types"));
        }
        let mut types = Vec::new();
        for _ in 0..count {
            types.push(reader.u8()?);
            reader.u8()?;
            reader.lenenc_bytes()?;
        }
        for (index, kind) in types.into_iter().enumerate() {
            let null = nulls.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
            if !null {
                skip_value(&mut reader, kind)?;
            }
        }
    }
    Ok(payload.len() - reader.remaining())
}

/// Passes over one binary value (manual: "Binary Protocol Value").
pub(crate) fn skip_value(reader: &mut Reader<'_>, kind: u8) -> Result<(), Malformed> {
    let fixed = match kind {
        0x06 => 0,
        0x01 => 1,
        0x02 | 0x0D => 2,
        0x03 | 0x04 | 0x09 => 4,
        0x05 | 0x08 => 8,
        0x07 | 0x0A | 0x0B | 0x0C => reader.u8()?.into(),
        _ => return reader.lenenc_bytes().map(drop),
    };
    reader.bytes(fixed).map(drop)
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

    #[test]
    fn refuses_attributes_that_lie() {
        assert!(attributes_length(b"\x05\x01\x00\x01").is_err());
        assert!(attributes_length(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01").is_err());
    }
}
