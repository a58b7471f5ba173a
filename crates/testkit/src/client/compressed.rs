//! The compressed protocol (manual: "Compression"): what is sent is in frames as it is, which the protocol allows; what is
//! received is decompressed, and its frames must be in order.

use std::io::{self, Read, Write};

use super::Stream;

/// A stream inside the frames.
#[derive(Debug)]
pub(super) struct Compressed {
    pub(super) plain: Box<Stream>,
    is_zstd: bool,
    sequence: u8,
    unread: Vec<u8>,
    taken: usize,
}

impl Compressed {
    pub(super) fn new(plain: Stream, is_zstd: bool) -> Compressed {
        Compressed { plain: Box::new(plain), is_zstd, sequence: 0, unread: Vec::new(), taken: 0 }
    }

    /// The next write begins a command.
    pub(super) fn begin_command(&mut self) {
        self.sequence = 0;
    }

    fn read_frame(&mut self) -> io::Result<()> {
        let mut header = [0; 7];
        self.plain.read_exact(&mut header)?;
        let [a, b, c, sequence, d, e, f] = header;
        assert_eq!(sequence, self.sequence, "frames out of order");
        self.sequence = sequence.wrapping_add(1);
        let mut content = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
        self.plain.read_exact(&mut content)?;
        let before = u32::from_le_bytes([d, e, f, 0]) as usize;
        self.unread = match (before, self.is_zstd) {
            (0, _) => content,
            (_, true) => zstd::bulk::decompress(&content, before)?,
            (_, false) => {
                let mut out = Vec::with_capacity(before);
                flate2::read::ZlibDecoder::new(&content[..]).read_to_end(&mut out)?;
                out
            }
        };
        self.taken = 0;
        Ok(())
    }
}

impl Read for Compressed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.unread.len() {
            self.read_frame()?;
        }
        let count = buffer.len().min(self.unread.len() - self.taken);
        buffer[..count].copy_from_slice(&self.unread[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

impl Write for Compressed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = &bytes[..bytes.len().min(1 << 20)];
        let [a, b, c, _] = (part.len() as u32).to_le_bytes();
        self.plain.write_all(&[&[a, b, c, self.sequence, 0, 0, 0], part].concat())?;
        self.sequence = self.sequence.wrapping_add(1);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
