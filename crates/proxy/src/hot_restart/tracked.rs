//! A client's connection that is noted in the slot table: what it costs a statement is here.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::slot_table::{AREA, BYTES, INSERTED, NOWHERE, Phase, Slot, SlotTable, TRIES, slot_table};
use super::socket_info::cookie;
use super::{Output, RestoredClient, SentGreeting};
use crate::rt::{DetachedSocket, Socket};
use crate::state::SessionState;

/// A client's connection.
#[derive(Debug)]
pub struct TrackedSocket {
    // Ends before the socket does.
    entry: SlotGuard,
    pub(crate) socket: Socket,
}

/// What may become of a command that runs when the process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    /// It may run again: it only reads.
    Again,
    /// It may not, and leaves nothing behind that is tied to the process.
    Once,
    /// Nobody knows what it leaves behind before it has ended.
    Tied,
}

/// What is noted of a connection. When it goes, nothing can be gone on with.
#[derive(Debug)]
pub struct SlotGuard {
    slot: &'static Slot,
    /// Output that the client has had already, from another process.
    output: Cell<Output>,
    /// Whether the kernel counts what goes through the socket.
    is_counted: bool,
    /// Whether the state is not what was noted of it.
    has_new_state: Cell<bool>,
}

impl SlotGuard {
    /// Begins to note what becomes of a connection; `None` where nothing can be noted.
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
        // What stands there is of a connection that is gone.
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

    /// Goes on with what another process has noted.
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
                let Some(mut area) = slot_table.area(number) else { return };
                // SAFETY: the area is this connection's from `take_area` on.
                let area = unsafe { area.as_mut() };
                if let Some(place) = area.get_mut(..session.pending.len()) {
                    place.copy_from_slice(&session.pending);
                }
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

    /// From here on nothing can be gone on with, and nothing of the login is left.
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

    /// Where bytes are read into, so that they are not lost with this process: a part of the area.
    fn place(&self) -> Option<(&'static mut [u8], u64)> {
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
        let mut area = slot_table.area(number)?;
        // SAFETY: the area is this connection's until it is given back, and nobody else has a reference into it: the one
        // that is made here lives as long as one read.
        let area = unsafe { area.as_mut() };
        area.get_mut(used..).filter(|place| !place.is_empty()).map(|place| (place, read))
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
                match bytes(slot, range) {
                    Some(place) if !place.is_empty() => {
                        let room = place.len().min(buffer.len());
                        let place = &mut place[..room];
                        let count = self.transfer(|| read(&mut [IoSliceMut::new(place)]))?;
                        buffer[..count].copy_from_slice(&place[..count]);
                        self.count_read(before, count);
                        return Ok(count);
                    }
                    _ => {
                        self.forget();
                        return read(&mut [IoSliceMut::new(buffer)]);
                    }
                }
            }
            _ => {}
        }
        let Some((place, before)) = self.place() else {
            // Before the read: whoever finds bytes missing must not look for them in the area.
            slot.base.store(NOWHERE, Release);
            let before = slot.read.load(Relaxed);
            let count = self.transfer(|| read(&mut [IoSliceMut::new(buffer)]))?;
            self.count_read(before, count);
            return Ok(count);
        };
        let room = place.len().min(buffer.len());
        let (place, (front, rest)) = (&mut place[..room], buffer.split_at_mut(room));
        let count = self.transfer(|| match rest.is_empty() {
            true => read(&mut [IoSliceMut::new(place)]),
            false => read(&mut [IoSliceMut::new(place), IoSliceMut::new(rest)]),
        });
        match count {
            Ok(count) => {
                let held = count.min(room);
                front[..held].copy_from_slice(&place[..held]);
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
    /// A connection and what is noted of it.
    pub(crate) fn new(socket: Socket, entry: SlotGuard) -> TrackedSocket {
        TrackedSocket { entry, socket }
    }

    pub(crate) fn into_parts(self) -> (Socket, SlotGuard) {
        (self.socket, self.entry)
    }

    /// Reads what is there; `Ok(0)` is the end.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.entry.read_with(buffer, |places| match places {
            [place] => self.socket.try_read(place),
            places => self.socket.try_read_vectored(places),
        })
    }

    /// Writes what the client takes of `bytes`, but for what it has had already, and leaves the rest there; whether
    /// nothing is left to write.
    pub(crate) fn try_write_all(&self, bytes: &mut &[u8]) -> io::Result<bool> {
        let entry = &self.entry;
        match entry.output.get() {
            Output::Wanted => {}
            Output::AllButTheEnd => {
                *bytes = &[];
                return Ok(true);
            }
            Output::Had(had) => {
                let left = had.checked_sub(bytes.len() as u64).ok_or_else(|| {
                    io::Error::other("the login was answered in another way by the former process")
                })?;
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

    /// The greeting of so many bytes is about to be written.
    pub(crate) fn greets(&self, sent: &SentGreeting, greeting: usize) {
        note_greeting(self.entry.slot, sent, u32::try_from(greeting).unwrap_or_default());
        if let Some(slot_table) = slot_table() {
            slot_table.note_id(sent.id);
        }
    }

    /// The login is through, and from now on the client has what it is sent; false when it has had less of it, or more.
    pub(crate) fn has_logged_in(&self) -> bool {
        let had = self.entry.output.replace(Output::Wanted);
        !matches!(had, Output::Had(_))
    }

    /// The session is idle, in a state that can be gone on with; `rest` bytes were read that it has not looked at.
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

    /// The session's state is another value than before.
    pub(crate) fn has_new_state(&self) {
        self.entry.has_new_state.set(true);
    }

    /// A command leaves this process, and may run; `ahead` bytes were read behind it.
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

    /// So many bytes are about to be written, and then the session is idle, in the state it was in, but for an insert id.
    pub(crate) fn answer_ends(&self, length: usize, inserted: bool) {
        if matches!(self.entry.phase(), Phase::Running | Phase::Answering | Phase::Writing) {
            let slot = self.entry.slot;
            let mark = slot.written.load(Relaxed) + length as u64;
            slot.mark.store(mark, Release);
            slot.enter(Phase::Answered, slot.flags() | if inserted { INSERTED } else { 0 });
        }
    }

    /// What the session is in cannot be gone on with.
    pub(crate) fn is_tied(&self) {
        if self.entry.phase() != Phase::Lost {
            self.entry.enter(Phase::Busy);
        }
    }

    /// Nothing can be gone on with, for good.
    pub(crate) fn forget(&self) {
        self.entry.forget();
    }
}

fn note_greeting(slot: &Slot, sent: &SentGreeting, greeting: u32) {
    slot.id.store(sent.id, Relaxed);
    slot.offered.store(sent.offered.0, Relaxed);
    // SAFETY: the calling thread has the connection, and so the slot.
    unsafe { *slot.nonce.get() = sent.nonce };
    slot.greeting.store(greeting, Release);
}

/// Notes the state behind the login; false when there is no room for it.
fn note_state(slot: &Slot, state: &SessionState, phase: Phase) -> bool {
    let mut text = Vec::with_capacity(256);
    if !state.write(&mut text) {
        return false;
    }
    let start = slot.login.load(Relaxed) as usize;
    let known = start..start + slot.state.load(Relaxed) as usize;
    if bytes(slot, known).is_some_and(|known| *known == *text) {
        return true;
    }
    if matches!(phase, Phase::Idle | Phase::Answered) {
        slot.enter(Phase::Busy, slot.flags());
    }
    slot.state.store(length(&text), Release);
    put(slot, start, &text)
}

/// A part of what is noted of the login and the state.
fn bytes(slot: &Slot, range: Range<usize>) -> Option<&'static mut [u8]> {
    // SAFETY: the calling thread has the connection, and so the slot, and no reference into it outlives the function that
    // has asked for it. The mapping is never unmapped.
    let all: &'static mut [u8; BYTES] = unsafe { &mut *slot.bytes.get() };
    all.get_mut(range)
}

fn put(slot: &Slot, start: usize, text: &[u8]) -> bool {
    let place = bytes(slot, start..start + text.len());
    place.map(|place| place.copy_from_slice(text)).is_some()
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or_default()
}

const _: () = assert!(AREA < u32::MAX as usize);
