//! The EOF packet (manual: "EOF_Packet").

use super::Status;
use crate::codec::{Malformed, Reader};

/// The end of columns or rows where `CLIENT_DEPRECATE_EOF` is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eof {
    /// Warnings of the statement.
    pub warnings: u16,
    /// Status of the session.
    pub status: Status,
}

impl Eof {
    /// First byte of the payload.
    pub const HEADER: u8 = 0xFE;
    /// Where the payload has its status flags.
    pub const STATUS_AT: usize = 3;

    /// Reads the payload.
    pub fn decode(payload: &[u8]) -> Result<Eof, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != Self::HEADER {
            return Err(Malformed("not an EOF packet"));
        }
        Ok(Eof { warnings: reader.u16()?, status: Status(reader.u16()?) })
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(Self::HEADER);
        out.extend(self.warnings.to_le_bytes());
        out.extend(self.status.0.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let mut out = Vec::new();
        Eof { warnings: 1, status: Status(0x22) }.encode(&mut out);
        assert_eq!(out, [0xFE, 1, 0, 0x22, 0]);
        assert_eq!(Eof::decode(&out), Ok(Eof { warnings: 1, status: Status(0x22) }));
    }
}
