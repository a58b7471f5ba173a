//! The payload of `COM_QUERY` (manual: "COM_QUERY"): where its text begins after query attributes, and what these are.

use crate::codec::{Malformed, Reader, put_lenenc_bytes, put_lenenc_int};
use crate::value::{STRING, is_text, skip_value};

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
    walk(&mut reader, |_| ())?;
    Ok(payload.len() - reader.remaining())
}

/// The value of the attribute with this name, if there is one and it is a string.
pub fn attribute_text<'p>(payload: &'p [u8], name: &[u8]) -> Option<&'p [u8]> {
    let mut found = None;
    let note = |attribute: Attribute<'p>| {
        if attribute.name.eq_ignore_ascii_case(name) && is_text(attribute.kind) {
            found = attribute.value.and_then(|value| Reader::new(value).lenenc_bytes().ok());
        }
    };
    walk(&mut Reader::new(payload), note).ok()?;
    found
}

/// `attributes` with one that has this name and value, in place of those of this name.
///
/// # Errors
/// If they do not have the form that the manual gives.
pub fn with_attribute<'p>(attributes: &'p [u8], name: &'p [u8], value: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut own = Vec::with_capacity(value.len() + 9);
    put_lenenc_bytes(&mut own, value);
    let mut kept = Vec::new();
    let keep = |attribute: Attribute<'p>| {
        if !attribute.name.eq_ignore_ascii_case(name) {
            kept.push(attribute);
        }
    };
    if !attributes.is_empty() {
        walk(&mut Reader::new(attributes), keep)?;
    }
    kept.push(Attribute { kind: STRING, name, value: Some(&own) });
    let mut nulls = vec![0; kept.len().div_ceil(8)];
    for (index, _) in kept.iter().enumerate().filter(|(_, attribute)| attribute.value.is_none()) {
        if let Some(byte) = nulls.get_mut(index / 8) {
            *byte |= 1 << (index % 8);
        }
    }
    let mut out = Vec::with_capacity(attributes.len() + name.len() + own.len() + 16);
    put_lenenc_int(&mut out, kept.len() as u64);
    put_lenenc_int(&mut out, 1);
    out.extend_from_slice(&nulls);
    out.push(1);
    for attribute in &kept {
        out.extend_from_slice(&attribute.kind.to_le_bytes());
        put_lenenc_bytes(&mut out, attribute.name);
    }
    kept.iter().filter_map(|attribute| attribute.value).for_each(|value| out.extend_from_slice(value));
    Ok(out)
}

/// One attribute; its value as it is sent, or `None` for NULL.
struct Attribute<'p> {
    kind: u16,
    name: &'p [u8],
    value: Option<&'p [u8]>,
}

/// Reads attributes and passes each one on.
fn walk<'p>(reader: &mut Reader<'p>, mut each: impl FnMut(Attribute<'p>)) -> Result<(), Malformed> {
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
            types.push((reader.u16()?, reader.lenenc_bytes()?));
        }
        for (index, (kind, name)) in types.into_iter().enumerate() {
            let value = match is_null(nulls, index) {
                true => None,
                false => Some(skip_value(reader, kind)?),
            };
            each(Attribute { kind, name, value });
        }
    }
    Ok(())
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
    fn attributes_are_found_and_replaced() {
        let payload = b"\x02\x01\x02\x01\xfe\x00\x01n\x08\x00\x01m\x03valSELECT 1";
        assert_eq!(attribute_text(payload, b"N"), Some(&b"val"[..]));
        assert_eq!((attribute_text(payload, b"m"), attribute_text(payload, b"x")), (None, None));
        let length = attributes_length(payload).unwrap();
        let more = with_attribute(&payload[..length], b"x", b"new").unwrap();
        assert_eq!(attributes_length(&more), Ok(more.len()));
        assert_eq!(
            (attribute_text(&more, b"n"), attribute_text(&more, b"x")),
            (Some(&b"val"[..]), Some(&b"new"[..]))
        );
        let other = with_attribute(&more, b"X", b"").unwrap();
        assert_eq!(
            (attributes_length(&other), attribute_text(&other, b"x")),
            (Ok(other.len()), Some(&b""[..]))
        );
        for none in [&b""[..], &NO_ATTRIBUTES] {
            assert_eq!(with_attribute(none, b"n", b"v").unwrap(), b"\x01\x01\x00\x01\xfe\x00\x01n\x01v");
        }
    }

    #[test]
    fn refuses_attributes_that_lie() {
        assert!(attributes_length(b"\x05\x01\x00\x01").is_err());
        assert!(attributes_length(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01").is_err());
    }
}
