//! The shared memory: how it is laid out, and who may touch what.
//!
//! While the worker process lives, a slot is touched by the thread that has the connection, and by nobody else; afterwards
//! by the keeper, alone. So nothing is ever waited for. Numbers are atomics only because both processes have the memory:
//! stores are made in the order in which they are written here (`Release`), so that what counts is valid when it is seen.

use std::cell::{RefCell, UnsafeCell};
use std::io;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use narrows_wire::auth::Nonce;

/// What is known of one client connection; its number is that of its descriptor.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot {
    /// The kernel's name of the socket (`SO_COOKIE`): a slot that has another one is of a connection that is gone.
    pub(super) cookie: AtomicU64,
    /// A [`Phase`] with flags.
    pub(super) phase: AtomicU32,
    /// What Narrows calls the connection.
    pub(super) id: AtomicU32,
    /// Bytes that were read of the client, and written to it.
    pub(super) read: AtomicU64,
    pub(super) written: AtomicU64,
    /// Bytes that were written before the answer to a command that may run again; [`NOWHERE`] for any other one.
    pub(super) before: AtomicU64,
    /// Bytes that will have been written at the end of the answer ([`Phase::Answered`]).
    pub(super) mark: AtomicU64,
    /// Bytes read up to the command at hand, or to the next one.
    pub(super) resume: AtomicU64,
    /// Bytes read up to the end of the command at hand.
    pub(super) next: AtomicU64,
    /// Bytes read before the first one in the area; [`NOWHERE`] when some were read that are not in it.
    pub(super) base: AtomicU64,
    /// Capabilities in the greeting.
    pub(super) offered: AtomicU64,
    /// The area that has what was read of the command at hand, and what stands behind it: its number and one; 0: none.
    pub(super) area: AtomicU32,
    /// Bytes of the greeting.
    pub(super) greeting: AtomicU32,
    /// Bytes that the client has sent to log in.
    pub(super) login: AtomicU32,
    /// Bytes of the session's state, behind those of the login.
    pub(super) state: AtomicU32,
    /// Status flags of the last answer.
    pub(super) status: AtomicU32,
    /// Whether a read or a write is under way, of a socket whose bytes the kernel does not count.
    pub(super) transfers: AtomicU32,
    pub(super) nonce: UnsafeCell<Nonce>,
    pub(super) bytes: UnsafeCell<[u8; BYTES]>,
}

// SAFETY: the cells are touched by the one thread that has the connection; see the head of this file.
unsafe impl Sync for Slot {}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Phase {
    /// Nothing can be gone on with.
    Lost = 0,
    /// It is logging in: all that was read is in the slot.
    Login = 1,
    /// No command runs, or it has not left this process: what was read of it is in the area.
    Idle = 2,
    /// A read runs that may run once more.
    Running = 3,
    /// The client may have a part of its answer.
    Answering = 4,
    /// The same, and when the client has it up to the mark the session is idle.
    Answered = 5,
    /// A command runs.
    Busy = 6,
    /// The same, and it will leave nothing behind that is tied to this process: once the client has its answer.
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

/// How many processes were killed with this very command or login at hand.
pub(super) const TRIES: u32 = 0xF00;
pub(super) const ONE_TRY: u32 = 0x100;

/// A read that has run so many times when a process was killed does not run again: it may be why the machine runs out of
/// memory. What no server has had yet may wait for more processes.
pub(super) const MOST_RUNS: u32 = 3 * ONE_TRY;

/// `LAST_INSERT_ID()` may be another than 0.
pub(super) const INSERTED: u32 = 0x1000;

/// No place among the bytes that were read or written.
pub(super) const NOWHERE: u64 = u64::MAX;

/// Room for a login and a state: some 250 bytes of the usual clients' logins, and as many of a state.
pub(super) const BYTES: usize = 640;

/// Bytes of one slot.
pub const SLOT: usize = 768;

/// Bytes of one area: a command that is longer is not run again.
pub const AREA: usize = 2048;

/// Areas in all. One is in use for each command that runs; when there are none left, commands are not kept.
const AREAS: usize = 16 * 1024;

/// Bytes of one packet of the way between two processes (`transfer.rs`).
pub(super) const PENDING: usize = 96 * 1024;

const _: () = assert!(size_of::<Slot>() == SLOT && size_of::<Head>() <= HEAD);

/// What the whole process has noted.
#[derive(Debug)]
#[repr(C)]
struct Head {
    /// Nothing is to be gone on with: the process ends as it was told to.
    is_over: AtomicU32,
    /// No slot above this one was used.
    highest: AtomicU32,
    next_id: AtomicU32,
    next_area: AtomicU32,
    /// Ports that clients connect to; 0: none.
    ports: [AtomicU32; PORTS],
    /// Descriptors by which the ends of the keepers are seen, and one; 0: none that was not looked at yet.
    keepers: [AtomicU32; 2],
    /// One of the keepers sends what the process has left.
    is_claimed: AtomicU32,
    /// Bytes of the packet that is being gone on with; 0: none.
    pending: AtomicU32,
}

/// Ports that can be noted: above what anybody configures.
const PORTS: usize = 64;

/// Bytes before the slots.
const HEAD: usize = 4096;

/// The shared memory. It is there as long as the process.
#[derive(Debug, Clone, Copy)]
pub struct SlotTable {
    start: NonNull<u8>,
    slots: usize,
}

// SAFETY: it is a pointer to memory that is never unmapped; what it leads to is `Sync`.
unsafe impl Send for SlotTable {}
// SAFETY: as above.
unsafe impl Sync for SlotTable {}

static SLOT_TABLE: OnceLock<SlotTable> = OnceLock::new();

/// The slot table of this process, if its connections are kept.
pub fn slot_table() -> Option<SlotTable> {
    SLOT_TABLE.get().copied()
}

/// Notes in `slot_table` from now on. To be called once, before anything is served.
pub fn use_slot_table(slot_table: SlotTable) {
    let _ = SLOT_TABLE.set(slot_table);
}

thread_local! {
    /// Areas that this thread has used before; the one used last comes first, since it is in the processor's cache.
    static FREE: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

impl SlotTable {
    /// Memory for connections whose descriptors are below `descriptors`. None of it is taken of the machine before it is
    /// used.
    ///
    /// # Errors
    /// As `mmap(2)`.
    pub fn new(descriptors: usize) -> io::Result<SlotTable> {
        let slots = descriptors.min(MOST_SLOTS);
        let length = HEAD + slots * SLOT + AREAS * AREA + PENDING;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping; nothing else is there.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("memory at address 0"))?;
        Ok(SlotTable { start, slots })
    }

    fn head(&self) -> &'static Head {
        // SAFETY: the mapping begins with it, zeroed, at the start of a page, and is never unmapped.
        unsafe { self.start.cast::<Head>().as_ref() }
    }

    /// The slot of a descriptor; `None` where there is no room for it.
    pub fn slot(&self, descriptor: i32) -> Option<&'static Slot> {
        let index = usize::try_from(descriptor).ok().filter(|index| *index < self.slots)?;
        // SAFETY: within the mapping, which is never unmapped, and aligned, since the mapping begins with a page.
        Some(unsafe { self.start.add(HEAD + index * SLOT).cast::<Slot>().as_ref() })
    }

    /// The bytes of an area.
    pub(super) fn area(&self, number: u32) -> Option<NonNull<[u8; AREA]>> {
        let index = usize::try_from(number).ok()?.checked_sub(1).filter(|index| *index < AREAS)?;
        // SAFETY: within the mapping.
        Some(unsafe { self.start.add(HEAD + self.slots * SLOT + index * AREA).cast() })
    }

    /// An area that nobody uses; 0 when there is none.
    pub(super) fn take_area(&self) -> u32 {
        let used_before = FREE.with_borrow_mut(Vec::pop);
        used_before.unwrap_or_else(|| {
            let fresh = self.head().next_area.fetch_add(1, Ordering::Relaxed);
            if (fresh as usize) < AREAS { fresh + 1 } else { 0 }
        })
    }

    pub(super) fn give_back_area(number: u32) {
        if number != 0 {
            // A thread that ends has no use for it.
            let _ = FREE.try_with(|free| free.borrow_mut().push(number));
        }
    }

    /// Notes that the slot of this descriptor is in use.
    pub(super) fn touch(&self, descriptor: i32) {
        let number = u32::try_from(descriptor).unwrap_or_default();
        self.head().highest.fetch_max(number, Ordering::Release);
    }

    /// The highest descriptor that was used for a client.
    pub fn highest(&self) -> i32 {
        i32::try_from(self.head().highest.load(Ordering::Acquire)).unwrap_or(i32::MAX)
    }

    /// Notes the number of a connection.
    pub(super) fn note_id(&self, id: u32) {
        self.head().next_id.fetch_max(id.wrapping_add(1), Ordering::Release);
    }

    /// The number that no connection has had yet.
    pub fn next_id(&self) -> u32 {
        self.head().next_id.load(Ordering::Acquire)
    }

    /// Notes the ports that clients connect to.
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

    /// Notes by which descriptor the end of a keeper is seen.
    pub fn note_keeper(&self, role: usize, end: i32) {
        if let (Some(keeper), Ok(end)) = (self.head().keepers.get(role), u32::try_from(end)) {
            keeper.store(end + 1, Ordering::Release);
        }
    }

    /// What [`SlotTable::note_keeper`] has noted since this was asked last.
    pub fn take_keeper(&self, role: usize) -> Option<i32> {
        let number = self.head().keepers.get(role)?.swap(0, Ordering::AcqRel);
        i32::try_from(number.checked_sub(1)?).ok()
    }

    /// True for the first keeper that asks: it is to send what the process has left.
    pub fn claim_transfer(&self) -> bool {
        self.head().is_claimed.swap(1, Ordering::AcqRel) == 0
    }

    fn pending_start(&self) -> NonNull<u8> {
        // SAFETY: within the mapping.
        unsafe { self.start.add(HEAD + self.slots * SLOT + AREAS * AREA) }
    }

    /// Notes what is known of connections that are about to be received: `fill` puts it into the memory that it is given, and
    /// returns how much that is. For one thread of the process.
    pub(super) fn note_pending(&self, fill: impl FnOnce(&mut [u8]) -> usize) {
        self.settle_pending();
        // SAFETY: within the mapping; the keeper looks at it only when this process has ended, and in this one a thread alone.
        let place = unsafe { std::slice::from_raw_parts_mut(self.pending_start().as_ptr(), PENDING) };
        let length = fill(place).min(PENDING);
        self.head().pending.store(u32::try_from(length).unwrap_or_default(), Ordering::Release);
    }

    /// Everything that was pending is gone on with, and noted elsewhere.
    pub fn settle_pending(&self) {
        self.head().pending.store(0, Ordering::Release);
    }

    /// What was pending when the process ended; for the keeper.
    pub(super) fn pending(&self) -> &'static [u8] {
        let length = self.head().pending.load(Ordering::Acquire) as usize;
        // SAFETY: within the mapping, filled in before its length was noted; nobody changes it any more.
        unsafe { std::slice::from_raw_parts(self.pending_start().as_ptr(), length.min(PENDING)) }
    }

    /// The process ends as it was told to: its connections end with it.
    pub fn close(&self) {
        self.head().is_over.store(1, Ordering::Release);
    }

    /// Whether the process has ended as it was told to.
    pub fn is_closed(&self) -> bool {
        self.head().is_over.load(Ordering::Acquire) != 0
    }
}

impl Slot {
    pub(super) fn phase(&self) -> Phase {
        Phase::of(self.phase.load(Ordering::Relaxed))
    }

    pub(super) fn flags(&self) -> u32 {
        self.phase.load(Ordering::Relaxed) & !PHASE
    }

    pub(super) fn enter(&self, phase: Phase, flags: u32) {
        self.phase.store(phase as u32 | flags, Ordering::Release);
    }

    /// Whether this is of the socket that the kernel calls so, and something can be gone on with.
    pub fn is_of(&self, cookie: u64) -> bool {
        self.cookie.load(Ordering::Acquire) == cookie
    }

    /// Whether nothing can be gone on with, whatever the kernel says.
    pub fn is_lost(&self) -> bool {
        matches!(self.phase(), Phase::Lost | Phase::Busy | Phase::Writing)
    }
}

/// Connections that can be kept: a tenth of a gigabyte of slots for each 150,000 of them, where they are in use.
const MOST_SLOTS: usize = 1 << 20;
