//! How long a value of the binary protocol is (manual: "Binary Protocol Value"). The end of a value decides where the
//! text of a `COM_QUERY` with attributes begins, so there must be only one way to read it: a type whose length differs
//! between servers, or that they do not list, is refused.

use crate::codec::{Malformed, Reader};

/// The bit of a parameter's type that means unsigned. The other fifteen are the type.
const UNSIGNED: u16 = 1 << 15;

/// Skips one value that is not NULL; `kind` is the two bytes that a client binds.
///
/// # Errors
/// If the value does not end within the payload, or if the length of a value of this type is unknown.
pub(crate) fn skip_value(reader: &mut Reader<'_>, kind: u16) -> Result<(), Malformed> {
    let fixed = match kind & !UNSIGNED {
        TINY => 1,
        SHORT => 2,
        LONG | FLOAT => 4,
        DOUBLE | LONGLONG => 8,
        // Servers read the length of a time as a length-encoded integer, too.
        DECIMAL | TIMESTAMP | DATE..=DATETIME | VARCHAR | BIT | VECTOR | JSON..=GEOMETRY => {
            return reader.lenenc_bytes().map(drop);
        }
        // YEAR and INT24 have two and four bytes in MariaDB, and a length in front in MySQL. NULL has no value, but
        // MySQL reads one all the same.
        _ => return Err(Malformed("a parameter of a type that no client binds")),
    };
    reader.bytes(fixed).map(drop)
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
const DATETIME: u16 = 0x0C;
const VARCHAR: u16 = 0x0F;
const BIT: u16 = 0x10;
const VECTOR: u16 = 0xF2;
const JSON: u16 = 0xF5;
const GEOMETRY: u16 = 0xFF;

#[cfg(test)]
mod tests {
    use super::*;

    fn length(kind: u16) -> Option<usize> {
        // As a length-encoded string it has three bytes, the first of which is the length.
        let value = b"\x02abcdefghij";
        let mut reader = Reader::new(value);
        skip_value(&mut reader, kind).ok().map(|()| value.len() - reader.remaining())
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
    fn takes_all_fifteen_bits_for_the_type() {
        for kind in 0..=0xFF {
            for high in [0x01, 0x40, 0x7F, 0x81, 0xFF] {
                assert_eq!(length(kind | high << 8), None, "{kind:#x} with {high:#x}");
            }
        }
    }
}
