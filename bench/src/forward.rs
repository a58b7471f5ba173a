//! A bare forwarder: it finds the ends of packets in both directions, and does nothing else.
//!
//! Any MySQL proxy must do at least this much, so its cost is the floor of the comparison. Each client gets a
//! connection of its own to the backend; the login passes through unchanged. One thread, one poll.

use std::io::{self, Write};

use mio::{Events, Interest, Poll, Registry, Token};
use slab::Slab;

use crate::codec::Walker;
use crate::socket::{Address, Listener, Stream};

const LISTENER: Token = Token(usize::MAX);
const READ_BYTES: usize = 128 << 10;
/// How often one socket is read before the others have their turn.
const READS_PER_TURN: usize = 16;

/// Prints its address and forwards until the process ends.
pub fn run(address: &Address, backend: &Address) -> io::Result<()> {
    let mut listener = Listener::bind(address)?;
    writeln!(io::stdout().lock(), "listening on {}", listener.address(address)?)?;
    serve(&mut listener, backend)
}

/// Forwards the clients of a listener; returns only with an error of the poll or of the listener.
pub fn serve(listener: &mut Listener, backend: &Address) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1024);
    poll.registry().register(listener, LISTENER, Interest::READABLE)?;
    let mut pairs: Slab<Pair> = Slab::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                accept_all(listener, backend, poll.registry(), &mut pairs)?;
                continue;
            }
            let (index, side) = (event.token().0 / 2, event.token().0 % 2);
            let Some(pair) = pairs.get_mut(index) else { continue };
            let read_closed = event.is_read_closed();
            match pair.turn(side, &mut buffer, read_closed, event.is_writable(), poll.registry(), index) {
                Ok(Flow::Open) => {}
                Ok(Flow::Closed) | Err(_) => drop(pairs.remove(index)),
            }
        }
    }
}

fn accept_all(
    listener: &Listener,
    backend: &Address,
    registry: &Registry,
    pairs: &mut Slab<Pair>,
) -> io::Result<()> {
    while let Some(client) = listener.accept()? {
        let slot = pairs.vacant_entry();
        let mut pair = Pair { sides: [Side::new(client), Side::new(Stream::connect(backend)?)] };
        for (index, side) in pair.sides.iter_mut().enumerate() {
            let token = Token(slot.key() * 2 + index);
            registry.register(&mut side.stream, token, Interest::READABLE | Interest::WRITABLE)?;
        }
        slot.insert(pair);
    }
    Ok(())
}

/// Whether a pair continues.
enum Flow {
    Open,
    Closed,
}

/// A client (side 0) and its backend connection (side 1).
#[derive(Debug)]
struct Pair {
    sides: [Side; 2],
}

#[derive(Debug)]
struct Side {
    stream: Stream,
    /// Finds the ends of packets from this side.
    walker: Walker,
    packets: u64,
    /// What this side's socket has not accepted yet; until it has, the other side is not read.
    unsent: Vec<u8>,
}

impl Side {
    fn new(stream: Stream) -> Side {
        Side { stream, walker: Walker::default(), packets: 0, unsent: Vec::new() }
    }
}

impl Pair {
    /// Handles an event of one side: writes what waits for it, and forwards what it sent to the other side.
    fn turn(
        &mut self,
        side: usize,
        buffer: &mut [u8],
        read_closed: bool,
        writable: bool,
        registry: &Registry,
        index: usize,
    ) -> io::Result<Flow> {
        if writable && !self.sides[side].unsent.is_empty() {
            let Side { stream, unsent, .. } = &mut self.sides[side];
            let written = stream.write_some(unsent)?;
            unsent.drain(..written);
            if unsent.is_empty() {
                // The other side was not read in the meantime, and there will be no new event for it: read it now.
                return self.pump(1 - side, buffer, true, registry, index);
            }
        }
        self.pump(side, buffer, read_closed, registry, index)
    }

    /// Moves bytes from one side to the other until there are none left, or the other accepts no more.
    fn pump(
        &mut self,
        from: usize,
        buffer: &mut [u8],
        read_closed: bool,
        registry: &Registry,
        index: usize,
    ) -> io::Result<Flow> {
        let [client, backend] = &mut self.sides;
        let (source, sink) = if from == 0 { (client, backend) } else { (backend, client) };
        for _ in 0..READS_PER_TURN {
            if !sink.unsent.is_empty() {
                return Ok(Flow::Open);
            }
            let count = match source.stream.read_some(buffer)? {
                None => return Ok(Flow::Open),
                Some(0) => return Ok(Flow::Closed),
                Some(count) => count,
            };
            let bytes = &buffer[..count];
            source.walker.feed(bytes, |_| source.packets += 1);
            let written = sink.stream.write_some(bytes)?;
            sink.unsent.extend_from_slice(&bytes[written..]);
            if count < buffer.len() && !read_closed {
                return Ok(Flow::Open);
            }
        }
        let token = Token(index * 2 + from);
        registry.reregister(&mut source.stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Flow::Open)
    }
}
