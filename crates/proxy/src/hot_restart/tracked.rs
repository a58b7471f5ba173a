//! A client's socket whose state is recorded in the slot table. The entire cost of hot restart for a statement is in
//! this file.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::slot_table::{AREA, BYTES, INSERTED, NOWHERE, Phase, Place, Slot, SlotTable, TRIES, slot_table};
use super::socket_info::cookie;
use super::{Output, RestoredClient, SentGreeting};
use crate::rt::{DetachedSocket, Socket};
use crate::state::SessionState;

/// A client's socket, with its slot.
#[derive(Debug)]
pub struct TrackedSocket {
    // Dropped before the socket.
    entry: SlotGuard,
    pub(crate) socket: Socket,
}

/// What may be done with a command that is running when the process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    /// It may run again, because it only reads.
    Again,
    /// It must not run again, and leaves nothing that is tied to the process.
    Once,
    /// It is unknown until its end whether it leaves something that is tied to the process.
    Tied,
}

/// The right to a slot. When it is dropped, the connection can no longer be continued.
#[derive(Debug)]
pub struct SlotGuard {
    slot: &'static Slot,
    /// Output that the client already received from another process.
    output: Cell<Output>,
    /// Whether the kernel counts the bytes that pass through the socket.
    is_counted: bool,
    /// Whether the session's state has changed since it was recorded.
    has_new_state: Cell<bool>,
}

impl SlotGuard {
    /// Takes a slot for a new connection; `None` if there is none.
    pub(crate) fn begin(socket: &Socket) -> Option<SlotGuard> {
        let is_counted = matches!(socket, Socket::Tcp(_));
        SlotGuard::open(slot_table()?, socket.descriptor(), is_counted, |slot| slot.enter(Phase::Login, 0))
    }

    fn open(
        slot_table: SlotTable,
        descriptor: i32,
        is_counted: bool,
        fill: impl FnOnce(&Slot),
    ) -> Option<SlotGuard> {
        let slot = slot_table.slot(descriptor)?;
        let cookie = cookie(descriptor).ok()?;
        // The slot may have the contents of a closed connection.
        slot.cookie.store(0, Release);
        slot.enter(Phase::Lost, 0);
        for number in [&slot.read, &slot.written, &slot.mark, &slot.resume, &slot.next, &slot.offered] {
            number.store(0, Relaxed);
        }
        for number in [&slot.area, &slot.greeting, &slot.login, &slot.state, &slot.status, &slot.transfers] {
            number.store(0, Relaxed);
        }
        slot.base.store(NOWHERE, Relaxed);
        slot.before.store(NOWHERE, Relaxed);
        fill(slot);
        slot_table.touch(descriptor);
        slot.cookie.store(cookie, Release);
        Some(SlotGuard {
            slot,
            output: Cell::new(Output::Wanted),
            is_counted,
            has_new_state: Cell::new(true),
        })
    }

    /// Takes a slot for a connection of another process.
    pub(crate) fn adopt(socket: &DetachedSocket, restored: &RestoredClient) -> Option<SlotGuard> {
        let slot_table = slot_table()?;
        let is_counted = matches!(socket, DetachedSocket::Tcp(_));
        let entry = SlotGuard::open(slot_table, socket.descriptor(), is_counted, |slot| {
            slot.read.store(restored.read, Relaxed);
            slot.written.store(restored.written, Relaxed);
            put(slot, 0, &restored.login);
            if let Some(sent) = &restored.sent_greeting {
                note_greeting(slot, sent, restored.greeting);
                slot_table.note_id(sent.id);
            }
            let tried = restored.tried;
            let Some(session) = &restored.session else { return slot.enter(Phase::Login, tried) };
            slot.login.store(length(&restored.login), Relaxed);
            slot.status.store(session.status.into(), Relaxed);
            put(slot, restored.login.len(), &session.state);
            slot.state.store(length(&session.state), Relaxed);
            let resume = restored.read - session.pending.len() as u64;
            slot.resume.store(resume, Relaxed);
            if !session.pending.is_empty() {
                let number = slot_table.take_area();
                let Some(area) = slot_table.area(number) else { return };
                area.put(&session.pending);
                slot.base.store(resume, Release);
                slot.area.store(number, Release);
            }
            slot.enter(Phase::Idle, tried | if session.inserted { INSERTED } else { 0 });
        })?;
        entry.output.set(restored.output);
        Some(entry)
    }

    fn phase(&self) -> Phase {
        self.slot.phase()
    }

    fn enter(&self, phase: Phase) {
        self.slot.enter(phase, self.slot.flags());
    }

    /// From now on the connection cannot be continued, and the login is erased.
    fn forget(&self) {
        self.enter(Phase::Lost);
        put(self.slot, 0, &[0; BYTES]);
    }

    fn give_back_area(&self) {
        let number = self.slot.area.load(Relaxed);
        if number != 0 {
            self.slot.area.store(0, Release);
            SlotTable::give_back_area(number);
        }
    }

    /// The part of the area to read into, so that the bytes are not lost with this process; and how many bytes were read
    /// before.
    fn place(&self) -> Option<(Place, u64)> {
        let (slot, slot_table) = (self.slot, slot_table()?);
        let read = slot.read.load(Relaxed);
        let mut number = slot.area.load(Relaxed);
        if number == 0 {
            if self.phase() != Phase::Idle || slot.resume.load(Relaxed) != read {
                return None;
            }
            number = slot_table.take_area();
            slot.base.store(read, Release);
            slot.area.store(number, Release);
        }
        let base = slot.base.load(Relaxed);
        let used = usize::try_from(read.checked_sub(base)?).ok()?;
        let place = slot_table.area(number)?.part(used..AREA)?;
        (place.length() > 0).then_some((place, read))
    }

    fn read_with(
        &self,
        buffer: &mut [u8],
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let slot = self.slot;
        match self.phase() {
            Phase::Lost => return read(&mut [IoSliceMut::new(buffer)]),
            Phase::Login => {
                let before = slot.read.load(Relaxed);
                let range = usize::try_from(before).unwrap_or(BYTES)..BYTES;
                let place = slot.place().part(range).filter(|place| place.length() > 0);
                let Some(place) = place.and_then(|place| place.part(0..place.length().min(buffer.len())))
                else {
                    self.forget();
                    return read(&mut [IoSliceMut::new(buffer)]);
                };
                // SAFETY: this connection's slot; `read` only reads from its socket.
                let count =
                    unsafe { place.lend(|place| self.transfer(|| read(&mut [IoSliceMut::new(place)]))) }?;
                place.get(&mut buffer[..count]);
                self.count_read(before, count);
                return Ok(count);
            }
            _ => {}
        }
        let Some((place, before)) = self.place() else {
            // This is recorded before the read: if bytes are missing, the next process must not look for them in the
            // area.
            slot.base.store(NOWHERE, Release);
            let before = slot.read.load(Relaxed);
            let count = self.transfer(|| read(&mut [IoSliceMut::new(buffer)]))?;
            self.count_read(before, count);
            return Ok(count);
        };
        let room = place.length().min(buffer.len());
        let place = place.part(0..room).expect("no more than it has");
        let (front, rest) = buffer.split_at_mut(room);
        let read = |place: &mut [u8]| match rest.is_empty() {
            true => read(&mut [IoSliceMut::new(place)]),
            false => read(&mut [IoSliceMut::new(place), IoSliceMut::new(rest)]),
        };
        // SAFETY: this connection owns the area until it is given back; `read` only reads from its socket.
        let count = unsafe { place.lend(|place| self.transfer(|| read(place))) };
        match count {
            Ok(count) => {
                place.get(&mut front[..count.min(room)]);
                self.count_read(before, count);
                Ok(count)
            }
            Err(error) => {
                if slot.resume.load(Relaxed) == before {
                    self.give_back_area();
                }
                Err(error)
            }
        }
    }

    fn transfer<T>(&self, transfer: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.is_counted {
            return transfer();
        }
        self.slot.transfers.store(1, Release);
        let done = transfer();
        if done.is_err() {
            self.slot.transfers.store(0, Release);
        }
        done
    }

    fn count_read(&self, before: u64, count: usize) {
        self.slot.read.store(before + count as u64, Release);
        self.ends_transfer();
    }

    fn count_written(&self, count: usize) {
        self.slot.written.store(self.slot.written.load(Relaxed) + count as u64, Release);
        self.ends_transfer();
    }

    fn ends_transfer(&self) {
        if !self.is_counted {
            self.slot.transfers.store(0, Release);
        }
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.forget();
        self.slot.cookie.store(0, Release);
        self.give_back_area();
    }
}

impl TrackedSocket {
    /// A socket and its slot.
    pub(crate) fn new(socket: Socket, entry: SlotGuard) -> TrackedSocket {
        TrackedSocket { entry, socket }
    }

    pub(crate) fn into_parts(self) -> (Socket, SlotGuard) {
        (self.socket, self.entry)
    }

    /// Reads what has arrived; `Ok(0)` is the end.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.entry.read_with(buffer, |places| match places {
            [place] => self.socket.try_read(place),
            places => self.socket.try_read_vectored(places),
        })
    }

    /// Writes as much of `bytes` as the socket accepts, without what the client has already received, and leaves the
    /// rest in `bytes`. Returns whether everything is written.
    pub(crate) fn try_write_all(&self, bytes: &mut &[u8]) -> io::Result<bool> {
        let entry = &self.entry;
        match entry.output.get() {
            Output::Wanted => {}
            Output::AllButTheEnd => {
                *bytes = &[];
                return Ok(true);
            }
            Output::Had(had) => {
                let left = had
                    .checked_sub(bytes.len() as u64)
                    .ok_or_else(|| io::Error::other("the former process answered the login differently"))?;
                entry.output.set(if left == 0 { Output::Wanted } else { Output::Had(left) });
                *bytes = &[];
                return Ok(true);
            }
        }
        match entry.phase() {
            Phase::Running => entry.enter(Phase::Answering),
            Phase::Idle => entry.enter(Phase::Busy),
            _ => {}
        }
        while !bytes.is_empty() {
            match entry.transfer(|| self.socket.try_write(bytes)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    entry.count_written(count);
                    *bytes = bytes.get(count..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Records that a greeting of `greeting` bytes is about to be written.
    pub(crate) fn greets(&self, sent: &SentGreeting, greeting: usize) {
        note_greeting(self.entry.slot, sent, u32::try_from(greeting).unwrap_or_default());
        if let Some(slot_table) = slot_table() {
            slot_table.note_id(sent.id);
        }
    }

    /// Records that the login is complete, and everything after it must be sent. False if the former process sent more
    /// or less than this one.
    pub(crate) fn has_logged_in(&self) -> bool {
        let had = self.entry.output.replace(Output::Wanted);
        !matches!(had, Output::Had(_))
    }

    /// Records that the session is idle, in a state that can be continued; `rest` bytes were read and not processed
    /// yet.
    pub(crate) fn rests(&self, rest: usize, status: u16, inserted: bool, state: &SessionState) {
        let (entry, slot) = (&self.entry, self.entry.slot);
        let phase = entry.phase();
        if phase == Phase::Lost {
            return;
        }
        let position = slot.read.load(Relaxed).saturating_sub(rest as u64);
        let is_same_command = rest > 0 && phase == Phase::Idle && slot.resume.load(Relaxed) == position;
        let tried = if is_same_command { slot.flags() & TRIES } else { 0 };
        if slot.login.load(Relaxed) == 0 {
            slot.login.store(u32::try_from(position).unwrap_or_default(), Release);
        }
        if entry.has_new_state.get() {
            if !note_state(slot, state, phase) {
                return entry.enter(Phase::Busy);
            }
            entry.has_new_state.set(false);
        }
        let is_held = slot.area.load(Relaxed) != 0 && slot.base.load(Relaxed) <= position;
        slot.status.store(status.into(), Release);
        slot.resume.store(position, Release);
        if rest > 0 && !is_held {
            return entry.enter(Phase::Busy);
        }
        slot.enter(Phase::Idle, tried | if inserted { INSERTED } else { 0 });
        if rest == 0 {
            entry.give_back_area();
        }
    }

    /// Records that the session's state has changed.
    pub(crate) fn has_new_state(&self) {
        self.entry.has_new_state.set(true);
    }

    /// Records that a command is about to be sent to a server; `ahead` bytes that follow it were already read.
    pub(crate) fn runs(&self, ahead: usize, run: Run) {
        let (entry, slot) = (&self.entry, self.entry.slot);
        if entry.phase() == Phase::Idle {
            slot.next.store(slot.read.load(Relaxed).saturating_sub(ahead as u64), Release);
            let before = if run == Run::Again { slot.written.load(Relaxed) } else { NOWHERE };
            slot.before.store(before, Release);
            entry.enter(match run {
                Run::Again => Phase::Running,
                Run::Once => Phase::Writing,
                Run::Tied => Phase::Busy,
            });
        }
    }

    /// Records that `length` bytes are about to be written, after which the session is idle, in the same state as
    /// before the command except for `LAST_INSERT_ID()`.
    pub(crate) fn answer_ends(&self, length: usize, inserted: bool) {
        if matches!(self.entry.phase(), Phase::Running | Phase::Answering | Phase::Writing) {
            let slot = self.entry.slot;
            let mark = slot.written.load(Relaxed) + length as u64;
            slot.mark.store(mark, Release);
            slot.enter(Phase::Answered, slot.flags() | if inserted { INSERTED } else { 0 });
        }
    }

    /// Records that the session is in a state that cannot be continued.
    pub(crate) fn is_tied(&self) {
        if self.entry.phase() != Phase::Lost {
            self.entry.enter(Phase::Busy);
        }
    }

    /// Records that the connection can never be continued.
    pub(crate) fn forget(&self) {
        self.entry.forget();
    }
}

fn note_greeting(slot: &Slot, sent: &SentGreeting, greeting: u32) {
    slot.id.store(sent.id, Relaxed);
    slot.offered.store(sent.offered.0, Relaxed);
    // SAFETY: the calling thread serves the connection, and so owns the slot.
    unsafe { *slot.nonce.get() = sent.nonce };
    slot.greeting.store(greeting, Release);
}

/// Records the state, after the login; false if the slot is too small for it.
fn note_state(slot: &Slot, state: &SessionState, phase: Phase) -> bool {
    let mut text = Vec::with_capacity(256);
    if !state.write(&mut text) {
        return false;
    }
    let start = slot.login.load(Relaxed) as usize;
    let known = start..start + slot.state.load(Relaxed) as usize;
    if slot.place().part(known).is_some_and(|known| known.holds(&text)) {
        return true;
    }
    if matches!(phase, Phase::Idle | Phase::Answered) {
        slot.enter(Phase::Busy, slot.flags());
    }
    slot.state.store(length(&text), Release);
    put(slot, start, &text)
}

fn put(slot: &Slot, start: usize, text: &[u8]) -> bool {
    slot.place().part(start..start + text.len()).is_some_and(|place| place.put(text))
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or_default()
}

const _: () = assert!(AREA < u32::MAX as usize);
