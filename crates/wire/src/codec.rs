//! The basic types of the protocol: fixed and length-encoded integers and strings
//! (manual: "Protocol Basic Data Types"). Every read is checked.

/// Bytes that do not follow the protocol: too short, or with a false length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed packet: {0}")]
pub struct Malformed(pub &'static str);

/// Reads values from the front of a payload.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the front of `payload`.
    pub fn new(payload: &'a [u8]) -> Self {
        Reader { rest: payload }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next byte, without taking it.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next `length` bytes.
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) =
            self.rest.split_at_checked(length).ok_or(Malformed("length beyond the packet"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed("packet too short"))?;
        self.rest = rest;
        Ok(*taken)
    }

    /// All remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    /// Two bytes, little endian.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// Three bytes, little endian.
    pub fn u24(&mut self) -> Result<u32, Malformed> {
        self.array().map(|[a, b, c]: [u8; 3]| u32::from_le_bytes([a, b, c, 0]))
    }

    /// Four bytes, little endian.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little endian.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// A length-encoded integer; NULL (0xFB) and 0xFF are malformed here.
    pub fn lenenc_int(&mut self) -> Result<u64, Malformed> {
        match self.u8()? {
            small @ 0..=0xFA => Ok(small.into()),
            0xFC => self.u16().map(Into::into),
            0xFD => self.u24().map(Into::into),
            0xFE => self.u64(),
            0xFB | 0xFF => Err(Malformed("not a length-encoded integer")),
        }
    }

    /// A length-encoded string.
    pub fn lenenc_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.lenenc_int()?;
        self.bytes(usize::try_from(length).map_err(|_| Malformed("length beyond the packet"))?)
    }

    /// A string terminated by a zero byte; the zero is consumed and not returned.
    pub fn null_terminated(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.rest.iter().position(|&byte| byte == 0).ok_or(Malformed("missing terminator"))?;
        let text = self.bytes(end)?;
        self.u8()?;
        Ok(text)
    }
}

/// Appends a length-encoded integer.
pub fn put_lenenc_int(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    let [a, b, c, ..] = bytes;
    match value {
        0..=0xFA => out.push(a),
        0xFB..=0xFFFF => out.extend([0xFC, a, b]),
        0x1_0000..=0xFF_FFFF => out.extend([0xFD, a, b, c]),
        _ => {
            out.push(0xFE);
            out.extend(bytes);
        }
    }
}

/// Appends a length-encoded string.
pub fn put_lenenc_bytes(out: &mut Vec<u8>, text: &[u8]) {
    put_lenenc_int(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Appends a string and its terminating zero byte.
pub fn put_null_terminated(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(text);
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_encoded_integers_round_trip_at_their_edges() {
        for value in [0, 1, 0xFA, 0xFB, 0xFFFF, 0x1_0000, 0xFF_FFFF, 0x100_0000, u64::MAX] {
            let mut out = Vec::new();
            put_lenenc_int(&mut out, value);
            let mut reader = Reader::new(&out);
            assert_eq!(reader.lenenc_int(), Ok(value));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn refuses_a_length_beyond_the_packet() {
        assert!(
            Reader::new(&[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]).lenenc_bytes().is_err()
        );
        assert!(Reader::new(&[5, b'a']).lenenc_bytes().is_err());
        assert!(Reader::new(b"abc").null_terminated().is_err());
    }
}
