//! Packets on the wire: a header of three length bytes and a sequence number, and payloads of 16 MiB - 1 bytes
//! at most; a longer payload goes on in the next packet (manual: "MySQL Packets").

/// Bytes of a packet header.
pub const HEADER_LENGTH: usize = 4;

/// Bytes of payload that one packet carries at most. A packet of exactly this length is continued by the next.
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
    /// Reads a header off the front of `bytes`; `None` when there are fewer than four.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Option<Header> {
        let [a, b, c, sequence] = *bytes.first_chunk::<HEADER_LENGTH>()?;
        Some(Header { length: u32::from_le_bytes([a, b, c, 0]) as usize, sequence })
    }

    /// The header's bytes; `length` must not be above [`MAX_PAYLOAD`].
    pub fn encode(self) -> [u8; HEADER_LENGTH] {
        let [a, b, c, _] = (self.length as u32).to_le_bytes();
        [a, b, c, self.sequence]
    }

    /// Bytes of the whole packet.
    #[inline]
    pub fn packet_length(self) -> usize {
        HEADER_LENGTH + self.length
    }
}

/// Appends `payload` as one packet, or as several when it is long, and counts `sequence` on.
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

/// Appends a packet whose payload `encode` writes; the payload must stay below [`MAX_PAYLOAD`].
pub fn put_encoded(out: &mut Vec<u8>, sequence: &mut u8, encode: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; HEADER_LENGTH]);
    encode(out);
    let length = out.len() - start - HEADER_LENGTH;
    debug_assert!(length < MAX_PAYLOAD, "short packets only");
    let header = Header { length, sequence: *sequence }.encode();
    if let Some(place) = out.get_mut(start..start + HEADER_LENGTH) {
        place.copy_from_slice(&header);
    }
    *sequence = sequence.wrapping_add(1);
}

/// Cuts a command of several packets anew after bytes were put in at its front, without holding it: each packet's
/// last bytes that no longer fit are carried into the next one.
///
/// For every packet read, [`Recut::packet`] says what to send: a header, the bytes carried, and how much of the
/// packet's payload; what remains of it is carried by [`Recut::carry`].
#[derive(Debug, Default)]
pub struct Recut {
    carried: Vec<u8>,
    sequence: u8,
}

/// What [`Recut`] wants sent for one packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut {
    /// The header of the packet to send, and the first bytes of its payload.
    pub head: Vec<u8>,
    /// Bytes of the packet read that follow.
    pub body: usize,
    /// Bytes of the packet read behind these, to be given to [`Recut::carry`].
    pub remainder: usize,
}

impl Recut {
    /// Begins with bytes that go in front of the first packet's payload.
    pub fn with(front: Vec<u8>) -> Recut {
        Recut { carried: front, sequence: 0 }
    }

    /// A packet with `length` bytes of payload has been announced.
    pub fn packet(&mut self, length: usize) -> Cut {
        let whole = self.carried.len() + length;
        let fitting = whole.min(MAX_PAYLOAD);
        let body = fitting - self.carried.len();
        let mut head = self.header(fitting);
        head.append(&mut self.carried);
        Cut { head, body, remainder: whole - fitting }
    }

    /// Keeps the bytes of a packet that did not fit.
    pub fn carry(&mut self, remainder: &[u8]) {
        self.carried.extend_from_slice(remainder);
    }

    /// The last packet was read and sent; `full` says whether the last one sent was full, and so must be followed.
    pub fn finish(mut self, full: bool) -> Vec<u8> {
        if !full {
            return Vec::new();
        }
        let mut last = self.header(self.carried.len());
        last.append(&mut self.carried);
        last
    }

    fn header(&mut self, length: usize) -> Vec<u8> {
        let header = Header { length, sequence: self.sequence }.encode().to_vec();
        self.sequence = self.sequence.wrapping_add(1);
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_a_payload_at_sixteen_mebibytes() {
        let mut out = Vec::new();
        let mut sequence = 254;
        put_packet(&mut out, &mut sequence, &vec![7; MAX_PAYLOAD]);
        assert_eq!(sequence, 0, "two packets, the number wrapped");
        assert_eq!(Header::decode(&out), Some(Header { length: MAX_PAYLOAD, sequence: 254 }));
        let second = &out[HEADER_LENGTH + MAX_PAYLOAD..];
        assert_eq!(second, [0, 0, 0, 255]);
    }

    #[test]
    fn writes_the_header_after_the_payload_is_known() {
        let mut out = Vec::new();
        let mut sequence = 1;
        put_encoded(&mut out, &mut sequence, |payload| payload.extend(b"abc"));
        assert_eq!(out, b"\x03\0\0\x01abc");
        assert_eq!(sequence, 2);
    }

    /// Sends `payload` with `front` put in, through [`Recut`]; returns what arrives.
    fn recut(front: &[u8], payload: &[u8]) -> Vec<u8> {
        let (mut sent, mut wire) = (Vec::new(), Vec::new());
        put_packet(&mut sent, &mut 0, payload);
        let mut recut = Recut::with(front.to_vec());
        let mut rest = &sent[..];
        let mut full = false;
        while let Some(header) = Header::decode(rest) {
            let cut = recut.packet(header.length);
            wire.extend(&cut.head);
            let (body, tail) = rest[HEADER_LENGTH..].split_at(cut.body);
            wire.extend(body);
            full = cut.head.len() - HEADER_LENGTH + cut.body == MAX_PAYLOAD;
            recut.carry(&tail[..cut.remainder]);
            rest = &tail[cut.remainder..];
        }
        wire.extend(recut.finish(full));
        let mut arrived = Vec::new();
        let (mut rest, mut sequence) = (&wire[..], 0);
        while let Some(header) = Header::decode(rest) {
            assert_eq!(header.sequence, sequence);
            sequence = sequence.wrapping_add(1);
            arrived.extend(&rest[HEADER_LENGTH..header.packet_length()]);
            rest = &rest[header.packet_length()..];
            assert_eq!(rest.is_empty(), header.length < MAX_PAYLOAD, "a full packet is followed");
        }
        arrived
    }

    #[test]
    fn cuts_packets_anew_around_every_boundary() {
        for length in [
            0,
            5,
            MAX_PAYLOAD - 4,
            MAX_PAYLOAD - 3,
            MAX_PAYLOAD - 2,
            MAX_PAYLOAD - 1,
            MAX_PAYLOAD,
            2 * MAX_PAYLOAD - 3,
            2 * MAX_PAYLOAD,
        ] {
            let payload: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let expected = [b"abc", &payload[..]].concat();
            assert!(recut(b"abc", &payload) == expected, "length {length}");
            assert!(recut(b"", &payload) == payload, "length {length}, nothing put in");
        }
    }
}
