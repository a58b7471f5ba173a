//! The shared memory: its layout, and who may access what.
//!
//! While the worker process lives, only the thread that serves the connection accesses its slot; after that, only the
//! keeper does. So nobody ever waits. The numbers are atomics only because two processes share the memory: stores happen
//! in program order (`Release`), so that whatever a number refers to is valid by the time the number is seen.

use std::cell::{RefCell, UnsafeCell};
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use narrows_wire::auth::Nonce;

/// What is known about one client connection. Its index in the table is the connection's descriptor.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot {
    /// The kernel's unique id of the socket (`SO_COOKIE`). A slot with a different one belongs to a closed connection.
    pub(super) cookie: AtomicU64,
    /// A [`Phase`] with flags.
    pub(super) phase: AtomicU32,
    /// The connection id.
    pub(super) id: AtomicU32,
    /// Bytes read from the client and written to it.
    pub(super) read: AtomicU64,
    pub(super) written: AtomicU64,
    /// Bytes written before the result of a command that may run again; [`NOWHERE`] for other commands.
    pub(super) before: AtomicU64,
    /// Bytes that will have been written when the result is complete ([`Phase::Answered`]).
    pub(super) mark: AtomicU64,
    /// Bytes read before the current command, or before the next one if none runs.
    pub(super) resume: AtomicU64,
    /// Bytes read up to the end of the current command.
    pub(super) next: AtomicU64,
    /// Bytes read before the first one in the area; [`NOWHERE`] if some of those read since are not in it.
    pub(super) base: AtomicU64,
    /// The capabilities in the greeting.
    pub(super) offered: AtomicU64,
    /// The index plus one of the area that has the bytes of the current command that were read, and what follows it; 0
    /// if there is none.
    pub(super) area: AtomicU32,
    /// The length of the greeting in bytes.
    pub(super) greeting: AtomicU32,
    /// The number of bytes that the client sent to log in.
    pub(super) login: AtomicU32,
    /// The length of the session's state, which follows the login.
    pub(super) state: AtomicU32,
    /// Status flags of the last result.
    pub(super) status: AtomicU32,
    /// Whether a read or a write is in progress on a socket whose bytes the kernel does not count.
    pub(super) transfers: AtomicU32,
    pub(super) nonce: UnsafeCell<Nonce>,
    pub(super) bytes: UnsafeCell<[u8; BYTES]>,
}

// SAFETY: only the thread that serves the connection accesses the cells; see the top of this file.
unsafe impl Sync for Slot {}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Phase {
    /// The connection cannot be continued.
    Lost = 0,
    /// The client is logging in: everything it has sent is in the slot.
    Login = 1,
    /// No command runs, or the current one was not sent to a server yet: the bytes of it that were read are in the
    /// area.
    Idle = 2,
    /// A read is running, which may run again.
    Running = 3,
    /// Like `Running`, and the client may have received part of the result.
    Answering = 4,
    /// Like `Answering`, and the session is idle once the client has received the result up to the mark.
    Answered = 5,
    /// A command is running that may not run again.
    Busy = 6,
    /// Like `Busy`, but nothing is tied to this process once the client has received the result.
    Writing = 7,
}

impl Phase {
    pub(super) fn of(number: u32) -> Phase {
        let all = [
            Phase::Login,
            Phase::Idle,
            Phase::Running,
            Phase::Answering,
            Phase::Answered,
            Phase::Busy,
            Phase::Writing,
        ];
        all.into_iter().find(|phase| *phase as u32 == number & PHASE).unwrap_or(Phase::Lost)
    }
}

const PHASE: u32 = 0xFF;

/// How many processes were killed while they had this same command or login in progress.
pub(super) const TRIES: u32 = 0xF00;
pub(super) const ONE_TRY: u32 = 0x100;

/// A read that was running this many times when a process was killed does not run again: it may be the reason why the
/// machine runs out of memory. Commands that no server has received may be tried by more processes.
pub(super) const MOST_RUNS: u32 = 3 * ONE_TRY;

/// Whether `LAST_INSERT_ID()` may differ from 0.
pub(super) const INSERTED: u32 = 0x1000;

/// No position in the stream of bytes read or written.
pub(super) const NOWHERE: u64 = u64::MAX;

/// Space for a login and a state: common clients need about 250 bytes for each.
pub(super) const BYTES: usize = 640;

/// The size of one slot in bytes.
pub const SLOT: usize = 768;

/// The size of one area in bytes. A longer command does not run again.
pub const AREA: usize = 2048;

/// The number of areas. Each running command uses one; if none is free, commands are not recorded.
const AREAS: usize = 16 * 1024;

/// The size of one packet of a client transfer in bytes (`transfer.rs`).
pub(super) const PENDING: usize = 96 * 1024;

const _: () = assert!(size_of::<Slot>() == SLOT && size_of::<Head>() <= HEAD);

/// The state of the process as a whole.
#[derive(Debug)]
#[repr(C)]
struct Head {
    /// Whether the process is ending as requested, so that no client continues in another one.
    is_over: AtomicU32,
    /// The highest slot that was ever used.
    highest: AtomicU32,
    next_id: AtomicU32,
    next_area: AtomicU32,
    /// The ports that clients connect to; 0 for an unused entry.
    ports: [AtomicU32; PORTS],
    /// The descriptor that shows the end of each keeper, plus one; 0 if there is none that has not been taken yet.
    keepers: [AtomicU32; 2],
    /// Whether one of the keepers sends the clients of the process.
    is_claimed: AtomicU32,
    /// The length of the packet whose connections are being continued; 0 if there is none.
    pending: AtomicU32,
}

/// How many ports can be recorded: more than anybody configures.
const PORTS: usize = 64;

/// The number of bytes before the slots.
const HEAD: usize = 4096;

/// The shared memory, which exists as long as the process.
#[derive(Debug, Clone, Copy)]
pub struct SlotTable {
    start: NonNull<u8>,
    slots: usize,
}

// SAFETY: it is a pointer to memory that is never unmapped, and whose contents are `Sync`.
unsafe impl Send for SlotTable {}
// SAFETY: as above.
unsafe impl Sync for SlotTable {}

static SLOT_TABLE: OnceLock<SlotTable> = OnceLock::new();

/// The slot table of this process, if its clients can outlive it.
pub fn slot_table() -> Option<SlotTable> {
    SLOT_TABLE.get().copied()
}

/// Makes `slot_table` the slot table of this process. Must be called once, before any client is served.
pub fn use_slot_table(slot_table: SlotTable) {
    let _ = SLOT_TABLE.set(slot_table);
}

thread_local! {
    /// Free areas that this thread used before. The one used last is taken first, because it is in the CPU cache.
    static FREE: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

impl SlotTable {
    /// Memory for connections whose descriptors are below `descriptors`. The machine provides a page when it is first
    /// used.
    ///
    /// # Errors
    /// The error of `mmap(2)`.
    pub fn new(descriptors: usize) -> io::Result<SlotTable> {
        let slots = descriptors.min(MOST_SLOTS);
        let length = HEAD + slots * SLOT + AREAS * AREA + PENDING;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, which overlaps no other memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("memory at address 0"))?;
        Ok(SlotTable { start, slots })
    }

    fn head(&self) -> &'static Head {
        // SAFETY: the mapping begins with the head, zeroed, at the start of a page, and is never unmapped.
        unsafe { self.start.cast::<Head>().as_ref() }
    }

    /// The slot of a descriptor; `None` if the table is too small.
    pub fn slot(&self, descriptor: i32) -> Option<&'static Slot> {
        let index = usize::try_from(descriptor).ok().filter(|index| *index < self.slots)?;
        // SAFETY: within the mapping, which is never unmapped, and aligned, since the mapping begins with a page.
        Some(unsafe { self.start.add(HEAD + index * SLOT).cast::<Slot>().as_ref() })
    }

    /// An area. Only the connection that has taken it may use it, until it is given back; and the keeper, later.
    pub(super) fn area(&self, number: u32) -> Option<Place> {
        let index = usize::try_from(number).ok()?.checked_sub(1).filter(|index| *index < AREAS)?;
        // SAFETY: within the mapping.
        let start = unsafe { self.start.add(HEAD + self.slots * SLOT + index * AREA) };
        Some(Place { start, length: AREA })
    }

    /// A free area; 0 if there is none.
    pub(super) fn take_area(&self) -> u32 {
        let used_before = FREE.with_borrow_mut(Vec::pop);
        used_before.unwrap_or_else(|| {
            let next = &self.head().next_area;
            // Once all are taken nothing is counted any more: a number that wraps around would be that of an area in use.
            if next.load(Ordering::Relaxed) as usize >= AREAS {
                return 0;
            }
            let fresh = next.fetch_add(1, Ordering::Relaxed);
            if (fresh as usize) < AREAS { fresh + 1 } else { 0 }
        })
    }

    pub(super) fn give_back_area(number: u32) {
        if number != 0 {
            // A thread that is ending does not need the area.
            let _ = FREE.try_with(|free| free.borrow_mut().push(number));
        }
    }

    /// Records that the slot of this descriptor is in use.
    pub(super) fn touch(&self, descriptor: i32) {
        let number = u32::try_from(descriptor).unwrap_or_default();
        self.head().highest.fetch_max(number, Ordering::Release);
    }

    /// The highest descriptor that was used for a client.
    pub fn highest(&self) -> i32 {
        i32::try_from(self.head().highest.load(Ordering::Acquire)).unwrap_or(i32::MAX)
    }

    /// Records the id of a connection.
    pub(super) fn note_id(&self, id: u32) {
        self.head().next_id.fetch_max(id.wrapping_add(1), Ordering::Release);
    }

    /// The first connection id that was never used.
    pub fn next_id(&self) -> u32 {
        self.head().next_id.load(Ordering::Acquire)
    }

    /// Records the ports that clients connect to.
    pub fn note_ports(&self, ports: &[u16]) {
        let rest = std::iter::repeat(&0);
        for (place, port) in self.head().ports.iter().zip(ports.iter().chain(rest)) {
            place.store((*port).into(), Ordering::Release);
        }
    }

    /// Whether clients connect to this port.
    pub fn has_port(&self, port: u16) -> bool {
        port != 0 && self.head().ports.iter().any(|known| known.load(Ordering::Acquire) == u32::from(port))
    }

    /// Records the descriptor that shows the end of a keeper.
    pub fn note_keeper(&self, role: usize, end: i32) {
        if let (Some(keeper), Ok(end)) = (self.head().keepers.get(role), u32::try_from(end)) {
            keeper.store(end + 1, Ordering::Release);
        }
    }

    /// The descriptor that [`SlotTable::note_keeper`] has recorded since the last call.
    pub fn take_keeper(&self, role: usize) -> Option<i32> {
        let number = self.head().keepers.get(role)?.swap(0, Ordering::AcqRel);
        i32::try_from(number.checked_sub(1)?).ok()
    }

    /// True for the first keeper that calls it: that one sends the clients of the process.
    pub fn claim_transfer(&self) -> bool {
        self.head().is_claimed.swap(1, Ordering::AcqRel) == 0
    }

    fn pending_start(&self) -> NonNull<u8> {
        // SAFETY: within the mapping.
        unsafe { self.start.add(HEAD + self.slots * SLOT + AREAS * AREA) }
    }

    /// Records what is known about connections that are about to be received: `fill` writes it into the given memory,
    /// and returns its length. Only one thread of the process may call this.
    pub(super) fn note_pending(&self, fill: impl FnOnce(&mut [u8]) -> usize) {
        self.settle_pending();
        // SAFETY: within the mapping. In this process only one thread accesses it, and the keeper reads it only after this
        // process has ended.
        let place = unsafe { std::slice::from_raw_parts_mut(self.pending_start().as_ptr(), PENDING) };
        let length = fill(place).min(PENDING);
        self.head().pending.store(u32::try_from(length).unwrap_or_default(), Ordering::Release);
    }

    /// Records that all pending connections have slots of their own.
    pub fn settle_pending(&self) {
        self.head().pending.store(0, Ordering::Release);
    }

    /// The pending connections when the process ended. Only for the keeper.
    pub(super) fn pending(&self) -> &'static [u8] {
        let length = self.head().pending.load(Ordering::Acquire) as usize;
        // SAFETY: within the mapping, written before its length was stored, and not changed any more.
        unsafe { std::slice::from_raw_parts(self.pending_start().as_ptr(), length.min(PENDING)) }
    }

    /// Records that the process is ending as requested: its connections end with it.
    pub fn close(&self) {
        self.head().is_over.store(1, Ordering::Release);
    }

    /// Whether the process has ended as requested.
    pub fn is_closed(&self) -> bool {
        self.head().is_over.load(Ordering::Acquire) != 0
    }
}

/// A part of the shared memory that belongs to one connection. Nobody gets a reference into it that outlives a call: bytes are
/// copied, or it is lent to one read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    start: NonNull<u8>,
    length: usize,
}

impl Place {
    /// How many bytes it has.
    pub(super) fn length(self) -> usize {
        self.length
    }

    /// A part of it; `None` if it is shorter.
    pub(super) fn part(self, range: Range<usize>) -> Option<Place> {
        let length = range.end.checked_sub(range.start)?;
        if range.end > self.length {
            return None;
        }
        // SAFETY: within this place.
        Some(Place { start: unsafe { self.start.add(range.start) }, length })
    }

    /// Writes these bytes at its beginning; false if it is shorter.
    pub(super) fn put(self, bytes: &[u8]) -> bool {
        self.part(0..bytes.len()).is_some_and(|part| {
            // SAFETY: of this length, in the mapping, which is never unmapped. The bytes are elsewhere, because there is no
            // reference to a place other than in `lend`, which calls nothing that has one.
            unsafe { part.start.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
            true
        })
    }

    /// Copies its first bytes; false if it is shorter.
    pub(super) fn get(self, bytes: &mut [u8]) -> bool {
        self.part(0..bytes.len()).is_some_and(|part| {
            let length = bytes.len();
            // SAFETY: as in `put`.
            unsafe { part.start.copy_to_nonoverlapping(NonNull::from(bytes).cast(), length) };
            true
        })
    }

    /// Whether its content is this.
    pub(super) fn holds(self, bytes: &[u8]) -> bool {
        let mut found = vec![0; self.length];
        self.length == bytes.len() && self.get(&mut found) && found == bytes
    }

    /// Lends it to a read from a socket.
    ///
    /// # Safety
    /// It must belong to the connection that the calling thread serves, and `read` must use no other place of that connection.
    pub(super) unsafe fn lend<T>(self, read: impl FnOnce(&mut [u8]) -> T) -> T {
        // SAFETY: within the mapping, initialised, and used by nobody else meanwhile, as the caller ensures.
        read(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) })
    }
}

impl Slot {
    /// The login and the state. Only the thread that serves the connection may use it; and the keeper, later.
    pub(super) fn place(&self) -> Place {
        Place { start: NonNull::from(&self.bytes).cast(), length: BYTES }
    }

    pub(super) fn phase(&self) -> Phase {
        Phase::of(self.phase.load(Ordering::Relaxed))
    }

    pub(super) fn flags(&self) -> u32 {
        self.phase.load(Ordering::Relaxed) & !PHASE
    }

    pub(super) fn enter(&self, phase: Phase, flags: u32) {
        self.phase.store(phase as u32 | flags, Ordering::Release);
    }

    /// Whether this is the slot of the socket with this kernel id.
    pub fn is_of(&self, cookie: u64) -> bool {
        self.cookie.load(Ordering::Acquire) == cookie
    }

    /// Whether the connection cannot be continued, whatever the kernel has counted.
    pub fn is_lost(&self) -> bool {
        matches!(self.phase(), Phase::Lost | Phase::Busy | Phase::Writing)
    }
}

/// The maximum number of connections with a slot. 150,000 slots in use take about 115 MB.
const MOST_SLOTS: usize = 1 << 20;
