//! The ERR packet (manual: "ERR_Packet").

use crate::codec::{Malformed, Reader};

/// An error from the server, or from Narrows itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Err<'a> {
    /// Error number.
    pub code: u16,
    /// SQLSTATE; absent before the handshake is complete.
    pub sqlstate: Option<[u8; 5]>,
    /// What went wrong.
    pub message: &'a [u8],
}

impl<'a> Err<'a> {
    /// First byte of the payload.
    pub const HEADER: u8 = 0xFF;

    /// Reads the payload.
    pub fn decode(payload: &'a [u8]) -> Result<Err<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != Self::HEADER {
            return Result::Err(Malformed("not an ERR packet"));
        }
        let code = reader.u16()?;
        let sqlstate = if reader.peek() == Some(b'#') {
            reader.u8()?;
            Some(reader.array()?)
        } else {
            None
        };
        Ok(Err { code, sqlstate, message: reader.rest() })
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(Self::HEADER);
        out.extend(self.code.to_le_bytes());
        if let Some(sqlstate) = self.sqlstate {
            out.push(b'#');
            out.extend(sqlstate);
        }
        out.extend_from_slice(self.message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_an_error_with_and_without_sqlstate() {
        let full = b"\xff\x15\x04#28000Access denied";
        let error = Err::decode(full).unwrap();
        assert_eq!(
            (error.code, error.sqlstate, error.message),
            (1045, Some(*b"28000"), &b"Access denied"[..])
        );
        let mut out = Vec::new();
        error.encode(&mut out);
        assert_eq!(out, full);

        let early = Err::decode(b"\xff\x10\x04Too many connections").unwrap();
        assert_eq!((early.code, early.sqlstate), (1040, None));
    }
}
