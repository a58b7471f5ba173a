//! The compressed protocol (manual: "Compression", "Compressed Packet Header"): packets in frames of their own.
//!
//! A frame has seven bytes in front: the length of what follows, a sequence number, and the length before compression,
//! or zero if the bytes are not compressed. Frames are independent of packets: one may hold part of a packet. The
//! sequence numbers of frames are counted separately from those of packets. They start at zero with each command; the
//! side that answers continues with the number after the last one read.

use std::cell::RefCell;

use flate2::{Compress, Compression as Level, Decompress, FlushCompress, FlushDecompress, Status};

use crate::capability::Capabilities;
use crate::codec::Malformed;
use crate::frame::{HEADER_LENGTH, Header, MAX_PAYLOAD};

/// Bytes in front of a frame.
pub const FRAME_HEADER_LENGTH: usize = 7;

/// Shorter contents are not worth compressing; the servers' own limit (`MIN_COMPRESS_LENGTH`).
const SHORTEST_COMPRESSED: usize = 50;

/// The most bytes that one frame holds before compression: an amount that a reader with a small buffer can keep up
/// with.
const FRAME_CONTENT: usize = 256 * 1024;

/// What frames are compressed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// `CLIENT_COMPRESS`.
    Zlib,
    /// `CLIENT_ZSTD_COMPRESSION_ALGORITHM`, at this level.
    Zstd(u8),
}

/// Which end of the connection this is, which decides how frames are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Sends commands.
    Client,
    /// Answers.
    Server,
}

/// One connection's compression. Holds no buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    algorithm: Algorithm,
    end: End,
    /// Sequence number of the next frame to send.
    sequence: u8,
    /// Bytes of the current packet that are still to be sent; the frames of a client start at zero with each command.
    in_packet: usize,
    /// The bytes of a packet header at the end of the last write.
    header: [u8; HEADER_LENGTH],
    /// How many of them there are.
    header_length: usize,
    /// The last packet had the highest number and some content: one of a file, whose next packet has the number 0.
    wraps: bool,
}

impl Algorithm {
    /// The algorithm of a login with these capabilities, `zstd_level` as the client gives it; zlib takes precedence if
    /// both are requested, as in servers.
    pub fn negotiated(capabilities: Capabilities, zstd_level: Option<u8>) -> Option<Algorithm> {
        if capabilities.contains(Capabilities::COMPRESS) {
            Some(Algorithm::Zlib)
        } else if capabilities.contains(Capabilities::ZSTD_COMPRESSION) {
            Some(Algorithm::Zstd(zstd_level.unwrap_or(3).clamp(1, 22)))
        } else {
            None
        }
    }
}

impl Compression {
    /// Starts after the OK packet of a login, when compression is turned on.
    pub fn new(algorithm: Algorithm, end: End) -> Compression {
        let header = [0; HEADER_LENGTH];
        Compression { algorithm, end, sequence: 0, in_packet: 0, header, header_length: 0, wraps: false }
    }

    /// Appends the frames that carry `bytes`.
    pub fn encode(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (part, tail) = match self.end {
                End::Server => rest.split_at(rest.len().min(FRAME_CONTENT)),
                End::Client => self.up_to_next_command(rest),
            };
            self.put_frame(part, out);
            rest = tail;
        }
    }

    /// Decodes the frame at the front of `bytes` and appends what it carries; returns its length, or 0 if it is
    /// incomplete.
    ///
    /// # Errors
    /// If a frame is not what its header says.
    pub fn decode(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, Malformed> {
        let Some([a, b, c, sequence, d, e, f]) = bytes.first_chunk::<FRAME_HEADER_LENGTH>() else {
            return Ok(0);
        };
        let length = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        let before = u32::from_le_bytes([*d, *e, *f, 0]) as usize;
        let Some(content) = bytes.get(FRAME_HEADER_LENGTH..FRAME_HEADER_LENGTH + length) else {
            return Ok(0);
        };
        self.sequence = sequence.wrapping_add(1);
        if before == 0 {
            out.extend_from_slice(content);
        } else {
            ENGINES.with_borrow_mut(|engines| engines.decompress(self.algorithm, content, before, out))?;
        }
        Ok(FRAME_HEADER_LENGTH + length)
    }

    /// Splits after the last packet of the command that `bytes` begin in or with. If they begin with a command, its
    /// frames are numbered from zero.
    fn up_to_next_command<'a>(&mut self, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let limit = bytes.len().min(FRAME_CONTENT);
        let mut at = 0;
        while at < limit {
            if self.in_packet > 0 {
                let step = self.in_packet.min(limit - at);
                self.in_packet -= step;
                at += step;
                continue;
            }
            let more = bytes.get(at..limit).unwrap_or_default();
            let missing = more.iter().take(HEADER_LENGTH - self.header_length);
            let header_at = at;
            let known = self.header_length;
            for (place, byte) in self.header.iter_mut().skip(known).zip(missing) {
                *place = *byte;
                self.header_length += 1;
                at += 1;
            }
            if self.header_length < HEADER_LENGTH {
                break;
            }
            self.header_length = 0;
            let Some(header) = Header::decode(&self.header) else { break };
            let begins = header.sequence == 0 && known == 0 && !self.wraps;
            self.wraps = header.sequence == u8::MAX && header.length > 0;
            if begins {
                if header_at > 0 {
                    return bytes.split_at(header_at);
                }
                self.sequence = 0;
            }
            self.in_packet = header.length;
        }
        bytes.split_at(at)
    }

    fn put_frame(&mut self, content: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; FRAME_HEADER_LENGTH]);
        let compressed = content.len() >= SHORTEST_COMPRESSED
            && ENGINES.with_borrow_mut(|engines| engines.compress(self.algorithm, content, out));
        if !compressed {
            out.truncate(start + FRAME_HEADER_LENGTH);
            out.extend_from_slice(content);
        }
        let length = out.len() - start - FRAME_HEADER_LENGTH;
        debug_assert!(length <= MAX_PAYLOAD && content.len() <= MAX_PAYLOAD);
        let [a, b, c, _] = (length as u32).to_le_bytes();
        let [d, e, f, _] = if compressed { content.len() as u32 } else { 0 }.to_le_bytes();
        if let Some(place) = out.get_mut(start..start + FRAME_HEADER_LENGTH) {
            place.copy_from_slice(&[a, b, c, self.sequence, d, e, f]);
        }
        self.sequence = self.sequence.wrapping_add(1);
    }
}

/// What compresses and decompresses: hundreds of kilobytes of tables, one set per thread, cleared between frames.
#[derive(Default)]
struct Engines {
    deflate: Option<Compress>,
    inflate: Option<Decompress>,
    zstd: Option<(u8, zstd::bulk::Compressor<'static>)>,
    unzstd: Option<zstd::bulk::Decompressor<'static>>,
}

thread_local! {
    static ENGINES: RefCell<Engines> = RefCell::default();
}

impl Engines {
    /// Appends `content` compressed; returns whether that made it shorter. If not, what was appended must be discarded.
    fn compress(&mut self, algorithm: Algorithm, content: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        // One byte less than the content: if it does not fit, compression is not worth it.
        out.resize(start + content.len() - 1, 0);
        let room = out.get_mut(start..).unwrap_or_default();
        let length = match algorithm {
            Algorithm::Zlib => {
                let deflate = self.deflate.get_or_insert_with(|| Compress::new(Level::default(), true));
                deflate.reset();
                match deflate.compress(content, room, FlushCompress::Finish) {
                    Ok(Status::StreamEnd) => usize::try_from(deflate.total_out()).ok(),
                    _ => None,
                }
            }
            Algorithm::Zstd(level) => {
                if self.zstd.as_ref().is_none_or(|(other, _)| *other != level) {
                    self.zstd = zstd::bulk::Compressor::new(level.into()).ok().map(|engine| (level, engine));
                }
                let engine = self.zstd.as_mut().map(|(_, engine)| engine);
                engine.and_then(|engine| engine.compress_to_buffer(content, room).ok())
            }
        };
        out.truncate(start + length.unwrap_or(0));
        length.is_some()
    }

    /// Appends `content` decompressed, which must give `before` bytes.
    fn decompress(
        &mut self,
        algorithm: Algorithm,
        content: &[u8],
        before: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let start = out.len();
        out.resize(start + before, 0);
        let room = out.get_mut(start..).unwrap_or_default();
        let length = match algorithm {
            Algorithm::Zlib => {
                let inflate = self.inflate.get_or_insert_with(|| Decompress::new(true));
                inflate.reset(true);
                match inflate.decompress(content, room, FlushDecompress::Finish) {
                    Ok(Status::StreamEnd) => usize::try_from(inflate.total_out()).ok(),
                    _ => None,
                }
            }
            Algorithm::Zstd(_) => {
                if self.unzstd.is_none() {
                    self.unzstd = zstd::bulk::Decompressor::new().ok();
                }
                let engine = self.unzstd.as_mut();
                engine.and_then(|engine| engine.decompress_to_buffer(content, room).ok())
            }
        };
        if length == Some(before) {
            return Ok(());
        }
        out.truncate(start);
        Err(Malformed("a compressed frame is not what its header says"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that `frames` carry, and their sequence numbers.
    fn decoded(algorithm: Algorithm, frames: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut reader = Compression::new(algorithm, End::Server);
        let (mut out, mut numbers, mut at) = (Vec::new(), Vec::new(), 0);
        while at < frames.len() {
            numbers.push(frames[at + 3]);
            at += reader.decode(&frames[at..], &mut out).expect("written by ourselves");
        }
        (out, numbers)
    }

    #[test]
    fn reads_what_a_client_of_mysql_sends() {
        // The manual's example: `select "012345678901234567890123456789012345"`.
        let frame =
            b"\x22\0\0\0\x32\0\0x\x9c\xd3\x63\x60\x60\x60\x2e\x4e\xcd\x49\x4d\x2e\x51\x50\x32\x30\x34\x32\
            \x36\x31\x35\x33\xb7\xb0\xc4\xcd\x52\x02\0\x0c\xd1\x0a\x6c";
        let (bytes, _) = decoded(Algorithm::Zlib, frame);
        assert_eq!(bytes, b"\x2e\0\0\0\x03select \"012345678901234567890123456789012345\"");
    }

    #[test]
    fn what_was_compressed_comes_back() {
        let long: Vec<u8> = (0..600_000_u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        for algorithm in [Algorithm::Zlib, Algorithm::Zstd(3)] {
            for bytes in [&b"short"[..], &long] {
                let mut out = Vec::new();
                let mut writer = Compression::new(algorithm, End::Server);
                writer.encode(bytes, &mut out);
                assert_eq!(decoded(algorithm, &out).0, bytes);
                assert!(bytes.len() < 100 || out.len() < bytes.len() / 2, "{} of {}", out.len(), bytes.len());
            }
        }
    }

    #[test]
    fn what_cannot_be_compressed_stands_as_it_is() {
        let noise: Vec<u8> = (0..5_000_u32)
            .map(|number| (number.wrapping_mul(2_654_435_761) >> 21) as u8 ^ number as u8)
            .collect();
        let mut out = Vec::new();
        Compression::new(Algorithm::Zlib, End::Server).encode(&noise[..40], &mut out);
        assert_eq!(&out[4..7], [0, 0, 0], "too short to be worth compressing");
        assert_eq!(&out[7..], &noise[..40]);
    }

    #[test]
    fn a_client_numbers_its_frames_anew_with_each_command() {
        let ping = b"\x01\0\0\0\x0e";
        let both = [&ping[..], b"\x03\0\0\0\x03DO", b"\x02\0\0\x01ab"].concat();
        let mut writer = Compression::new(Algorithm::Zlib, End::Client);
        let mut out = Vec::new();
        writer.encode(&both, &mut out);
        assert_eq!(decoded(Algorithm::Zlib, &out), (both.clone(), vec![0, 0]), "one frame for each command");
        // The header arrives in two pieces, and the packet in two more.
        out.clear();
        for piece in [&b"\x05\0"[..], b"\0\x02a", b"bcde"] {
            writer.encode(piece, &mut out);
        }
        assert_eq!(decoded(Algorithm::Zlib, &out).1, [1, 2, 3], "the same command continues");
        out.clear();
        writer.encode(ping, &mut out);
        assert_eq!(decoded(Algorithm::Zlib, &out).1, [0]);
    }

    #[test]
    fn a_file_of_more_than_256_packets_is_one_exchange() {
        let mut writer = Compression::new(Algorithm::Zlib, End::Client);
        let mut out = Vec::new();
        writer.encode(b"\x01\0\0\0\x03", &mut out);
        for number in 2..300_u16 {
            writer.encode(&[1, 0, 0, number as u8, b'x'], &mut out);
        }
        writer.encode(b"\0\0\0\x2c", &mut out);
        let numbers = decoded(Algorithm::Zlib, &out).1;
        assert_eq!(numbers, (0..300_u16).map(|number| number as u8).collect::<Vec<u8>>());
        // After the end of a file with the highest number, 0 is a command.
        for end in [b"\x01\0\0\xfex".as_slice(), b"\0\0\0\xff", b"\x01\0\0\0\x0e"] {
            out.clear();
            writer.encode(end, &mut out);
        }
        assert_eq!(decoded(Algorithm::Zlib, &out).1, [0]);
    }

    #[test]
    fn an_answer_goes_on_with_the_number_after_the_one_read() {
        let mut server = Compression::new(Algorithm::Zlib, End::Server);
        let mut read = Vec::new();
        assert_eq!(server.decode(b"\x01\0\0\x04\0\0\0x", &mut read), Ok(8));
        let mut out = Vec::new();
        server.encode(b"ok", &mut out);
        assert_eq!(out[3], 5);
    }

    #[test]
    fn refuses_frames_that_lie_and_waits_for_those_that_are_cut() {
        let mut out = Vec::new();
        let mut frame = Vec::new();
        Compression::new(Algorithm::Zlib, End::Server).encode(&[7; 500], &mut frame);
        let mut reader = Compression::new(Algorithm::Zlib, End::Server);
        for length in 0..frame.len() {
            assert_eq!(reader.decode(&frame[..length], &mut out), Ok(0));
        }
        for lie in [499_u32, 501, 0xFF_FFFF] {
            let mut frame = frame.clone();
            frame[4..7].copy_from_slice(&lie.to_le_bytes()[..3]);
            assert!(reader.decode(&frame, &mut out).is_err(), "{lie}");
        }
        assert!(out.is_empty());
    }
}
