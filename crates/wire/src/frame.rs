//! Packets on the wire: a header of three length bytes and a sequence number, and payloads of 16 MiB - 1 bytes at most;
//! a longer payload continues in the next packet (manual: "MySQL Packets").

/// Bytes of a packet header.
pub const HEADER_LENGTH: usize = 4;

/// The most payload bytes that one packet carries. A packet of exactly this length is continued by the next.
pub const MAX_PAYLOAD: usize = 0xFF_FFFF;

/// The four bytes in front of each payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of payload that follow.
    pub length: usize,
    /// Number of the packet within one exchange; wraps around.
    pub sequence: u8,
}

impl Header {
    /// Reads a header from the front of `bytes`; `None` if there are fewer than four.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Option<Header> {
        let [a, b, c, sequence] = *bytes.first_chunk::<HEADER_LENGTH>()?;
        Some(Header { length: u32::from_le_bytes([a, b, c, 0]) as usize, sequence })
    }

    /// The header's bytes; `length` must not be above [`MAX_PAYLOAD`].
    pub fn encode(self) -> [u8; HEADER_LENGTH] {
        debug_assert!(self.length <= MAX_PAYLOAD, "longer payloads are split");
        let [a, b, c, _] = (self.length as u32).to_le_bytes();
        [a, b, c, self.sequence]
    }

    /// Bytes of the whole packet.
    #[inline]
    pub fn packet_length(self) -> usize {
        HEADER_LENGTH + self.length
    }
}

/// Appends `payload` as one packet, or as several if it is long, and advances `sequence`.
pub fn put_packet(out: &mut Vec<u8>, sequence: &mut u8, payload: &[u8]) {
    let mut rest = payload;
    loop {
        let (part, tail) = rest.split_at(rest.len().min(MAX_PAYLOAD));
        out.extend(Header { length: part.len(), sequence: *sequence }.encode());
        out.extend_from_slice(part);
        *sequence = sequence.wrapping_add(1);
        if part.len() < MAX_PAYLOAD {
            return;
        }
        rest = tail;
    }
}

/// Appends a packet whose payload `encode` writes; as several if it is long, like [`put_packet`].
pub fn put_encoded(out: &mut Vec<u8>, sequence: &mut u8, encode: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; HEADER_LENGTH]);
    encode(out);
    let length = out.len() - start - HEADER_LENGTH;
    if length >= MAX_PAYLOAD {
        let payload = out.split_off(start + HEADER_LENGTH);
        out.truncate(start);
        return put_packet(out, sequence, &payload);
    }
    let header = Header { length, sequence: *sequence }.encode();
    if let Some(place) = out.get_mut(start..start + HEADER_LENGTH) {
        place.copy_from_slice(&header);
    }
    *sequence = sequence.wrapping_add(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_a_payload_at_sixteen_mebibytes() {
        let mut out = Vec::new();
        let mut sequence = 254;
        put_packet(&mut out, &mut sequence, &vec![7; MAX_PAYLOAD]);
        assert_eq!(sequence, 0, "two packets; the number wrapped");
        assert_eq!(Header::decode(&out), Some(Header { length: MAX_PAYLOAD, sequence: 254 }));
        let second = &out[HEADER_LENGTH + MAX_PAYLOAD..];
        assert_eq!(second, [0, 0, 0, 255]);
    }

    #[test]
    fn splits_what_is_encoded_like_what_is_given() {
        for length in [MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 5] {
            let payload = vec![7; length];
            let (mut given, mut encoded) = (b"before".to_vec(), b"before".to_vec());
            let (mut one, mut other) = (3, 3);
            put_packet(&mut given, &mut one, &payload);
            put_encoded(&mut encoded, &mut other, |out| out.extend_from_slice(&payload));
            assert!(given == encoded && one == other, "{length}");
        }
    }

    #[test]
    fn writes_the_header_after_the_payload_is_known() {
        let mut out = Vec::new();
        let mut sequence = 1;
        put_encoded(&mut out, &mut sequence, |payload| payload.extend(b"abc"));
        assert_eq!(out, b"\x03\0\0\x01abc");
        assert_eq!(sequence, 2);
    }
}
