//! Bytes in transit: buffers that exist only while there is something in them, and the pool they come from.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use crate::stream::Stream;

/// A read buffer: filled at the end, consumed at the front.
#[derive(Debug, Default)]
pub struct Buffer {
    /// Initialised completely once, so that it can be read into; empty while the buffer has no memory.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    lent: Option<Lent>,
}

/// Memory that is counted as in use until it is returned or freed.
#[derive(Debug)]
struct Lent {
    in_use: Rc<Cell<u64>>,
    bytes: u64,
}

impl Lent {
    fn new(in_use: &Rc<Cell<u64>>, bytes: u64) -> Lent {
        in_use.set(in_use.get() + bytes);
        Lent { in_use: Rc::clone(in_use), bytes }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.in_use.set(self.in_use.get() - self.bytes);
    }
}

/// Which side's bytes a buffer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What a client sent.
    Client,
    /// What a server answered.
    Backend,
}

impl Buffer {
    /// Bytes that were read and not consumed.
    pub fn filled(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// The same, mutable.
    pub fn filled_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.end).unwrap_or_default()
    }

    /// Whether nothing is left to consume.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The total capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Drops `count` bytes at the front.
    pub fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start = (self.start + count).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Drops `count` bytes at the front and leaves nothing of them in memory.
    pub fn wipe(&mut self, count: usize) {
        self.filled_mut().iter_mut().take(count).for_each(|byte| *byte = 0);
        self.consume(count);
    }

    /// Appends bytes, growing if needed.
    pub fn append(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        if let Some(place) = self.bytes.get_mut(self.end..self.end + bytes.len()) {
            place.copy_from_slice(bytes);
            self.end += bytes.len();
        }
    }

    /// Makes sure that `more` bytes fit after the filled ones: moves them to the front, and grows if that is not
    /// enough.
    pub fn make_room(&mut self, more: usize) {
        if self.bytes.len() - self.end >= more {
            return;
        }
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.bytes.len() - self.end < more {
            let capacity = (self.end + more).next_power_of_two().max(self.least());
            self.bytes.resize(capacity, 0);
            if let Some(lent) = &mut self.lent {
                *lent = Lent::new(&lent.in_use, capacity as u64);
            }
        }
    }

    /// Makes room for some of the bytes that a peer has announced: as many as have already arrived, so that memory
    /// grows with what is sent and not with what is announced.
    pub fn make_room_for(&mut self, announced: usize) {
        let filled = self.filled().len();
        let step = if filled < self.least() { self.least() - filled } else { filled };
        self.make_room(announced.min(step));
    }

    /// Its minimum size once it has memory.
    fn least(&self) -> usize {
        if self.lent.is_some() { SMALL } else { LEAST }
    }

    /// Free space after the filled bytes.
    pub fn room(&self) -> usize {
        self.bytes.len() - self.end
    }

    /// Reads once; `Ok(0)` is the end of the stream. There must be free space.
    ///
    /// # Errors
    /// The socket's.
    pub async fn fill(&mut self, stream: &Stream) -> io::Result<usize> {
        let count = stream.read(self.bytes.get_mut(self.end..).unwrap_or_default()).await?;
        self.end += count;
        Ok(count)
    }

    /// Reads what has arrived; `Ok(0)` is the end of the stream. There must be free space.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has arrived.
    pub fn try_fill(&mut self, stream: &Stream) -> io::Result<usize> {
        let count = stream.try_read(self.bytes.get_mut(self.end..).unwrap_or_default())?;
        self.end += count;
        Ok(count)
    }
}

/// A worker's spare buffers. Idle clients hold none.
#[derive(Debug, Default)]
pub struct BufferPool {
    small: RefCell<Vec<Vec<u8>>>,
    large: RefCell<Vec<Vec<u8>>>,
    client_bytes: Rc<Cell<u64>>,
    backend_bytes: Rc<Cell<u64>>,
}

impl BufferPool {
    /// A buffer for commands and short answers.
    pub fn small(&self, side: Side) -> Buffer {
        self.take(&self.small, SMALL, side)
    }

    /// A buffer for results that stream.
    pub fn large(&self, side: Side) -> Buffer {
        self.take(&self.large, LARGE, side)
    }

    fn take(&self, spare: &RefCell<Vec<Vec<u8>>>, size: usize, side: Side) -> Buffer {
        let bytes = spare.borrow_mut().pop().unwrap_or_else(|| vec![0; size]);
        let in_use = match side {
            Side::Client => &self.client_bytes,
            Side::Backend => &self.backend_bytes,
        };
        Buffer { bytes, start: 0, end: 0, lent: Some(Lent::new(in_use, size as u64)) }
    }

    /// Bytes of buffers in use, for clients and for servers.
    pub fn in_use(&self) -> (u64, u64) {
        (self.client_bytes.get(), self.backend_bytes.get())
    }

    /// Bytes of spare buffers.
    pub fn spare(&self) -> u64 {
        (self.small.borrow().len() * SMALL + self.large.borrow().len() * LARGE) as u64
    }

    /// Takes a buffer back; it is freed if it has grown, or if there are enough spares.
    pub fn give_back(&self, buffer: Buffer) {
        let (spare, keep) = match buffer.bytes.len() {
            SMALL => (&self.small, SPARE_SMALL),
            LARGE => (&self.large, SPARE_LARGE),
            _ => return,
        };
        let mut spare = spare.borrow_mut();
        if spare.len() < keep {
            spare.push(buffer.bytes);
        }
    }
}

/// Holds a login, or the answer to a command of our own: the initial size of buffers that are not from a worker's pool.
const LEAST: usize = 1024;

/// Holds a command of an OLTP application, or its answer, in one read.
pub const SMALL: usize = 16 * 1024;

/// Large enough that the cost of a system call is small compared with that of copying.
pub const LARGE: usize = 256 * 1024;

/// Spare buffers kept per worker: 4 MiB of each size.
const SPARE_SMALL: usize = 256;
const SPARE_LARGE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: usize = 4;

    #[test]
    fn grows_and_keeps_what_was_not_consumed() {
        let pool = BufferPool::default();
        let mut buffer = pool.small(Side::Client);
        buffer.append(b"abcdef");
        buffer.consume(2);
        buffer.make_room(SMALL);
        assert_eq!(buffer.filled(), b"cdef");
        assert!(buffer.room() >= SMALL);
        assert_eq!(pool.in_use(), (2 * SMALL as u64, 0), "it has grown");
        pool.give_back(buffer);
        assert_eq!(pool.in_use(), (0, 0));
        assert!(pool.small.borrow().is_empty(), "a buffer that has grown is freed");
    }

    #[test]
    fn grows_with_what_came_and_not_with_what_was_announced() {
        let mut buffer = Buffer::default();
        buffer.make_room_for(HEADER);
        assert_eq!(buffer.capacity(), LEAST);
        buffer.append(b"head");
        buffer.make_room_for(16 << 20);
        assert_eq!(buffer.capacity(), LEAST);
        let mut most = 0;
        while buffer.filled().len() < 1 << 20 {
            let came = buffer.filled().len();
            buffer.make_room_for((16 << 20) - came);
            assert!(buffer.room() > 0 && buffer.capacity() <= 4 * came.max(LEAST), "{came}");
            most += 1;
            buffer.append(&vec![1; buffer.room()]);
        }
        assert!(most <= 12, "{most} steps");
    }

    #[test]
    fn lends_the_same_memory_again() {
        let pool = BufferPool::default();
        let mut buffer = pool.small(Side::Backend);
        assert_eq!((pool.in_use(), pool.spare()), ((0, SMALL as u64), 0));
        buffer.append(b"secret");
        pool.give_back(buffer);
        assert_eq!((pool.in_use(), pool.spare()), ((0, 0), SMALL as u64));
        assert!(pool.small(Side::Backend).is_empty());
        assert!(pool.small.borrow().is_empty());
    }
}
