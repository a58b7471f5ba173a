//! How long a value of the binary protocol is, and what it says (manual: "Binary Protocol Value"). The end of a value decides where the
//! text of a `COM_QUERY` with attributes begins, so there must be only one way to read it: a type whose length differs
//! between servers, or that they do not list, is refused.

use crate::codec::{Malformed, Reader};

/// The bit of a parameter's type that means unsigned. The other fifteen are the type.
const UNSIGNED: u16 = 1 << 15;

/// Skips one value that is not NULL, and returns its bytes; `kind` is the two bytes that a client binds.
///
/// # Errors
/// If the value does not end within the payload, or if the length of a value of this type is unknown.
pub(crate) fn skip_value<'p>(reader: &mut Reader<'p>, kind: u16) -> Result<&'p [u8], Malformed> {
    let fixed = match kind & !UNSIGNED {
        TINY => 1,
        SHORT => 2,
        LONG | FLOAT => 4,
        DOUBLE | LONGLONG => 8,
        // Servers read the length of a time as a length-encoded integer, too.
        DECIMAL | TIMESTAMP | DATE..=DATETIME | VARCHAR | BIT | VECTOR | JSON..=GEOMETRY => {
            let mut start = *reader;
            reader.lenenc_bytes()?;
            return start.bytes(start.remaining() - reader.remaining());
        }
        // YEAR and INT24 have two and four bytes in MariaDB, and a length in front in MySQL. NULL has no value, but
        // MySQL reads one all the same.
        _ => return Err(Malformed("a parameter of a type that no client binds")),
    };
    reader.bytes(fixed)
}

/// Whether values of this type are strings of bytes.
pub(crate) fn is_text(kind: u16) -> bool {
    !matches!(kind & !UNSIGNED, TINY..=TIMESTAMP | LONGLONG | DATE..=DATETIME)
}

/// A value as text, and the name of its type; `value` is what [`skip_value`] returned for `kind`. Bytes that are not UTF-8 are
/// replaced.
pub(crate) fn shown(kind: u16, value: &[u8]) -> Option<(&'static str, String)> {
    let is_unsigned = kind & UNSIGNED != 0;
    let mut reader = Reader::new(value);
    let integer = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let spare = 64 - 8 * u32::try_from(bytes.len()).ok().filter(|length| *length > 0)?;
        let signed = i64::from_le_bytes(wide) << spare >> spare;
        Some(if is_unsigned { u64::from_le_bytes(wide).to_string() } else { signed.to_string() })
    };
    let name = name(kind & !UNSIGNED)?;
    let text = match kind & !UNSIGNED {
        TINY | SHORT | LONG | LONGLONG => integer(value)?,
        FLOAT => f32::from_le_bytes(reader.array().ok()?).to_string(),
        DOUBLE => f64::from_le_bytes(reader.array().ok()?).to_string(),
        TIME => time(reader.lenenc_bytes().ok()?)?,
        DATE | DATETIME | TIMESTAMP => date(reader.lenenc_bytes().ok()?, kind & !UNSIGNED == DATE)?,
        _ => String::from_utf8_lossy(reader.lenenc_bytes().ok()?).into_owned(),
    };
    Some((name, text))
}

/// The name of a type, as servers show it.
fn name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        DECIMAL | NEWDECIMAL => "DECIMAL",
        TINY => "TINY",
        SHORT => "SHORT",
        LONG => "LONG",
        FLOAT => "FLOAT",
        DOUBLE => "DOUBLE",
        TIMESTAMP => "TIMESTAMP",
        LONGLONG => "LONGLONG",
        DATE => "DATE",
        TIME => "TIME",
        DATETIME => "DATETIME",
        VARCHAR | VAR_STRING => "VAR_STRING",
        BIT => "BIT",
        VECTOR => "VECTOR",
        JSON => "JSON",
        TINY_BLOB..=BLOB => "BLOB",
        STRING => "STRING",
        GEOMETRY => "GEOMETRY",
        ENUM => "ENUM",
        SET => "SET",
        _ => return None,
    })
}

/// A date, or a date and a time, of 0, 4, 7 or 11 bytes.
fn date(value: &[u8], is_date: bool) -> Option<String> {
    let mut reader = Reader::new(value);
    let mut byte = || reader.u8().ok();
    if value.is_empty() {
        return Some(if is_date { "0000-00-00" } else { "0000-00-00 00:00:00" }.to_owned());
    }
    let year = u16::from_le_bytes([byte()?, byte()?]);
    let mut text = format!("{year:04}-{:02}-{:02}", byte()?, byte()?);
    if value.len() >= 7 {
        text += &format!(" {:02}:{:02}:{:02}", byte()?, byte()?, byte()?);
    }
    if value.len() >= 11 {
        text += &format!(".{:06}", reader.u32().ok()?);
    }
    Some(text)
}

/// A time of 0, 8 or 12 bytes.
fn time(value: &[u8]) -> Option<String> {
    let mut reader = Reader::new(value);
    if value.is_empty() {
        return Some("00:00:00".to_owned());
    }
    let sign = if reader.u8().ok()? == 0 { "" } else { "-" };
    let days = u64::from(reader.u32().ok()?);
    let [hours, minutes, seconds] = reader.array().ok()?;
    let mut text = format!("{sign}{:02}:{minutes:02}:{seconds:02}", days * 24 + u64::from(hours));
    if value.len() >= 12 {
        text += &format!(".{:06}", reader.u32().ok()?);
    }
    Some(text)
}

// Manual: "enum_field_types".
const DECIMAL: u16 = 0x00;
const TINY: u16 = 0x01;
const SHORT: u16 = 0x02;
const LONG: u16 = 0x03;
const FLOAT: u16 = 0x04;
const DOUBLE: u16 = 0x05;
const TIMESTAMP: u16 = 0x07;
const LONGLONG: u16 = 0x08;
const DATE: u16 = 0x0A;
const TIME: u16 = 0x0B;
const DATETIME: u16 = 0x0C;
const VARCHAR: u16 = 0x0F;
const BIT: u16 = 0x10;
const VECTOR: u16 = 0xF2;
const JSON: u16 = 0xF5;
const NEWDECIMAL: u16 = 0xF6;
const ENUM: u16 = 0xF7;
const SET: u16 = 0xF8;
const TINY_BLOB: u16 = 0xF9;
const BLOB: u16 = 0xFC;
const VAR_STRING: u16 = 0xFD;
/// The type of strings.
pub(crate) const STRING: u16 = 0xFE;
const GEOMETRY: u16 = 0xFF;

#[cfg(test)]
mod tests {
    use super::*;

    fn length(kind: u16) -> Option<usize> {
        // As a length-encoded string it has three bytes, the first of which is the length.
        let value = b"\x02abcdefghij";
        let mut reader = Reader::new(value);
        skip_value(&mut reader, kind).ok().map(<[u8]>::len)
    }

    #[test]
    fn knows_how_long_each_type_is() {
        for (kinds, wanted) in [
            (&[1][..], Some(1)),
            (&[2], Some(2)),
            (&[3, 4], Some(4)),
            (&[5, 8], Some(8)),
            (&[0, 7, 10, 11, 12, 15, 16, 242, 245, 246, 247, 248, 249, 252, 253, 254, 255], Some(3)),
            (&[6, 9, 13, 14, 17, 18, 19, 20, 100, 203, 241, 243, 244], None),
        ] {
            for kind in kinds {
                assert_eq!(length(*kind), wanted, "{kind}");
                assert_eq!(length(kind | UNSIGNED), wanted, "{kind}, unsigned");
            }
        }
    }

    #[test]
    fn shows_what_a_client_has_bound() {
        let text = |kind, value: &[u8]| shown(kind, value).map(|(name, text)| format!("{name} {text}"));
        for (kind, value, wanted) in [
            (TINY, &b"\xff"[..], "TINY -1"),
            (TINY | UNSIGNED, b"\xff", "TINY 255"),
            (SHORT, b"\x00\x80", "SHORT -32768"),
            (LONG, b"\x05\0\0\0", "LONG 5"),
            (LONGLONG | UNSIGNED, &[0xFF; 8], "LONGLONG 18446744073709551615"),
            (DOUBLE, &1.5f64.to_le_bytes(), "DOUBLE 1.5"),
            (DATE, b"\x04\xE9\x07\x04\x02", "DATE 2025-04-02"),
            (DATETIME, b"\x0b\xE9\x07\x04\x02\x0c\x22\x38\x01\0\0\0", "DATETIME 2025-04-02 12:34:56.000001"),
            (DATETIME, b"\0", "DATETIME 0000-00-00 00:00:00"),
            (TIME, b"\x08\x01\x01\0\0\0\x02\x03\x04", "TIME -26:03:04"),
            (STRING, b"\x03a'\xff", "STRING a'\u{fffd}"),
            (NEWDECIMAL, b"\x041.23", "DECIMAL 1.23"),
        ] {
            assert_eq!(text(kind, value).as_deref(), Some(wanted));
        }
        for (kind, value) in [(DATE, &b"\x02\x01\x02"[..]), (LONG, b""), (STRING, b"\x05a"), (6, b"")] {
            assert_eq!(text(kind, value), None, "{kind}");
        }
    }

    #[test]
    fn takes_all_fifteen_bits_for_the_type() {
        for kind in 0..=0xFF {
            for high in [0x01, 0x40, 0x7F, 0x81, 0xFF] {
                assert_eq!(length(kind | high << 8), None, "{kind:#x} with {high:#x}");
            }
        }
    }
}
